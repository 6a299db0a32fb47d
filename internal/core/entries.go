package core

import (
	"github.com/leasestorm/leasestorm/internal/place"
	"github.com/leasestorm/leasestorm/internal/term"
)

// entries are the leases that this instance holds, wants or watches.
type entries struct {
	*base
	leases    map[string]*lease // ranged over only in sorted order
	held      []*lease          // those that it holds, in an arbitrary but reproducible order
	releasing int               // how many releases are not confirmed
	acquiring int               // how many acquisitions are not answered
}

// lease returns the entry of id, a new one if there is none.
func (e *entries) lease(id string) *lease {
	l, ok := e.leases[id]
	if !ok {
		l = &lease{Term: term.NewTerm(id), pos: -1, session: e.table.Find(id)}
		e.leases[id] = l
		e.table.Enter(l.session, true)
	}
	return l
}

// entry returns the entry of session i, nil without one.
func (e *entries) entry(i int32) *lease {
	if !e.table.Entered(i) {
		return nil
	}
	return e.leases[e.table.ID(i)]
}

// entryOf returns the entry of id, nil without one; i is its session or nobody.
func (e *entries) entryOf(id string, i int32) *lease {
	if i == place.Nobody {
		return e.leases[id]
	}
	return e.entry(i)
}

// forget drops the entry of a lease that this instance neither holds, wants nor watches any more.
func (e *entries) forget(l *lease) {
	l.gen++ // cancels its timer
	l.Cancel()
	delete(e.leases, l.ID())
	e.table.Enter(l.session, false)
}

// placed returns the entry of session i and marks it as wanted by placement.
func (e *entries) placed(i int32) *lease {
	l := e.lease(e.table.ID(i))
	l.place = true
	return l
}

// stands is called with the new index of session id, or with place.Nobody if the session is gone. It returns whether the session's lease
// has an entry, and whether this instance owns the lease. If the session is gone and an attempt to acquire its lease got no answer, the
// lease is read soon, so that a lease which that attempt acquired can be given back.
func (e *entries) stands(id string, i int32) (entered, held bool) {
	l := e.leases[id]
	if l == nil {
		return false, false
	}
	l.session = i
	if i == place.Nobody && l.unanswered && l.Phase() == idle && !l.stuck {
		l.will(nextRead)
		e.timers.armLease(l, e.k.Now()+Time(e.cfg.MaxProbe))
	}
	return true, l.Phase() == owned
}

// hold makes l, whose term has begun, one of those held.
func (e *entries) hold(l *lease) {
	l.pos = int32(len(e.held))
	e.held = append(e.held, l)
	e.table.Hold(l.session, true)
}

// unhold ends the term of l, which is held.
func (e *entries) unhold(l *lease, to term.Phase) {
	last := len(e.held) - 1
	e.held[l.pos] = e.held[last]
	e.held[l.pos].pos = l.pos
	e.held[last] = nil
	e.held = e.held[:last]
	e.table.Hold(l.session, false)
	l.pos = -1
	l.gen++
	l.yielding = false
	l.End(to)
	if to == idle {
		l.vacant(Vacancy{})
	}
	l.will(nextNothing)
}

// answered ends the acquisition of l, if there is one.
func (e *entries) answered(l *lease) {
	if l.Cancel() {
		l.will(nextNothing)
		e.acquiring--
	}
}
