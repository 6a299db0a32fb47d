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

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease/intent"
)

const group = "workers"

type bus struct {
	*Store
	worker string
	reader redis.UniversalClient // for one blocking read at a time

	foreign atomic.Pointer[[]string] // foreign keys that the last beat ignored
}

func init() {
	intentbus.Open = func(s any, worker string) (intentbus.Bus, error) { return s.(*Store).open(worker) }
}

func (s *Store) open(worker string) (*bus, error) {
	own, err := redisstore.OwnClient(s.client, redisstore.Options{OpTimeout: s.opt.OpTimeout, PoolSize: 1, Hooks: s.opt.Leases.Hooks,
		Calls: s.calls})
	if err != nil {
		return nil, err
	}
	return &bus{Store: s, worker: worker, reader: own}, nil
}

func (b *bus) Close() error { return b.reader.Close() }

func (b *bus) Explain(err error) error {
	if denied := redisstore.Explain(b.client, b.opt.workerRules(b.client), err); denied != nil {
		return denied
	}
	return err
}

func (b *bus) Create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, b.opt.OpTimeout)
	defer cancel()
	err := b.client.XGroupCreateMkStream(ctx, b.bus, group, "0").Err()
	if err != nil && !strings.HasPrefix(err.Error(), "BUSYGROUP") {
		return unavailable(err)
	}
	return nil
}

func (b *bus) Fetch(ctx context.Context, n int, block time.Duration) ([]intentbus.Entry, error) {
	wait, cancel := context.WithTimeout(ctx, block+b.opt.OpTimeout)
	defer cancel()
	streams, err := b.reader.XReadGroup(wait, &redis.XReadGroupArgs{Group: group, Consumer: b.worker,
		Streams: []string{b.bus, ">"}, Count: int64(n), Block: block}).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return nil, nil
	case err != nil && strings.HasPrefix(err.Error(), "NOGROUP"):
		return nil, b.Create(ctx) // Redis lost its data
	case err != nil:
		return nil, unavailable(err)
	}
	var entries []intentbus.Entry
	for _, st := range streams {
		for _, m := range st.Messages {
			word := func(name string) string { v, _ := m.Values[name].(string); return v }
			entries = append(entries, intentbus.Entry{ID: m.ID, Type: word("type"), Session: word("session"), Tries: 1,
				Request: requestOf(word("service"), word("profile"), word("start"))})
		}
	}
	return entries, nil
}

func (b *bus) Sweep(ctx context.Context, life, idle time.Duration) (entries []intentbus.Entry, more bool, err error) {
	reply, err := b.run(ctx, sweepScript, b.worker, life.Milliseconds(), sweepMax, idle.Milliseconds(),
		b.leaseKey(""))
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
		e := intentbus.Entry{ID: w[0], From: w[2], Type: w[3], Session: w[4], Request: requestOf(w[5], w[8], w[9]), Owner: w[6]}
		e.Tries, _ = strconv.Atoi(w[1])
		e.Fence, _ = strconv.ParseInt(w[7], 10, 64)
		entries = append(entries, e)
	}
	return entries, fmt.Sprint(list[0]) == "1", nil
}

// requestOf parses the request in an entry. A malformed number becomes -1,
// which Canonical refuses.
func requestOf(resource, profile, start string) intent.Request {
	ms, err := strconv.ParseInt(start, 10, 64)
	if err != nil {
		ms = -1
	}
	return intent.Request{Resource: resource, Profile: profile, At: ms}
}

// sweepMax bounds the work of one call, so that it blocks Redis for at most 2
// ms.
const sweepMax = 100

func (b *bus) Write(ctx context.Context, w intentbus.Write) (intentbus.Wrote, error) {
	slotFence := ""
	if w.SlotFence != 0 {
		slotFence = strconv.FormatInt(w.SlotFence, 10)
	}
	reply, err := b.run(ctx, writeScript, w.Session, string(w.State), w.Fence, b.worker, w.Ack, slotFence, w.Slot,
		b.names.Reason(string(w.Reason)), w.Detail, w.Resource, b.leaseKey(w.Resource))
	if err != nil {
		return "", err
	}
	return intentbus.Wrote(fmt.Sprint(reply)), nil
}

func (b *bus) Bury(ctx context.Context, e intentbus.Entry, why string, fence int64, reason intent.Reason) error {
	_, err := b.run(ctx, buryScript, e.ID, why, e.Session, fence, b.names.Reason(string(reason)), e.Tries, b.opt.DeadLetters)
	return err
}

func (b *bus) Beat(ctx context.Context, info string) (stops []string, begun int, server string, err error) {
	reply, err := b.run(ctx, beatScript, b.worker, info)
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

func (b *bus) Foreign() []string {
	if keys := b.foreign.Load(); keys != nil {
		return *keys
	}
	return nil
}

func (b *bus) Disown(ctx context.Context, unknown func([]string) []string) error {
	reply, err := b.run(ctx, begunScript, b.worker)
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
		if _, err := b.run(ctx, disownScript, args...); err != nil {
			return err
		}
	}
	return nil
}

func (b *bus) Leave(ctx context.Context, worker string) error {
	_, err := b.run(ctx, leaveScript, worker, b.notify)
	return err
}

func (b *bus) Listen(ctx context.Context, stop, left func(string), up func()) {
	message := func(text string) {
		verb, id, _ := strings.Cut(text, " ")
		switch verb {
		case "stop":
			stop(id)
		case "left":
			left(id)
		}
	}
	renew := cmp.Or(b.opt.Leases.RenewInterval, b.opt.Leases.TTL/3)
	redisstore.Listen(ctx, b.client, b.notify, b.opt.OpTimeout, renew, message, func(err error) {
		if err == nil {
			up()
		}
	})
}
