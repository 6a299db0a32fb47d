package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Errors of FenceOff.
var (
	// ErrNotCurrent says that a term is not the present one of its lease: nothing was done.
	ErrNotCurrent = errors.New("not the present term of the lease")
	// ErrNoExpiry says that a lease never expires, and how long an owner may believe in it is not known: nothing was done.
	ErrNoExpiry = errors.New("the lease never expires, and the group has agreed on no quarantine")
)

// AskBack asks the owner of a term to end its work and to give the lease back, in the name of from. What it asks stands in a key, for life:
// the notice, which anybody who may publish can send, only has the owner read it (Asked). It may be lost, and an owner of an earlier
// version passes it over.
func (s *Store) AskBack(ctx context.Context, from string, life time.Duration, h Holding) error {
	for _, instance := range []string{from, h.Owner} {
		if err := CheckInstance(instance); err != nil {
			return err
		}
	}
	if err := s.CheckLease(h.ID); err != nil {
		return err
	}
	g := Give{From: from, Lease: h.ID, Owner: h.Owner, Fence: h.Fence}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	if err := s.client.Set(ctx, s.askKey(g.Lease), g.From+g.record(), max(life, time.Millisecond)).Err(); err != nil {
		return diagnose(err)
	}
	text := fmt.Sprintf("%s %s %s %s %d", wordGive, g.From, g.Owner, g.Lease, g.Fence)
	if err := s.client.Publish(ctx, s.wire.opt.Channel, text).Err(); err != nil {
		return diagnose(err)
	}
	return nil
}

// Asked returns in whose name AskBack asks for a term, as Redis shows: a notice may say another. "": nobody does, or Redis cannot be asked.
func (s *Store) Asked(ctx context.Context, g Give) (from string) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	key, last := s.askKey(g.Lease), int64(NameMax+len(g.record())) // whoever may publish has it read
	text, err := s.client.GetRange(ctx, key, 0, last).Result()
	if Denies(err) {
		text, err = askedScript.Run(ctx, s.client, []string{key}, last).Text()
	}
	if err != nil {
		return ""
	}
	if from, ok := strings.CutSuffix(text, g.record()); ok && CheckInstance(from) == nil {
		return from
	}
	return ""
}

// askKey is where AskBack says what it asks of a lease. By its form it is a key of fences, which instances may read, and no lease's,
// whose names have no space.
func (s *Store) askKey(lease string) string {
	k := newKeys(1, keyBytes)
	k.fence(s.wire.opt.LeasePrefix, lease+" asked", s.wire.tagged)
	return k.list()[0]
}

// FenceOff takes the lease from the owner of a term, for nobody: until it expires, which it does when it would have, it is by's. The owner
// loses it at its next renewal at the latest, and its last trust window has closed before anybody can be granted it (G1). Returned is the
// fence that it has now. ErrNotCurrent, ErrNoExpiry: nothing was done. ErrUnacknowledged: it was done, and fewer replicas than count have
// it: a failover may undo it, which gives nobody anything.
func (s *Store) FenceOff(ctx context.Context, by string, h Holding) (fence int64, err error) {
	if err := CheckInstance(by); err != nil {
		return 0, err
	}
	if err := s.CheckLease(h.ID); err != nil {
		return 0, err
	}
	epoch, err := s.epoch(ctx)
	if err != nil {
		return 0, diagnose(err)
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	server, err := s.server(ctx)
	if err != nil {
		return 0, diagnose(err)
	}
	k := newKeys(3, 3*keyBytes)
	k.add(s.wire.opt.LeasePrefix, h.ID)
	k.fence(s.wire.opt.LeasePrefix, h.ID, s.wire.tagged)
	k.add(s.wire.opt.groupKey(), "")
	last := ""
	if h.Fence > 0 {
		last = strconv.FormatInt(h.Fence, 10)
	}
	pipe := server.Pipeline()
	done := fenceOffScript.Eval(ctx, pipe, k.list(), h.Owner, last, by, s.wire.opt.FenceTTL.Milliseconds())
	acks := acksOf(epoch)
	var acked *redis.Cmd
	if acks > 0 {
		acked = pipe.Do(ctx, "WAIT", acks, Patience(s.wire.opt.OpTimeout).Milliseconds())
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	if fence, err = fencedOff(done, &h); err != nil || acks == 0 {
		return fence, err
	}
	if n, err := acked.Int(); err != nil || n < acks {
		return fence, Unacknowledged(fmt.Sprintf("%d of %d replicas acknowledged that the lease %q was fenced off", n, acks, h.ID))
	}
	return fence, nil
}

// Acknowledged reports how many replicas have all that the server has done by now, and how many must have what counts: 0, 0 where that is
// none. It writes nothing: a connection waits for what was done by its last command, whoever did it.
func (s *Store) Acknowledged(ctx context.Context) (have, need int, err error) {
	epoch, err := s.epoch(ctx)
	if err != nil {
		return 0, 0, diagnose(err)
	}
	if need = acksOf(epoch); need == 0 {
		return 0, 0, nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	server, err := s.server(ctx)
	if err != nil {
		return 0, need, diagnose(err)
	}
	pipe := server.Pipeline()
	pipe.Get(ctx, s.wire.opt.EpochKey)
	acked := pipe.Do(ctx, "WAIT", need, Patience(s.wire.opt.OpTimeout).Milliseconds())
	_, _ = pipe.Exec(ctx)
	if have, err = acked.Int(); err != nil {
		return 0, need, diagnose(err)
	}
	return have, need, nil
}

func fencedOff(done *redis.Cmd, h *Holding) (fence int64, err error) {
	reply, err := done.Slice()
	if err != nil {
		return 0, diagnose(err)
	}
	if len(reply) != 2 {
		return 0, fmt.Errorf("%w: the reply of a script holds %d elements of 2", ErrNotRedis, len(reply))
	}
	switch text, _ := reply[1].(string); reply[0] {
	case int64(1):
		fence, _ = strconv.ParseInt(text, 10, 64)
		return fence, nil
	case int64(-1):
		return 0, fmt.Errorf("%w: %q", ErrNoExpiry, h.ID)
	default:
		return 0, fmt.Errorf("%w: %q of %q, fence %d", ErrNotCurrent, h.ID, h.Owner, h.Fence)
	}
}

// Give is what a notice of AskBack asks for.
type Give struct {
	From, Lease, Owner string
	Fence              int64
}

// record is what AskBack leaves for Asked behind the name of who asks.
func (g Give) record() string { return fmt.Sprintf(" %s %d", g.Owner, g.Fence) }

// NoticeGive is the kind of the notices of AskBack. The core knows none: what to do about work is the shell's.
const NoticeGive core.NoticeKind = 1 << 7

// GiveOf returns what a notice of NoticeGive asks for.
func GiveOf(n *core.Notice) (g Give, ok bool) {
	if n.Kind != NoticeGive || len(n.IDs) != 1 || len(n.Peers) != 2 {
		return g, false
	}
	fence, err := strconv.ParseInt(n.Peers[1], 10, 64)
	return Give{From: n.From, Lease: n.IDs[0], Owner: n.Peers[0], Fence: fence}, err == nil && fence > 0
}
