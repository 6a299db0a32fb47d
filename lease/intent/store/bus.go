package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease/intent"
)

const group = "workers"

// ServiceLease returns the name of the lease on a service.
func ServiceLease(service string) string { return core.ServiceLease(service) }

// TunerLease returns the name of the lease on a slot.
func TunerLease(slot string) string { return core.TunerLease(slot) }

// SessionOwner returns the owner of a service lease that the API acquired for a session (phase 1).
func SessionOwner(session string) string { return core.SessionOwner(session) }

// Entry is a start on the bus, as delivered to one worker.
type Entry struct {
	ID      string
	Type    string // "start"; other programs may write anything else
	Session string
	intent.Start
	Tries int    // deliveries, including this one
	From  string // the dead worker that had the entry; "": none
	Owner string // the worker in the session's record; only from Sweep
	Fence int64  // fence of the session's record; only from Sweep

	_ struct{}
}

// Bus is one worker's access to the bus.
type Bus struct {
	s      *Store
	worker string
	reader redis.UniversalClient // for one blocking read at a time

	foreign atomic.Pointer[[]string] // foreign keys that the last beat ignored
}

// Bus returns the access of the worker with that instance ID. Close ends a running Fetch.
func (s *Store) Bus(worker string) (*Bus, error) {
	own, err := redisstore.OwnClient(s.client, redisstore.Options{OpTimeout: s.opt.OpTimeout, PoolSize: 1, Hooks: s.opt.Leases.Hooks,
		Calls: s.calls})
	if err != nil {
		return nil, err
	}
	return &Bus{s: s, worker: worker, reader: own}, nil
}

// Close closes the connection of Fetch.
func (b *Bus) Close() error { return b.reader.Close() }

// Create creates the consumer group if it does not exist. Fetch calls it when the group is missing.
func (b *Bus) Create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.s.opt.OpTimeout)
	defer cancel()
	err := b.s.client.XGroupCreateMkStream(ctx, b.s.bus, group, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return unavailable(err)
	}
	return nil
}

// Fetch waits at most block for undelivered entries, and returns up to n. It must not be called concurrently.
func (b *Bus) Fetch(ctx context.Context, n int, block time.Duration) ([]Entry, error) {
	wait, cancel := context.WithTimeout(ctx, block+b.s.opt.OpTimeout)
	defer cancel()
	streams, err := b.reader.XReadGroup(wait, &redis.XReadGroupArgs{Group: group, Consumer: b.worker,
		Streams: []string{b.s.bus, ">"}, Count: int64(n), Block: block}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil && strings.HasPrefix(err.Error(), "NOGROUP"):
		return nil, b.Create(ctx) // Redis lost its data
	case err != nil:
		return nil, unavailable(err)
	}
	var entries []Entry
	for _, st := range streams {
		for _, m := range st.Messages {
			word := func(name string) string { v, _ := m.Values[name].(string); return v }
			entries = append(entries, Entry{ID: m.ID, Type: word("type"), Session: word("session"), Tries: 1,
				Start: startOf(word("service"), word("profile"), word("start"))})
		}
	}
	return entries, nil
}

// Sweep cleans up after dead workers. It ends their running sessions with ReasonLeaseLost and takes over their unfinished entries. It
// also returns unfinished entries delivered to this worker at least idle ago, because an answer may have been lost.
//
// A worker is dead once its last beat is life ago. Even then, its session counts as running while Redis has the service's lease for it.
// more reports that there is more work.
func (b *Bus) Sweep(ctx context.Context, life, idle time.Duration) (entries []Entry, more bool, err error) {
	reply, err := b.s.run(ctx, sweepScript, b.worker, life.Milliseconds(), sweepMax, idle.Milliseconds(),
		b.s.opt.Leases.LeasePrefix+ServiceLease(""))
	if err != nil {
		return nil, false, err
	}
	list, ok := reply.([]any)
	if !ok || len(list) == 0 {
		return nil, false, unavailable(errReply)
	}
	for _, item := range list[1:] {
		w, err := wordsOf(item, 10)
		if err != nil {
			return nil, false, err
		}
		e := Entry{ID: w[0], From: w[2], Type: w[3], Session: w[4], Start: startOf(w[5], w[8], w[9]), Owner: w[6]}
		e.Tries, _ = strconv.Atoi(w[1])
		e.Fence, _ = strconv.ParseInt(w[7], 10, 64)
		entries = append(entries, e)
	}
	return entries, fmt.Sprint(list[0]) == "1", nil
}

// startOf parses the start in an entry. A malformed number becomes -1, which Canonical refuses.
func startOf(service, profile, start string) intent.Start {
	ms, err := strconv.ParseInt(start, 10, 64)
	if err != nil {
		ms = -1
	}
	return intent.Start{ServiceRef: service, Profile: profile, StartMs: ms}
}

