package core

import (
	"maps"
	"slices"

	"github.com/leasestorm/leasestorm/internal/place"
	"github.com/leasestorm/leasestorm/internal/term"
)

func (c *Core) want(id string, wait bool, ttl int64) {
	l := c.lease(id)
	l.want, l.wait = true, wait
	l.Want(ttl)
	if l.Phase() == idle {
		c.tryAcquire(l)
	}
}

// tryAcquire requests l if that is allowed now, and refuses it otherwise.
func (c *Core) tryAcquire(l *lease) {
	until, cause := c.Blocked()
	switch {
	case l.Phase() != idle:
		return
	case c.own.Leaving() || !c.own.Started():
		c.refuse(l, refused{cause: CauseDrain})
		return
	case len(l.stuck) > 0:
		c.refuse(l, refused{cause: CauseStuck})
		return
	case until != 0:
		c.refuse(l, refused{cause: cause, wait: int64(until - c.k.Now()), text: c.paces.refusal.text})
		return
	}
	l.Acquire()
	l.will(nextNothing)
	c.acquiring++
	c.req.add(OpAcquire, l)
}

// refused says why an acquisition did not succeed.
type refused struct {
	cause Cause
	owner string // CauseHeld: the lease's owner
	wait  int64  // time until the next attempt; CauseHeld: l.exp counts
	text  string // the server's own words
}

// refuse ends an acquisition that did not succeed and plans the next one.
func (c *Core) refuse(l *lease, by refused) {
	c.answered(l)
	cause, wait := by.cause, by.wait
	if cause == CauseHeld {
		wait = int64(l.exp - c.k.Now())
	}
	c.tells.tell(Tell{Kind: TellRefused, Cause: cause, ID: l.ID(), Owner: by.owner, Wait: wait, Text: by.text})
	if l.want && !l.wait {
		l.want = false
	}
	if cause == CauseWrongType {
		// The key belongs to another program. Discoveries show it as free, so it is tried once a TTL only.
		l.unanswered, l.holder = false, ""
		l.vacant(Vacancy{})
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
		if l.place && !l.want && c.members.Fresh(by.owner) {
			c.forget(l) // its owner's heartbeat is watched instead
			return
		}
		c.awaitExpiry(l)
		return
	}
	l.will(nextAcquire)
	c.timers.armLease(l, c.k.Now()+Time(max(wait, Millisecond)+c.stagger(l)))
}

// awaitExpiry sets l's timer to shortly before the holder's lease expires, to read it once more. After that read, it sets the timer to
// the expiry itself, plus this instance's stagger. Leases that expire at about the same time are read in one request: if all leases
// outlast an outage and no heartbeat does, every instance watches all leases of the others (G14).
func (c *Core) awaitExpiry(l *lease) {
	if lead, together := l.exp-Time(c.cfg.Lead), Time(c.cfg.Lead/2); lead > c.k.Now() {
		l.will(nextRead)
		c.timers.armLease(l, (lead+together-1)/together*together)
		return
	}
	l.will(nextAcquire)
	c.timers.armLease(l, max(l.exp, c.k.Now())+Time(c.stagger(l)))
}

// wakeLease handles l's timer, which was due at at.
func (c *Core) wakeLease(l *lease, at Time) {
	switch l.Phase() {
	case owned:
		if c.k.Now() >= l.Until() {
			c.lost(l, CauseExpired, "")
			return
		}
		if l.TTL() < c.cfg.TTL {
			c.renew(l)
		}
		c.armHeld(l)
	case releasing:
		c.retryRelease(l)
	case idle:
		switch {
		case len(l.stuck) > 0:
		case c.unwanted(l) && !l.unanswered:
			c.forget(l)
		case c.silence.on:
			// In a silence the grant would not arrive.
			c.timers.armLease(l, c.k.Now()+Time(c.cfg.MaxProbe))
		case l.next == nextTurn:
			l.will(nextAcquire)
			c.timers.armLease(l, c.k.Now()+Time(max(c.stagger(l), c.cfg.Stagger)))
		case l.next == nextRead || c.unwanted(l) || c.k.Now() > at+Time(c.cfg.Lead):
			c.observe(l) // also if this instance slept past its turn
		default:
			c.tryAcquire(l)
		}
	}
}

// unwanted reports whether no user wants l, and placement does not either, or its session is gone or paused. If an attempt to acquire it
// was not answered, l is still read once, to give back what that attempt may have won.
func (c *Core) unwanted(l *lease) bool {
	return !l.want && (!l.place || l.session == place.Nobody)
}

func (c *Core) answered(l *lease) {
	if l.Cancel() {
		l.will(nextNothing)
		c.acquiring--
	}
}

