package core

import (
	"maps"
	"slices"
)

// phase is where a lease stands for this instance.
type phase uint8

const (
	idle      phase = iota // not ours; the entry exists because the lease is wanted, watched or blocked
	acquiring              // asked for, not answered
	owned                  // ours until lease.until
	releasing              // given back, not confirmed: nothing is acquired meanwhile
)

// queued stands in lease.op while the lease is in a queue of this step.
const queued = ^uint64(0)

// lease is one lease as this instance sees it. An instance has an entry for what it holds, wants or watches, not for all
// there are.
type lease struct {
	id     string
	heir   string // releasing: who shall take it
	holder string // idle: who held it when last seen

	fence int64
	until Time   // owned: end of the trust window
	exp   Time   // idle: when Redis lets the holder's lease expire, as far as known
	since Time   // yielding: when its work was asked to end; releasing: when it was given back
	op    uint64 // the only op whose answer counts for it; 0 none

	gen uint32 // of its timer
	pos int32  // owned: index in Core.held

	session int32 // index in fleet.sessions, nobody if it is not one of them

	phase phase
	cause Cause // yielding: why

	want       bool // a user asked for it
	wait       bool // and waits until it is held
	place      bool // placement is after it
	uncertain  bool // an attempt failed: not believed until renewed
	reassert   bool // Redis forgot since it was last confirmed
	yielding   bool // its work is being ended
	stuck      bool // its work does not end: never acquired again before that
	unanswered bool // an acquire was not answered: the key may be ours
	read       bool // idle: the next wake reads; else it acquires
	freed      bool // acquiring: a release of it was heard meanwhile
	heirOf     bool // acquiring: it was released to this instance
	ordered    bool // idle: at the next wake, first wait for this instance's turn
	told       bool // releasing: a failed release was told
	missing    bool // owned: its session was not there at the last look
}

func (c *Core) want(id string, wait bool) {
	l := c.lease(id)
	l.want, l.wait = true, wait
	if l.phase == idle {
		c.tryAcquire(l)
	}
}

// tryAcquire asks for l if that is allowed now.
func (c *Core) tryAcquire(l *lease) {
	until, cause := c.Blocked()
	switch {
	case l.phase != idle:
		return
	case c.draining || !c.started:
		c.refuse(l, CauseDrain, "", 0, "")
		return
	case l.stuck:
		c.refuse(l, CauseStuck, "", 0, "")
		return
	case until != 0:
		c.refuse(l, cause, "", int64(until-c.now.Mono), c.refusal.text)
		return
	}
	l.phase = acquiring
	l.ordered, l.freed, l.heirOf = false, false, false
	c.acquiring++
	c.queue.add(OpAcquire, l)
}

// refuse ends an acquisition that did not succeed and decides when the next one may. wait is how long, if that is known
// other than by l.exp.
func (c *Core) refuse(l *lease, cause Cause, owner string, wait int64, text string) {
	c.answered(l)
	if cause == CauseHeld {
		wait = int64(l.exp - c.now.Mono)
	}
	c.tell(Tell{Kind: TellRefused, Cause: cause, ID: l.id, Owner: owner, Wait: wait, Text: text})
	if l.want && !l.wait {
		l.want = false
	}
	if cause == CauseWrongType {
		// Somebody else's key, and nobody's fault here. It looks free, so it is asked about once a TTL whatever looks show.
		l.unanswered, l.holder = false, ""
		wait = c.cfg.TTL
	}
	again := l.wait || l.place || l.unanswered
	switch cause {
	case CauseDrain:
		again = false
	case CauseStuck:
		return
	}
	if !again {
		c.forget(l)
		return
	}
	if cause == CauseHeld {
		if l.place && !l.want && c.heartbeatFresh(owner) {
			c.forget(l) // its owner's heartbeat is watched instead
			return
		}
		c.awaitExpiry(l)
		return
	}
	l.read = false
	c.armLease(l, c.now.Mono+Time(max(wait, Millisecond)+c.stagger(l)))
}

