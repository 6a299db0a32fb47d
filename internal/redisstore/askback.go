package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// AskBack asks the owner of a term, on behalf of from, to end its work and release the lease. Redis keeps the request for life. The
// notice only makes the owner read the request (Asked), because anyone with publish rights can send one. Notices can be lost.
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

// Asked returns the instance that requested the term's lease, or "" if there is no request or Redis does not answer.
func (s *Store) Asked(ctx context.Context, g Give) (from string) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	from, ok := strings.CutSuffix(s.client.Get(ctx, s.askKey(g.Lease)).Val(), g.record())
	if !ok || CheckInstance(from) != nil {
		return ""
	}
	return from
}

// askKey returns the key of AskBack's request. It looks like a fence key, so ACLs allow it. No lease name contains its space.
func (s *Store) askKey(lease string) string {
	k := newKeys(1)
	k.fence(s.wire.opt.LeasePrefix, lease+" asked", s.wire.tagged)
	return k.list()[0]
}

// Give is the content of an AskBack notice.
type Give struct {
	From, Lease, Owner string
	Fence              int64
}

func (g Give) record() string { return fmt.Sprintf(" %s %d", g.Owner, g.Fence) }

// NoticeGive is the kind of an AskBack notice. The caller handles it, not the core.
const NoticeGive core.NoticeKind = 1 << 7

// GiveOf returns the content of a NoticeGive notice.
func GiveOf(n *core.Notice) (g Give, ok bool) {
	if n.Kind != NoticeGive || len(n.IDs) != 1 || len(n.Peers) != 2 {
		return g, false
	}
	fence, err := strconv.ParseInt(n.Peers[1], 10, 64)
	return Give{From: n.From, Lease: n.IDs[0], Owner: n.Peers[0], Fence: fence}, err == nil && fence > 0
}
