package core

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/place"
)

func (p *keeper) drop(id string, cause Cause) {
	l, ok := p.entries.leases[id]
	if !ok {
		return
	}
	l.want, l.wait = false, false
	switch l.Phase() {
	case owned:
		if l.yielding {
			cause = l.cause
		}
		p.release(l, cause)
	case acquiring, releasing:
		l.place = false
	case idle:
		l.place = false
		if !l.unanswered && !l.stuck {
			p.entries.forget(l)
		}
	}
}

// release releases a term. Trust ends now; Redis deletes the key when the request arrives.
func (p *keeper) release(l *lease, cause Cause) {
	switch cause {
	case CauseDrain:
		l.heir = p.table.HeirOf(l.session)
	case CauseRebalance:
		if p.k.Now()-l.since >= Time(p.cfg.Discovery/10) && l.session != place.Nobody { // its work took long to end
			l.heir = p.table.HeirNow(l.session, l.heir)
		}
	case CauseUnwanted:
		l.heir = p.cfg.Instance
	default:
		l.heir = ""
	}
	p.entries.unhold(l, releasing)
	l.place, l.told = false, false
	l.since = p.k.Now()
	p.entries.releasing++
	p.table.OwnedBy(l.session, p.heir(l))
	p.tells.tell(Tell{Kind: TellReleased, Cause: cause, ID: l.ID(), Fence: l.Fence(), Owner: p.heir(l)})
	p.requestRelease(l)
}

// heir returns the instance that should take l, which is released; "" if none is named.
func (p *keeper) heir(l *lease) string {
	if l.heir == p.cfg.Instance {
		return ""
	}
	return l.heir
}

func (p *keeper) requestRelease(l *lease) {
	p.req.add(OpRelease, l)
	p.timers.armLease(l, l.since+Time(p.cfg.TTL))
}

func (p *keeper) releaseAnswered(in *inflight, a *Answer) {
	for i, l := range in.leases {
		if !p.k.Settles(&in.op, &l.Term) {
			continue
		}
		switch r := &a.Results[i]; {
		case a.Stale:
			p.requestRelease(l)
		case r.Outcome == OutLost && r.Owner == p.cfg.Instance && l.stuck:
			p.k.Trace(l.ID(), p.k.TTLOf(OpRelease, &l.Term))
			p.released(l)
		case r.Outcome == OutLost && r.Owner == p.cfg.Instance:
			p.overtaken(l)
		case r.Outcome == OutUnknown:
			p.releaseFailed(l, CauseFailed, a.Text)
			p.timers.armLease(l, min(p.k.Now()+Time(p.cfg.MaxProbe), l.since+Time(p.cfg.TTL)))
		default:
			if r.Owner != "" { // which took it after it had expired
				p.table.OwnedBy(l.session, r.Owner)
			}
			p.released(l)
		}
	}
}

// overtaken handles a release that found the lease ours under another fence: an unanswered attempt to acquire it was executed after the
// answered one. The lease is adopted, and the resulting term is released in turn.
func (p *keeper) overtaken(l *lease) {
	p.entries.releasing--
	p.entries.acquiring++
	p.k.Trace(l.ID(), p.k.TTLOf(OpRelease, &l.Term))
	l.unanswered = true
	l.vacant(Vacancy{})
	l.Acquire()
	l.will(nextNothing)
	p.req.add(OpAcquire, l)
}

func (p *keeper) released(l *lease) {
	l.End(idle)
	l.will(nextNothing)
	p.entries.releasing--
	p.table.Touch(l.session)
	if l.session != place.Nobody && p.table.Owner(l.session) == 0 {
		p.table.OwnedBy(l.session, p.heir(l)) // a discovery answered meanwhile still showed it as ours
	}
	l.vacant(Vacancy{})
	switch {
	case l.stuck:
		p.block(l)
	case l.want && !p.own.Leaving():
		p.tryAcquire(l)
	default:
		p.entries.forget(l)
	}
}

// releaseFailed reports, once, that the release of l failed, and plans a retry. A late or repeated release does no harm, because it
// names the fence of its term.
func (p *keeper) releaseFailed(l *lease, cause Cause, text string) {
	if !l.told {
		l.told = true
		p.tells.tell(Tell{Kind: TellReleaseFailed, Cause: cause, ID: l.ID(), Fence: l.Fence(), Text: text})
	}
}

func (p *keeper) retryRelease(l *lease) {
	switch {
	case p.k.Now() >= l.since+Time(p.cfg.TTL):
		p.released(l) // the key has expired by now
	case l.Op() == 0:
		p.requestRelease(l)
	}
}

// abandon handles stuck work under a term. If the term has not ended yet, it ends now. Its key is left to expire, because the work
// may still go on. A later term of the same lease is not affected.
func (p *keeper) abandon(id string, fence int64) {
	l := p.entries.lease(id)
	l.stuck = true
	p.stuck[id] = append(p.stuck[id], fence)
	switch l.Phase() {
	case owned:
		if l.Fence() == fence {
			p.holder.lost(l, CauseStuck, "")
			p.timers.armLease(l, p.k.Now()+Time(l.TTL()+p.cfg.Margin()))
		}
	case acquiring:
		p.k.Trace(id, p.k.TTLOf(OpAcquire, &l.Term)) // a key that the attempt wins is left to expire, too
		p.block(l)
	case idle:
		p.block(l)
	}
}

// announce releases an abandoned term whose key has expired, which the others do not see while this instance's heartbeat lives.
func (p *keeper) announce(l *lease) {
	l.End(releasing)
	l.will(nextNothing)
	l.since, l.told = p.k.Now(), true // a failure costs only time
	p.entries.releasing++
	p.requestRelease(l)
}

// block cancels all plans for l, whose work is stuck, and refuses it to a user who wants it.
func (p *keeper) block(l *lease) {
	l.gen++ // cancels its timer
	l.place = false
	l.will(nextNothing)
	if l.want {
		p.refuse(l, refused{cause: CauseStuck})
		return
	}
	p.entries.answered(l)
}

// recovered lets a lease be acquired again once all stuck work under it has returned.
func (p *keeper) recovered(id string, fence int64) {
	l := p.entries.leases[id]
	if l == nil || !l.stuck {
		return
	}
	p.stuck[id] = slices.DeleteFunc(p.stuck[id], func(f int64) bool { return f == fence })
	if l.stuck = len(p.stuck[id]) > 0; !l.stuck {
		delete(p.stuck, id)
	}
	switch {
	case l.stuck || l.Phase() != idle:
	case l.want: // a user waits for it
		p.tryAcquire(l)
	default:
		p.entries.forget(l)
		p.table.Discover(place.DiscoverRecovered)
	}
}