// awaitExpiry makes l wake when the holder's lease is about to run out: a little before to read it once more, and if that
// read was just made, at the expiry itself in this instance's turn.
func (c *Core) awaitExpiry(l *lease) {
	l.ordered = false
	if lead := l.exp - Time(c.cfg.Lead); lead > c.now.Mono {
		l.read = true
		c.armLease(l, lead)
		return
	}
	l.read = false
	c.armLease(l, max(l.exp, c.now.Mono)+Time(c.stagger(l)))
}

// wakeLease does what l's timer was set for; at is when it was due.
func (c *Core) wakeLease(l *lease, at Time) {
	switch l.phase {
	case owned:
		if c.now.Mono < l.until {
			c.armLease(l, l.until) // renewed since
			return
		}
		c.lost(l, CauseExpired, "")
	case releasing:
		c.retryRelease(l)
	case idle:
		switch {
		case l.stuck:
		case c.unwanted(l) && !l.unanswered:
			c.forget(l)
		case c.silence.on:
			// What cannot be heard cannot be used if it is won.
			c.armLease(l, c.now.Mono+Time(c.cfg.MaxProbe))
		case l.ordered:
			l.ordered, l.read = false, false
			c.armLease(l, c.now.Mono+Time(max(c.stagger(l), c.cfg.Stagger)))
		case l.read || c.unwanted(l) || c.now.Mono > at+Time(c.cfg.Lead):
			c.observe(l) // also when this instance slept through its turn
		default:
			c.tryAcquire(l)
		}
	}
}

// unwanted reports whether nobody here is after l any more: no user, and its session is gone or paused. If an attempt to
// acquire it was not answered it is looked at, to give back what that won, and not tried again.
func (c *Core) unwanted(l *lease) bool {
	return !l.want && (!l.place || l.session == nobody)
}

// answered ends an attempt to acquire, if one is under way.
func (c *Core) answered(l *lease) {
	l.op = 0
	if l.phase == acquiring {
		l.phase = idle
		c.acquiring--
	}
}

func (c *Core) acquireAnswered(in *inflight, a *Answer) {
	if c.unable > 0 || c.withdrawals > 0 {
		c.unable, c.withdrawals = 0, 0
		c.discover(discoverAble)
	}
	for i, l := range in.leases {
		if l.op != in.op.Seq {
			continue
		}
		c.answered(l)
		if a.Stale {
			c.tryAcquire(l)
			continue
		}
		r := a.result(i)
		switch r.Outcome {
		case OutGranted, OutAdopted:
			c.granted(l, in, r)
		case OutHeld:
			l.unanswered = false
			l.holder = r.Owner
			l.exp = c.heldUntil(in, r.PTTL)
			if l.freed {
				c.tryAcquire(l) // it was held when this was answered, and has been given back since
				continue
			}
			c.setOwner(l, r.Owner)
			switch {
			case l.heirOf:
				c.discover(discoverHeir)
			case l.place && c.fleet.anyFree && r.Owner != "" && r.Owner != c.self:
				c.discover(discoverOvertaken)
			}
			c.refuse(l, CauseHeld, r.Owner, 0, "")
		case OutQuarantine:
			c.refuse(l, CauseQuarantine, "", a.Quarantine, "")
		case OutWrongType:
			c.refuse(l, CauseWrongType, "", 0, a.Text)
		default:
			c.refuse(l, CauseFailed, "", c.cfg.MaxProbe, a.Text)
		}
	}
	c.drainedYet()
}