// sweepMax bounds the work of one call, so that it blocks Redis for at most 2 ms.
const sweepMax = 100

// Write is a worker's update of a session.
type Write struct {
	Session    string
	Service    string
	State      intent.State
	Reason     intent.Reason
	Detail     string
	Slot       string
	Fence      int64 // of the service lease; without a lease, of the record that the decision is based on
	TunerFence int64
	Ack        string // the entry that this write finishes

	_ struct{}
}

// Wrote is the outcome of a write.
type Wrote string

// The outcomes of Write. After WroteOK, no stop is pending.
const (
	WroteOK      Wrote = "K"
	WroteStop    Wrote = "S" // written, and a stop is pending
	WroteOver    Wrote = "O" // not written: the session has ended, a newer term has written, or another worker has taken over the start
	WroteMissing Wrote = "M" // not written: there is no session of this ID and service
)

// Write writes a session's state.
func (b *Bus) Write(ctx context.Context, w Write) (Wrote, error) {
	tunerFence := ""
	if w.TunerFence != 0 {
		tunerFence = strconv.FormatInt(w.TunerFence, 10)
	}
	reply, err := b.s.run(ctx, writeScript, w.Session, string(w.State), w.Fence, b.worker, w.Ack, tunerFence, w.Slot,
		string(w.Reason), w.Detail, w.Service, b.s.opt.Leases.LeasePrefix+ServiceLease(w.Service))
	if err != nil {
		return "", err
	}
	return Wrote(fmt.Sprint(reply)), nil
}

// Bury makes an entry a dead letter. It ends the entry's session with reason, unless reason is "", the session runs, or a term newer than
// fence has it. It ignores an entry with this ID that names another session, because another server numbered it.
func (b *Bus) Bury(ctx context.Context, e Entry, why string, fence int64, reason intent.Reason) error {
	_, err := b.s.run(ctx, buryScript, e.ID, why, e.Session, fence, string(reason), e.Tries, b.s.opt.DeadLetters)
	return err
}

// Beat keeps the worker, described by info, alive in the registry. stops are its sessions with a pending stop. begun counts the sessions
// that it has begun and not ended, by the records. server identifies the run of Redis. Another run may have an older copy.
func (b *Bus) Beat(ctx context.Context, info string) (stops []string, begun int, server string, err error) {
	reply, err := b.s.run(ctx, beatScript, b.worker, info)
	if err != nil {
		return nil, 0, "", err
	}
	words, err := wordsOf(reply, 3)
	if err != nil {
		return nil, 0, "", err
	}
	foreign := strings.Fields(words[2])
	b.foreign.Store(&foreign)
	if begun, err = strconv.Atoi(words[0]); err != nil {
		return nil, 0, "", unavailable(errReply)
	}
	return words[3:], begun, words[1], nil
}

// Foreign returns the dispensable keys that the last Beat found to hold another type. Without "v3:stops", stops come a beat later.
// Without "v3:ended", no record is deleted.
func (b *Bus) Foreign() []string {
	if keys := b.foreign.Load(); keys != nil {
		return *keys
	}
	return nil
}

// Disown ends, with ReasonLeaseLost, the sessions that run here only by their records. unknown returns, of the given sessions, those that
// do not run.
func (b *Bus) Disown(ctx context.Context, unknown func([]string) []string) error {
	reply, err := b.s.run(ctx, begunScript, b.worker)
	if err != nil {
		return err
	}
	ids, err := wordsOf(reply, 0)
	if err != nil {
		return err
	}
	for some := range slices.Chunk(unknown(ids), sweepMax) {
		args := []any{b.worker}
		for _, id := range some {
			args = append(args, id)
		}
		if _, err := b.s.run(ctx, disownScript, args...); err != nil {
			return err
		}
	}
	return nil
}

// Leave declares a worker dead: this one when it stops, or another that is known to be dead.
func (b *Bus) Leave(ctx context.Context, worker string) error {
	_, err := b.s.run(ctx, leaveScript, worker, b.s.notify)
	return err
}

// Listen calls stop and left for the messages on the channel until ctx ends. It calls up after each subscription, because it may have
// missed messages. Any client of Redis can publish there, so a message is only a reason to read the records (Store.StopAsked, Sweep).
func (b *Bus) Listen(ctx context.Context, stop, left func(string), up func()) {
	message := func(text string) {
		verb, id, _ := strings.Cut(text, " ")
		switch verb {
		case "stop":
			stop(id)
		case "left":
			left(id)
		}
	}
	renew := cmp.Or(b.s.opt.Leases.RenewInterval, b.s.opt.Leases.TTL/3)
	redisstore.Listen(ctx, b.s.client, b.s.notify, b.s.opt.OpTimeout, renew, message, func(err error) {
		if err == nil {
			up()
		}
	})
}
