package core

import "github.com/leasestorm/leasestorm/internal/place"

// keeper acquires the leases that a user or placement wants, watches those of other owners, and releases those that are not wanted any
// more.
type keeper struct {
	*base
	entries *entries
	silence *silence
	holder  *holder
	stuck   map[string][]int64 // by lease: the fences of its terms whose work has not ended
}

// want acquires the lease id for a user.
func (p *keeper) want(id string, wait bool, ttl int64) {
	l := p.entries.lease(id)
	l.want, l.wait = true, wait
	l.Want(ttl)
	if l.Phase() == idle {
		p.tryAcquire(l)
	}
}

// tryAcquire requests l if that is allowed now, and refuses it otherwise.
func (p *keeper) tryAcquire(l *lease) {
	until, cause := p.blocked()
	switch {
	case l.Phase() != idle:
		return
	case p.own.Leaving() || !p.own.Started():
		p.refuse(l, refused{cause: CauseDrain})
		return
	case l.stuck:
		p.refuse(l, refused{cause: CauseStuck})
		return
	case until != 0:
		p.refuse(l, refused{cause: cause, wait: int64(until - p.k.Now()), text: p.paces.refusal.text})
		return
	}
	l.Acquire()
	l.will(nextNothing)
	p.entries.acquiring++
	p.req.add(OpAcquire, l)
}

// refused says why an acquisition did not succeed.
type refused struct {
	cause Cause
	owner string // CauseHeld: the lease's owner
	wait  int64  // time until the next attempt; CauseHeld: l.exp counts
	text  string // the server's own words
}

// refuse ends an acquisition that did not succeed and plans the next one.
func (p *keeper) refuse(l *lease, by refused) {
	p.entries.answered(l)
	cause, wait := by.cause, by.wait
	if cause == CauseHeld {
		wait = int64(l.exp - p.k.Now())
	}
	p.tells.tell(Tell{Kind: TellRefused, Cause: cause, ID: l.ID(), Owner: by.owner, Wait: wait, Text: by.text})
	if l.want && !l.wait {
		l.want = false
	}
	if cause == CauseWrongType {
		// The key belongs to another program. Discoveries show it as free, so this instance tries it only once a TTL.
		l.unanswered, l.holder = false, ""
		l.vacant(Vacancy{})
		wait = p.cfg.TTL
	}
	again := l.wait || l.place || l.unanswered
	switch cause {
	case CauseDrain:
		again = false
	case CauseStuck:
		return
	}
	if !again {
		p.entries.forget(l)
		return
	}
	if cause == CauseHeld {
		if l.place && !l.want && p.members.Fresh(by.owner) {
			p.entries.forget(l) // its owner's heartbeat is watched instead
			return
		}
		p.awaitExpiry(l)
		return
	}
	l.will(nextAcquire)
	p.timers.armLease(l, p.k.Now()+Time(max(wait, Millisecond)+p.stagger(l)))
}

// awaitExpiry sets l's timer to shortly before the holder's lease expires, to read it once more. After that read, it sets the timer to
// the expiry itself, plus this instance's stagger. Leases that expire at about the same time are read in one request: if all leases
// outlast an outage and no heartbeat does, every instance watches all leases of the others (G14).
func (p *keeper) awaitExpiry(l *lease) {
	if lead, together := l.exp-Time(p.cfg.Lead), Time(p.cfg.Lead/2); lead > p.k.Now() {
		l.will(nextRead)
		p.timers.armLease(l, (lead+together-1)/together*together)
		return
	}
	l.will(nextAcquire)
	p.timers.armLease(l, max(l.exp, p.k.Now())+Time(p.stagger(l)))
}

// wakeLease handles l's timer, which was due at at.
func (p *keeper) wakeLease(l *lease, at Time) {
	switch l.Phase() {
	case owned:
		if p.k.Now() >= l.Until() {
			p.holder.lost(l, CauseExpired, "")
			return
		}
		if l.TTL() < p.cfg.TTL {
			p.holder.renew(l)
		}
		p.holder.armHeld(l)
	case releasing:
		p.retryRelease(l)
	case idle:
		switch {
		case l.stuck:
			p.announce(l)
		case l.unwanted() && !l.unanswered:
			p.entries.forget(l)
		case p.silence.on:
			// While Redis is silent, the grant would not arrive.
			p.timers.armLease(l, p.k.Now()+Time(p.cfg.MaxProbe))
		case l.next == nextRead || l.unwanted() || p.k.Now() > at+Time(p.cfg.Lead):
			p.observe(l) // also if this instance slept past its turn
		default:
			p.tryAcquire(l)
		}
	}
}

