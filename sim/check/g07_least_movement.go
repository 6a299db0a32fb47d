package check

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// g7 judges that a join moves only what the newcomer needs, and a leave only what the leaver held. It judges one join or leave of a fleet
// at rest, until the next change, for a TTL at most.
type g7 struct {
	hooks
	now   *movement
	joins int
	gone  int
	moves int
	extra int
}

type movement struct {
	joiner, leaver *instance
	injection      *injection
	at             int64
	need           int             // leases that the newcomer lacks
	held           map[string]bool // leases that the leaver held and no instance has acquired yet
	taken          int
	extra          int
	first          string
	session        *session
}

func (g *g7) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	w.rest.observers = append(w.rest.observers, g)
}

func (g *g7) rested()              {}
func (g *g7) movedAtRest()         {}
func (g *g7) disturbed(*injection) {}

// injected begins to watch a clean stop or a join from rest. Each fault ends the current watch, so that no other cause moves its leases.
func (g *g7) injected(inj *injection) {
	if inj.has(fault.Aside) {
		return
	}
	g.stop()
	if !g.w.rest.wasAtRest || inj.node == nil {
		return
	}
	switch {
	case inj.has(fault.Starts):
		g.watch(&movement{injection: inj})
	case inj.has(fault.Stops):
		leaver := inj.node.current
		if leaver == nil {
			return
		}
		m := &movement{injection: inj, leaver: leaver, held: map[string]bool{}}
		for _, id := range g.w.leases(leaver) {
			m.held[id] = true
		}
		g.watch(m)
	}
}

// event ends the watch when something else changes: another process, or the leaver returns.
func (g *g7) event(e *history.Event) {
	m := g.now
	if m == nil {
		return
	}
	switch e.Kind {
	case history.Phase:
		if e.Reason == "end" {
			g.stop()
		}
	case history.Spawned:
		if m.leaver != nil || e.Node != m.injection.node.name {
			g.stop()
		}
	case history.Ready: // of a process that started earlier
		if g.w.reporter.since == e.T && (m.leaver != nil || e.Node != m.injection.node.name) {
			g.stop()
		}
	case history.SessionAdded, history.SessionRemoved, history.SessionPaused, history.SessionResumed:
		g.stop() // any instance with room acquires a returning session
	case history.Exited:
		if m.leaver == nil || e.Node != m.injection.node.name {
			g.stop()
		}
	}
}

func (g *g7) watch(m *movement) {
	m.at = g.w.now
	g.now = m
	g.w.at(m.at+max(int64(g.w.TTL), g.w.settle()), func() {
		if g.now == m {
			g.stop()
		}
	})
}

func (g *g7) stop() {
	if m := g.now; m != nil {
		g.now = nil
		g.judge(m)
	}
}

// turn is the delay between the attempts of waiting instances. A longer stall of the host lets the wrong one acquire the lease.
const turn = int64(20 * time.Millisecond)

func (g *g7) judge(m *movement) {
	if m.leaver == nil && m.joiner == nil || m.at == g.w.now {
		return // the newcomer has not come, or no lease had time to move
	}
	if over := m.taken - m.need; m.joiner != nil && over > 0 {
		m.extra += over
		if m.first == "" {
			m.first = fmt.Sprintf("it took %d leases and needs %d", m.taken, m.need)
		}
	}
	if m.extra > 0 && g.w.stall(m.at, m.at+g.w.settle()) > turn {
		g.excuseFor("a host that stalled")
		return
	}
	g.exercise(string(m.injection.Kind))
	if m.joiner != nil {
		g.joins++
	} else {
		g.gone++
	}
	g.moves += m.taken
	if m.extra == 0 {
		return
	}
	g.extra += m.extra
	who, what := m.joiner, "join"
	if m.leaver != nil {
		who, what = m.leaver, "leave"
	}
	g.broke(m.session, "the %s of %s at %s moved %d leases more than it had to; the first: %s", what, who.who(), clock(m.at), m.extra,
		m.first)
}

func (g *g7) began(t *term) {
	m := g.now
	last := t.session.last
	if m == nil || last == nil {
		return
	}
	if m.joiner == nil && m.leaver == nil && t.inst.node == m.injection.node {
		g.joined(m, t.inst)
	}
	switch {
	case m.joiner != nil && t.inst == m.joiner:
		m.taken++
		return
	case m.held[t.session.id]:
		delete(m.held, t.session.id)
		m.taken++
		return
	case last.inst == t.inst && !last.over:
		return // a new term of the same owner moves nothing
	}
	m.extra++
	if m.first == "" {
		m.session = t.session
		m.first = fmt.Sprintf("session %s went from %s to %s at %s", t.session.id, last.inst.who(), t.inst.who(), clock(t.since))
	}
}

// joined records the newcomer and its need: the whole part of an equal share.
func (g *g7) joined(m *movement, i *instance) {
	m.joiner = i
	if n := len(g.w.rest.live()); n > 0 {
		m.need = g.w.existing / n
	}
}

func (g *g7) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = int64(g.extra)
	if g.exercised > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d joins and %d leaves from rest moved %d leases, %d more than they had to", g.joins,
			g.gone, g.moves, g.extra))
	}
	return v
}
