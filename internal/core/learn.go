package core

import (
	"github.com/leasestorm/leasestorm/internal/place"
	"github.com/leasestorm/leasestorm/internal/term"
)

// advance moves time. If the clocks stepped, it shortens and doubts every term.
func (c *Core) advance(now Now) {
	step := c.k.Advance(now)
	if step == 0 {
		return
	}
	c.tells.tell(Tell{Kind: TellClock, Cause: CauseClock, Wait: step})
	for _, l := range c.held {
		if c.k.Shift(&l.Term, step) {
			c.timers.armLease(l, max(l.Until(), c.k.Now()))
		}
		c.doubt(l, CauseClock, "")
		c.requestRenew(l)
	}
}

// judged returns a if it is believed and counts, and otherwise a failed answer.
func (c *Core) judged(in *inflight, a *Answer) *Answer {
	if a.Failure != FailNone {
		return a
	}
	about := a.about()
	v := c.k.Judge(&in.op, about)
	if v.Cause != CauseNone && c.k.Reject(&in.op, about) {
		c.tells.tell(Tell{Kind: TellRejected, Cause: v.Cause, Text: a.Epoch, Wait: a.Group})
	}
	return a.worth(v)
}

// learn updates Redis' clock and epoch from an answer. After a loss of data it doubts all held terms, reasserts them (or renews them, if
// the quarantine is over) and starts a discovery.
func (c *Core) learn(in *inflight, a *Answer) {
	news := c.k.Learn(&in.op, a.about())
	if news.Jump != 0 {
		c.tells.tell(Tell{Kind: TellClock, Cause: CauseFailed, Wait: news.Jump, Text: "redis"})
	}
	if news.Epoch == term.EpochSame {
		return
	}
	c.tells.tell(Tell{Kind: TellEpoch, Cause: news.Cause, Text: a.Epoch, Wait: a.Quarantine})
	if c.k.Outside() {
		c.tells.tell(Tell{Kind: TellOutside, Cause: CauseGroup, Wait: a.Group})
	}
	if news.Epoch == term.EpochFirst {
		return
	}
	if c.k.Replicated() { // each attachment of a replica ends an epoch, so earlier failures are no reason to wait
		c.paces.of[OpReassert] = pace{}
	}
	for _, l := range c.held {
		if l.yielding && l.cause == CauseRebalance && !c.own.Leaving() {
			c.keep(l, CauseForgot) // in a quarantine nobody could acquire it; a draining instance keeps nothing
		}
		l.Forgot()
		c.doubt(l, CauseForgot, a.Epoch)
		c.requestRenew(l)
	}
	if news.Open {
		c.observeWanted() // the quarantine ended early, and waiters wait for its planned end
	}
	c.own.Refresh()
	c.table.Discover(place.DiscoverEpoch)
}

// Disbelieved returns the epoch of the server if it is not believed, "" once the answer to a later op is believed.
func (c *Core) Disbelieved() string { return c.k.Disbelieved() }

// askIdle reads the epoch once a renewal interval, if an instance without a heartbeat holds no lease and either wants none or may not
// acquire yet. Such an instance sends no other requests. Without this read it would notice a loss of data, or a jump of Redis' clock, only
// when it wants a lease. It would then be blocked for a TTL from that moment on (G9, I3, I5).
func (c *Core) askIdle() {
	if !c.cfg.NoHeartbeat || len(c.held) > 0 || c.silence.on || c.own.Leaving() {
		return
	}
	if until, _ := c.Blocked(); until != 0 || len(c.leases) == 0 {
		c.req.probe = true
	}
}

func (c *Core) catchUp() {
	c.own.Refresh()
	for _, l := range c.held {
		if (l.Uncertain() || l.Forgotten()) && l.Op() == 0 {
			c.requestRenew(l)
		}
	}
}

// Blocked returns until when nothing may be acquired, and why; 0 if it may.
func (c *Core) Blocked() (Time, Cause) {
	until, cause := c.k.Blocked()
	if cause == CauseNone && c.paces.paced(OpAcquire) {
		return c.paces.of[OpAcquire].until, CauseFailed
	}
	return until, cause
}