func (c *Core) acquireAnswered(in *inflight, a *Answer) {
	if c.own.Able() {
		c.table.Discover(place.DiscoverAble)
	}
	for i, l := range in.leases {
		if !c.k.Settles(&in.op, &l.Term) {
			continue
		}
		meant := l.next
		c.answered(l)
		if a.Stale {
			c.tryAcquire(l)
			continue
		}
		r := a.result(i)
		switch r.Outcome {
		case OutGranted, OutAdopted:
			c.granted(l, in, r, a.RedisNow)
		case OutHeld:
			l.unanswered = false
			l.holder = r.Owner
			l.exp = c.k.HeldUntil(&in.op, r.PTTL)
			if meant == nextAgain {
				c.tryAcquire(l) // it may have been given back since
				continue
			}
			l.heldBy(r, c.cfg.Instance)
			c.table.OwnedBy(l.session, r.Owner)
			switch {
			case meant == nextInherit:
				c.table.Discover(place.DiscoverHeir)
			case l.place && c.table.AnyFree() && r.Owner != "" && r.Owner != c.cfg.Instance:
				c.table.Discover(place.DiscoverOvertaken)
			}
			c.refuse(l, refused{cause: CauseHeld, owner: r.Owner})
		case OutQuarantine:
			c.refuse(l, refused{cause: CauseQuarantine, wait: a.Quarantine})
		case OutWrongType:
			c.refuse(l, refused{cause: CauseWrongType, text: a.Text})
		default:
			c.refuse(l, refused{cause: CauseFailed, wait: c.cfg.MaxProbe, text: a.Text})
		}
	}
}

func (c *Core) granted(l *lease, in *inflight, r *Result, redis int64) {
	c.paces.effective(OpAcquire)
	if !c.k.Begin(&l.Term, &in.op, r.Fence) {
		// The answer came too late, but the key is ours all the same: acquire again, to adopt it.
		l.unanswered = true
		c.tryAcquire(l)
		return
	}
	if r.Outcome == OutGranted && l.place && l.holder != "" && l.holder != c.cfg.Instance && c.members.Accuse(l.holder, l.exp) {
		c.tells.tell(Tell{Kind: TellSuspect, ID: l.ID(), Owner: l.holder})
	}
	l.unanswered = false
	l.yielding, l.wait = false, false
	l.will(nextNothing)
	l.pos = int32(len(c.held))
	c.held = append(c.held, l)
	c.table.Hold(l.session, true)
	c.armHeld(l)
	c.table.OwnedBy(l.session, c.cfg.Instance)
	t := Tell{Kind: TellAcquired, ID: l.ID(), Fence: l.Fence(), Until: l.Until(), UntilWall: c.k.Wall(l.Until()), TTL: l.TTL(),
		RedisNow: redis}
	if r.Outcome == OutGranted { // an adopted lease was ours already
		t.Vacant = l.vacancy(c.k.Now())
	}
	l.vacant(Vacancy{})
	c.tells.tell(t)
	switch { // it may have become unwanted meanwhile
	case c.own.Leaving():
		c.release(l, CauseDrain)
	case !l.want && !l.place:
		c.release(l, CauseRequested)
	case c.unwanted(l):
		c.table.Discover(place.DiscoverUnwanted) // is its session really gone?
	}
}

// renewAll is the renewal tick. It renews all held leases and then the heartbeat, so that they expire together if the instance dies.
func (c *Core) renewAll() {
	c.tellSilent()
	c.k.AgeTraces()
	c.own.Refresh()
	for _, l := range c.held {
		c.renew(l)
	}
	c.askIdle()
}

// renew renews a held lease unless a request for it is under way. In a silence it doubts the lease.
func (c *Core) renew(l *lease) {
	switch {
	case c.silence.on:
		c.doubt(l, CauseNoAnswer, c.silence.text)
	case l.Op() == 0:
		c.requestRenew(l)
	}
}

// armHeld sets l's timer to the end of its window, or to its next renewal if its TTL is too short for the renewal tick.
func (c *Core) armHeld(l *lease) {
	at := l.Until()
	if l.TTL() < c.cfg.TTL {
		at = min(at, c.k.Now()+Time(l.TTL()/3))
	}
	c.timers.armLease(l, at)
}

// renewNow renews one held lease before its tick, unless a request for it is under way or Redis is silent.
func (c *Core) renewNow(id string) {
	if l := c.leases[id]; l != nil && l.Phase() == owned && l.Op() == 0 && !c.silence.on {
		c.requestRenew(l)
	}
}

func (c *Core) requestRenew(l *lease) {
	c.req.add(c.k.Renewal(&l.Term), l)
}

func (c *Core) renewAnswered(in *inflight, a *Answer) {
	for i, l := range in.leases {
		if !c.k.Settles(&in.op, &l.Term) {
			continue
		}
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
			l.Closed()
			c.requestRenew(l)
		case OutWrongType:
			c.lost(l, CauseWrongType, "")
		default:
			c.doubt(l, CauseFailed, a.Text)
			c.requestRenew(l)
		}
	}
}