func (p *keeper) acquireAnswered(in *inflight, a *Answer) {
	if p.own.Able() {
		p.table.Discover(place.DiscoverAble)
	}
	for i, l := range in.leases {
		if !p.k.Settles(&in.op, &l.Term) {
			continue
		}
		meant := l.next
		p.entries.answered(l)
		if a.Stale {
			p.tryAcquire(l)
			continue
		}
		r := &a.Results[i]
		switch r.Outcome {
		case OutGranted, OutAdopted:
			p.granted(l, in, r, a.RedisNow)
		case OutHeld:
			l.unanswered = false
			l.holder = r.Owner
			l.exp = p.k.HeldUntil(&in.op, r.PTTL)
			if meant == nextAgain {
				p.tryAcquire(l) // it may have been given back since
				continue
			}
			l.heldBy(r, p.cfg.Instance)
			p.table.OwnedBy(l.session, r.Owner)
			switch {
			case meant == nextInherit:
				p.table.Discover(place.DiscoverHeir)
			case l.place && p.table.AnyFree() && r.Owner != "" && r.Owner != p.cfg.Instance:
				p.table.Discover(place.DiscoverOvertaken)
			}
			p.refuse(l, refused{cause: CauseHeld, owner: r.Owner})
		case OutQuarantine:
			p.refuse(l, refused{cause: CauseQuarantine, wait: a.Quarantine})
		case OutWrongType:
			p.refuse(l, refused{cause: CauseWrongType, text: a.Text})
		default:
			p.refuse(l, refused{cause: CauseFailed, wait: p.cfg.MaxProbe, text: a.Text})
		}
	}
}

func (p *keeper) granted(l *lease, in *inflight, r *Result, redis int64) {
	p.paces.effective(OpAcquire)
	w, began := p.k.Begin(&l.Term, &in.op, r.Fence)
	if !began {
		// The answer came too late, but the key is ours all the same: acquire again, to adopt it.
		l.unanswered = true
		p.tryAcquire(l)
		return
	}
	if r.Outcome == OutGranted && l.place && l.holder != "" && l.holder != p.cfg.Instance && p.members.Accuse(l.holder, l.exp) {
		p.tells.tell(Tell{Kind: TellSuspect, ID: l.ID(), Owner: l.holder})
	}
	l.unanswered = false
	l.yielding, l.wait = false, false
	l.will(nextNothing)
	p.entries.hold(l)
	p.holder.armHeld(l)
	p.table.OwnedBy(l.session, p.cfg.Instance)
	t := Tell{Kind: TellAcquired, ID: w.ID, Fence: w.Fence, Until: w.Until, UntilWall: w.UntilWall, TTL: w.TTL, RedisNow: redis}
	if r.Outcome == OutGranted { // an adopted lease was ours already
		t.Vacant = l.vacancy(p.k.Now())
	}
	l.vacant(Vacancy{})
	p.tells.tell(t)
	switch { // it may have become unwanted meanwhile
	case p.own.Leaving():
		p.release(l, CauseDrain)
	case !l.want && !l.place:
		p.release(l, CauseRequested)
	case l.unwanted():
		p.table.Discover(place.DiscoverUnwanted) // is its session really gone?
	}
}

func (p *keeper) stagger(l *lease) int64 {
	if !l.place || l.session == place.Nobody {
		return 0
	}
	return p.pause.Turn(p.table.Order(l.session))
}

// retry acquires l at once instead of at its planned time.
func (p *keeper) retry(l *lease) {
	l.Cancel()
	p.tryAcquire(l)
}

// blocked returns until when nothing may be acquired, and why; 0 if it may.
func (p *keeper) blocked() (Time, Cause) {
	until, cause := p.k.Blocked()
	if cause == CauseNone && p.paces.paced(OpAcquire) {
		return p.paces.of[OpAcquire].until, CauseFailed
	}
	return until, cause
}

// failedFor handles what a failed op means for l.
func (p *keeper) failedFor(l *lease, in *inflight, a *Answer, cause Cause) {
	switch in.op.Kind {
	case OpAcquire:
		l.unanswered = true
		if a.Failure == FailUnknown || a.Failure == FailUncounted {
			p.k.Trace(l.ID(), in.op.TTL)
		}
		p.refuse(l, refused{
			cause: cause, text: a.Text, wait: max(p.pause.Retry(p.paces.of[OpAcquire].failed), p.cfg.MaxProbe),
		})
	case OpRenew, OpReassert:
		p.holder.doubt(l, cause, a.Text)
		if !p.silence.on {
			p.holder.requestRenew(l)
		}
	case OpRelease:
		p.releaseFailed(l, cause, a.Text)
		p.requestRelease(l)
	case OpObserve:
		p.observe(l)
	}
}

// holdBack empties the queues of requests that extend while Redis is silent: terms become uncertain, acquisitions are refused.
func (p *keeper) holdBack() {
	for _, kind := range []OpKind{OpRenew, OpReassert} {
		for _, l := range p.req.queued[kind] {
			if p.k.StillFor(kind, &l.Term) {
				l.Cancel()
				p.holder.doubt(l, CauseNoAnswer, p.silence.text)
			}
		}
		p.req.empty(kind)
	}
	p.refuseQueued(CauseNoAnswer)
}

// refuseQueued refuses the acquisitions that are queued.
func (p *keeper) refuseQueued(cause Cause) {
	for _, l := range p.req.queued[OpAcquire] {
		if p.k.StillFor(OpAcquire, &l.Term) {
			p.refuse(l, refused{cause: cause, wait: p.cfg.MaxProbe, text: p.silence.text})
		}
	}
	p.req.empty(OpAcquire)
}
