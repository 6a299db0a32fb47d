package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
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
		return Diagnose(err)
	}
	text := fmt.Sprintf("%s %s %s %s %d", wordGive, g.From, g.Owner, g.Lease, g.Fence)
	if err := s.client.Publish(ctx, s.wire.opt.Channel, text).Err(); err != nil {
		return Diagnose(err)
	}
	return nil
}

// Asked returns in whose name AskBack asks for a term, as Redis has it: a notice may say another. "": nobody does, or Redis does not
// answer.
func (s *Store) Asked(ctx context.Context, g Give) (from string) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	from, ok := strings.CutSuffix(s.client.Get(ctx, s.askKey(g.Lease)).Val(), g.record())
	if !ok || CheckInstance(from) != nil {
		return ""
	}
	return from
}

// askKey is where AskBack says what it asks of a lease. By its form it is a key of fences, which instances may read, and no lease's,
// whose names have no space.
func (s *Store) askKey(lease string) string {
	k := newKeys(1)
	k.fence(s.wire.opt.LeasePrefix, lease+" asked", s.wire.tagged)
	return k.list()[0]
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