// renewed extends a term. If the answer came after its own window, the term is doubted and renewed again.
func (c *Core) renewed(l *lease, in *inflight) {
	doubted := l.Uncertain()
	if !c.k.Extend(&l.Term, &in.op) {
		c.doubt(l, CauseNoAnswer, "answered after its own window")
		c.requestRenew(l)
		return
	}
	c.tells.tell(Tell{Kind: TellRenewed, Doubted: doubted, ID: l.ID(), Fence: l.Fence(), Until: l.Until(), UntilWall: c.k.Wall(l.Until()),
		Sent: in.op.Sent})
}

// doubt makes a term uncertain: no work begins under it until it is renewed (G4).
func (c *Core) doubt(l *lease, cause Cause, text string) {
	again, ok := c.k.Doubt(&l.Term)
	if !ok {
		return
	}
	c.tells.tell(Tell{Kind: TellUncertain, Cause: cause, Again: again, ID: l.ID(), Fence: l.Fence(), Until: l.Until(),
		UntilWall: c.k.Wall(l.Until()), Text: text})
}

func (c *Core) lost(l *lease, cause Cause, owner string) {
	c.unhold(l, idle)
	c.k.Trace(l.ID(), l.TTL())
	l.holder = owner
	c.tells.tell(Tell{Kind: TellLost, Cause: cause, ID: l.ID(), Fence: l.Fence(), Owner: owner})
	c.table.OwnedBy(l.session, owner)
	placed := l.place
	l.want, l.wait, l.place = false, false, false
	if len(l.stuck) == 0 {
		c.forget(l)
	}
	if placed && !c.silence.on {
		c.table.Discover(place.DiscoverLost)
	}
}

func (c *Core) unhold(l *lease, to term.Phase) {
	last := len(c.held) - 1
	c.held[l.pos] = c.held[last]
	c.held[l.pos].pos = l.pos
	c.held[last] = nil
	c.held = c.held[:last]
	c.table.Hold(l.session, false)
	l.pos = -1
	l.gen++
	l.yielding = false
	l.End(to)
	if to == idle {
		l.vacant(Vacancy{})
	}
	l.will(nextNothing)
}

func (c *Core) observe(l *lease) {
	if l.Op() == 0 {
		c.req.add(OpObserve, l)
	}
}

// subscribed reads what notices may have been missed about, as often as whenHeard allows.
func (c *Core) subscribed() {
	if c.nextHeard = c.table.Subscribed(); c.due(c.nextHeard) {
		c.observeWanted()
	}
	c.table.Discover(place.DiscoverSubscribed)
}

// observeWanted reads every idle lease that a user waits for, because a notice of its release may have been lost.
func (c *Core) observeWanted() {
	c.nextHeard = 0
	for _, id := range slices.Sorted(maps.Keys(c.leases)) {
		if l := c.leases[id]; l.wait && l.Phase() == idle && len(l.stuck) == 0 {
			c.observe(l)
		}
	}
}

func (c *Core) observeAnswered(in *inflight, a *Answer) {
	for i, l := range in.leases {
		if !c.k.Settles(&in.op, &l.Term) {
			continue
		}
		if l.Phase() != idle {
			continue
		}
		switch r := a.result(i); r.Outcome {
		case OutHeld:
			c.observedHeld(l, in, r)
		case OutFree:
			if !l.vacated(c.k.Now()) {
				l.vacant(Vacancy{}) // it was freed early, at an unknown time
			}
			c.table.OwnedBy(l.session, "")
			if c.unwanted(l) {
				c.forget(l)
				continue
			}
			l.exp = c.k.Now()
			c.awaitExpiry(l)
		default:
			c.refuse(l, refused{cause: CauseWrongType, text: a.Text})
		}
	}
}

func (c *Core) observedHeld(l *lease, in *inflight, r *Result) {
	c.table.OwnedBy(l.session, r.Owner)
	l.holder = r.Owner
	l.exp = c.k.HeldUntil(&in.op, r.PTTL)
	l.heldBy(r, c.cfg.Instance)
	switch {
	case r.Owner == c.cfg.Instance && c.k.Traced(l.ID()):
		c.tryAcquire(l) // an unanswered attempt succeeded: adopt it
	case c.unwanted(l):
		c.forget(l)
	case l.place && !l.want && c.members.Fresh(r.Owner) && l.exp > c.k.Now()+Time(c.cfg.Lead):
		c.forget(l) // it was renewed, and its owner's heartbeat is watched instead
	default:
		c.awaitExpiry(l)
	}
}

func (c *Core) stagger(l *lease) int64 {
	if !l.place || l.session == place.Nobody {
		return 0
	}
	return c.table.Stagger(l.session)
}