// granted begins a term. Trust is counted from the stamp of the attempt (G1).
func (c *Core) granted(l *lease, in *inflight, r *Result) {
	c.effective(OpAcquire)
	c.epoch.fence = max(c.epoch.fence, r.Fence)
	until := in.op.Sent + Time(c.cfg.TTL-c.margin)
	if until <= c.now.Mono || in.op.Seq <= c.clock.stepped {
		// The answer came after the window it opens. The key is ours all the same: ask again and adopt it.
		l.unanswered = true
		c.traces.leave(l.id)
		c.tryAcquire(l)
		return
	}
	if r.Outcome == OutGranted {
		c.suspect(l)
	}
	l.unanswered = false
	l.fence, l.until = r.Fence, until
	l.uncertain, l.reassert, l.yielding, l.wait, l.missing = false, false, false, false, false
	l.phase = owned
	l.pos = int32(len(c.held))
	c.held = append(c.held, l)
	c.holds(l, true)
	c.armLease(l, until)
	c.setOwner(l, c.self)
	c.tell(Tell{Kind: TellAcquired, ID: l.id, Fence: l.fence, Until: until, UntilWall: c.wall(until)})
	switch { // is anybody left to use it?
	case c.draining:
		c.release(l, CauseDrain)
	case !l.want && !l.place:
		c.release(l, CauseRequested)
	case c.unwanted(l):
		c.discover(discoverUnwanted) // which shows whether its session is really gone
	}
}

func (c *Core) wall(t Time) int64 { return int64(t) + c.clock.offset }

// expiry is when a lease that had pttl left while op was under way expires, on the own clock.
func (c *Core) expiry(in *inflight, pttl int64) Time {
	return in.op.Sent + (c.now.Mono-in.op.Sent)/2 + Time(pttl+Millisecond)
}

// heldUntil is when a lease that another holds is worth an attempt. A key without an end is a foreign hand's work: it is asked
// about once a TTL, not at the speed of the network.
func (c *Core) heldUntil(in *inflight, pttl int64) Time {
	if pttl <= 0 {
		return c.now.Mono + Time(c.cfg.TTL)
	}
	return c.expiry(in, pttl)
}

// renewAll is the renewal tick: everything held, in as few calls as it takes, and then the heartbeat, so that both expire
// together when the instance dies.
func (c *Core) renewAll() {
	c.tellSilent()
	c.traces.age(c.now.Mono, c.cfg.TTL)
	c.queue.beat = !c.cfg.NoHeartbeat
	for _, l := range c.held {
		switch {
		case c.silence.on:
			c.doubt(l, CauseNoAnswer, c.silence.text)
		case l.op == 0:
			c.requestRenew(l)
		}
	}
	c.askIdle()
}

func (c *Core) requestRenew(l *lease) {
	if l.reassert && c.epoch.quarantine <= c.now.Mono {
		l.reassert = false // too late to assert; if the key is still there it can simply be renewed
	}
	if l.reassert {
		c.queue.add(OpReassert, l)
	} else {
		c.queue.add(OpRenew, l)
	}
}

func (c *Core) renewAnswered(in *inflight, a *Answer) {
	for i, l := range in.leases {
		if l.op != in.op.Seq {
			continue
		}
		l.op = 0
		if a.Stale {
			c.requestRenew(l)
			continue
		}
		switch r := a.result(i); r.Outcome {
		case OutRenewed, OutReasserted:
			c.renewed(l, in)
		case OutLost:
			cause := CauseGone
			if r.Owner != "" {
				cause = CauseTaken
			}
			c.lost(l, cause, r.Owner)
		case OutSuperseded:
			c.lost(l, CauseSuperseded, r.Owner)
		case OutClosed:
			l.reassert = false
			c.requestRenew(l)
		case OutWrongType:
			c.lost(l, CauseWrongType, "")
		default:
			c.doubt(l, CauseFailed, a.Text)
			c.requestRenew(l)
		}
	}
}

// renewed lengthens a term. An older answer shortens nothing; an answer that comes after its own window is worth nothing
// but a reason to ask again.
func (c *Core) renewed(l *lease, in *inflight) {
	until := in.op.Sent + Time(c.cfg.TTL-c.margin)
	if until <= c.now.Mono {
		c.doubt(l, CauseNoAnswer, "answered after its own window")
		c.requestRenew(l)
		return
	}
	l.until = max(l.until, until)
	l.uncertain, l.reassert = false, false
	c.tell(Tell{Kind: TellRenewed, ID: l.id, Fence: l.fence, Until: l.until, UntilWall: c.wall(l.until)})
}

