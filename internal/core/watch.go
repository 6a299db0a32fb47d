package core

import (
	"maps"
	"slices"
)

func (p *keeper) observe(l *lease) {
	if l.Op() == 0 {
		p.req.add(OpObserve, l)
	}
}

// observeWanted reads every idle lease that a user waits for, because a notice of its release may have been lost.
func (p *keeper) observeWanted() {
	for _, id := range slices.Sorted(maps.Keys(p.entries.leases)) {
		if l := p.entries.leases[id]; l.wait && l.Phase() == idle && !l.stuck {
			p.observe(l)
		}
	}
}

func (p *keeper) observeAnswered(in *inflight, a *Answer) {
	for i, l := range in.leases {
		if !p.k.Settles(&in.op, &l.Term) || l.Phase() != idle {
			continue
		}
		switch r := &a.Results[i]; r.Outcome {
		case OutHeld:
			p.observedHeld(l, in, r)
		case OutFree:
			if !l.vacated(p.k.Now()) {
				l.vacant(Vacancy{}) // it was freed early, at an unknown time
			}
			p.table.OwnedBy(l.session, "")
			if l.unwanted() {
				p.entries.forget(l)
				continue
			}
			l.exp = p.k.Now()
			p.awaitExpiry(l)
		default:
			p.refuse(l, refused{cause: CauseWrongType, text: a.Text})
		}
	}
}

func (p *keeper) observedHeld(l *lease, in *inflight, r *Result) {
	p.table.OwnedBy(l.session, r.Owner)
	l.holder = r.Owner
	l.exp = p.k.HeldUntil(&in.op, r.PTTL)
	l.heldBy(r, p.cfg.Instance)
	switch {
	case r.Owner == p.cfg.Instance && p.k.Traced(l.ID()):
		p.tryAcquire(l) // an unanswered attempt succeeded: adopt it
	case l.unwanted():
		p.entries.forget(l)
	case l.place && !l.want && p.members.Fresh(r.Owner) && l.exp > p.k.Now()+Time(p.cfg.Lead):
		p.entries.forget(l) // it was renewed, and its owner's heartbeat is watched instead
	default:
		p.awaitExpiry(l)
	}
}
