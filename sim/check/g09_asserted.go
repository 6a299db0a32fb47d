package check

import (
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// asserted judges the leases of living owners. When Redis can answer an owner again (with replicas: a majority is together at the
// master to which its connections lead), the owner must assert each term that it doubts. A term whose window ends before that is
// exempt.
type asserted struct {
	g     *g9
	waits map[*term]*assertion
	took  *measure.Times
}

type assertion struct {
	*wait
	after *injection
}

// limit returns the longest pause between two attempts, plus the time of one.
func (a *asserted) limit() int64 { return int64(a.g.w.Renew)/4 + int64(assertAllowance) }

func (a *asserted) healed(inj *injection) {
	w := a.g.w
	if !inj.Has(fault.Silences) && !inj.ofRedis() || w.servers.outage != nil || w.servers.late != nil {
		return
	}
	for _, s := range w.fleet.sessions {
		for _, t := range s.terms {
			if n := t.inst.node; t.doubt && n != nil && w.servers.led(n) != never && (inj.node == nil || inj.node == n) {
				a.wait(t, inj)
			}
		}
	}
}

func (a *asserted) wait(t *term, after *injection) {
	if old := a.waits[t]; old != nil {
		old.over = true
	}
	from := a.g.w.now + after.Lingers()
	a.waits[t] = &assertion{after: after, wait: a.g.expect(wait{
		now: func() promise {
			return promise{
				from: from, base: from, by: from + a.limit(), settle: a.limit(), only: t.inst.node, but: after, asserts: true,
			}
		},
		pending: func() bool { return t.doubt && a.may(t) },
		missed: func(limit int64) {
			a.g.breach(breach{session: t.session, from: from, due: from + limit, by: after, terms: []*term{t}},
				"%s had not asserted its lease of session %s%s %d ms after Redis could answer it again (%s)",
				t.inst.who(), t.session.id, inBrackets(t.fence), ms(a.g.w.now-from), after)
		},
	})}
}

// may reports whether the owner can still assert the term: neither the term nor its window has ended.
func (a *asserted) may(t *term) bool {
	return !t.over && !t.inst.gone && t.inst.node.asked == nil && (t.until == 0 || t.until > a.g.w.now)
}

func (a *asserted) event(e *history.Event) {
	if e.Kind != history.Renewed || len(a.waits) == 0 {
		return
	}
	t := a.g.w.subject.heldBy(a.g.w.reporter)
	x := a.waits[t]
	if x == nil {
		return
	}
	delete(a.waits, t)
	_, by := a.g.w.deadlines.reached(x.now(), a.g.w.now, a.g.w.now, nil)
	if took, _, stands := x.came(); stands != unjudged && by == nil && (x.after.anew || x.after.did == didStray) {
		a.took.Add(took)
	}
}