// doubt makes a term uncertain (docs/specification.md, 001-27): nothing begins under it until it is renewed (G4). What
// follows is a read and then a quick retry, not the next tick.
func (c *Core) doubt(l *lease, cause Cause, text string) {
	again := l.uncertain
	if l.phase != owned {
		return
	}
	l.uncertain = true
	c.tell(Tell{Kind: TellUncertain, Cause: cause, Again: again, ID: l.id, Fence: l.fence, Until: l.until,
		UntilWall: c.wall(l.until), Text: text})
}

// lost ends a term that was not given back.
func (c *Core) lost(l *lease, cause Cause, owner string) {
	c.unhold(l)
	c.traces.leave(l.id)
	l.phase = idle
	l.holder = owner
	c.tell(Tell{Kind: TellLost, Cause: cause, ID: l.id, Fence: l.fence, Owner: owner})
	c.setOwner(l, owner)
	placed := l.place
	l.want, l.wait, l.place = false, false, false
	if !l.stuck {
		c.forget(l)
	}
	if placed && !c.silence.on {
		c.discover(discoverLost)
	}
	c.drainedYet()
}

// unhold takes l out of the held ones. Whatever is still to be answered for the term is void.
func (c *Core) unhold(l *lease) {
	last := len(c.held) - 1
	c.held[l.pos] = c.held[last]
	c.held[l.pos].pos = l.pos
	c.held[last] = nil
	c.held = c.held[:last]
	c.holds(l, false)
	l.pos = -1
	l.op = 0
	l.until = 0
	l.gen++
	l.uncertain, l.reassert, l.yielding = false, false, false
}

// observe reads l before anything is done about it.
func (c *Core) observe(l *lease) {
	if l.op == 0 {
		c.queue.add(OpObserve, l)
	}
}

// observeWanted reads every lease that is waited for: a release of it may have gone unheard.
func (c *Core) observeWanted() {
	for _, id := range slices.Sorted(maps.Keys(c.leases)) {
		if l := c.leases[id]; l.wait && l.phase == idle {
			c.observe(l)
		}
	}
}

func (c *Core) rewatch(l *lease) {
	l.read = true
	c.armLease(l, c.now.Mono+Time(c.cfg.MaxProbe))
}

func (c *Core) observeAnswered(in *inflight, a *Answer) {
	for i, l := range in.leases {
		if l.op != in.op.Seq {
			continue
		}
		l.op = 0
		if l.phase != idle {
			continue
		}
		switch r := a.result(i); r.Outcome {
		case OutHeld:
			c.observedHeld(l, in, r)
		case OutFree:
			c.setOwner(l, "")
			if c.unwanted(l) {
				c.forget(l)
				continue
			}
			l.exp = c.now.Mono
			c.awaitExpiry(l)
		default:
			c.refuse(l, CauseWrongType, "", 0, a.Text)
		}
	}
}

func (c *Core) observedHeld(l *lease, in *inflight, r *Result) {
	c.setOwner(l, r.Owner)
	l.holder = r.Owner
	l.exp = c.heldUntil(in, r.PTTL)
	switch {
	case r.Owner == c.self && c.traces.has(l.id):
		c.tryAcquire(l) // an attempt that was not answered succeeded: adopt it
	case c.unwanted(l):
		c.forget(l)
	case l.place && !l.want && c.heartbeatFresh(r.Owner) && l.exp > c.now.Mono+Time(c.cfg.Lead):
		c.forget(l) // renewed, and its owner's heartbeat is watched
	default:
		c.awaitExpiry(l)
	}
}

// result returns the i-th result, or an unknown one if the store said less than it was asked.
func (a *Answer) result(i int) *Result {
	if i < len(a.Results) {
		return &a.Results[i]
	}
	return &Result{}
}
