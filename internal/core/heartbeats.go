package core

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/place"
)

// beat sets the heartbeat once the renewals under way are answered, so that it expires no later than any held lease. The others watch
// it in place of the leases, so it must not outlive them (G5).
func (c *Core) beat() {
	if !c.own.BeatDue() || c.paces.paced(OpBeat) || c.req.underWay.any(OpRenew, OpReassert) {
		return
	}
	if !c.own.Beat() {
		return
	}
	ttl := c.cfg.TTL
	for _, l := range c.held {
		if l.Until() > c.k.Now() {
			ttl = min(ttl, int64(l.Until()-c.k.Now())+c.cfg.Margin())
		}
	}
	c.req.send(OpBeat, nil, nil)
	op := &c.req.sent[len(c.req.sent)-1]
	op.TTL = ttl / Millisecond * Millisecond
	c.own.BeatSent(op.Deadline + Time(ttl))
}

func (c *Core) readHeartbeats() {
	if !c.members.Reading() || c.paces.paced(OpNodes) {
		return
	}
	for items := range slices.Chunk(c.members.Reads(), c.cfg.Batch) {
		c.req.send(OpNodes, items, nil)
	}
}

func (c *Core) nodesAnswered(in *inflight, a *Answer) {
	for k, it := range in.op.Items {
		switch r := a.result(k); r.Outcome {
		case OutUnknown:
			c.members.Unread(it.ID)
		case OutGone:
			if i, gone := c.members.Absent(&in.op, it.ID); gone {
				c.watch(i)
				c.table.Discover(place.DiscoverGone)
			}
		default:
			if i, overdue := c.members.Present(&in.op, it.ID, r.PTTL); overdue {
				c.watch(i)
			}
		}
	}
}

// watch reads the leases of instance o, which seems dead, to acquire them when they expire. Free sessions may have been left to o as
// their target, so a discovery follows. watch does nothing while acquisitions are blocked, for the same reason as takeFree.
func (c *Core) watch(o int32) {
	if until, _ := c.Blocked(); !c.cfg.Place || until != 0 {
		return
	}
	if c.table.AnyFree() {
		c.table.Discover(place.DiscoverGoneHeir)
	}
	for _, i := range c.table.Owned(o) {
		l := c.lease(c.table.ID(i))
		if l.Phase() == idle && len(l.stuck) == 0 && !l.place {
			l.place = true
			c.observe(l)
		}
	}
}

func (c *Core) acquisitionsFail(in *inflight) {
	if pause := c.own.AcquisitionFailed(in.op.Sent); pause > 0 {
		c.tells.tell(Tell{Kind: TellWithdrawn, Wait: pause})
	}
}
