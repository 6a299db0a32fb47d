package check

import (
	"cmp"
	"fmt"
	"maps"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// g7 judges that a join moves only what the newcomer needs, and a leave only what the leaver held. It judges one join or leave of a fleet
// at rest, until the next change, for a TTL at most.
type g7 struct {
	hooks
	now   *movement
	extra int
}

type movement struct {
	joiner, leaver *instance
	injection      *injection
	at             int64
	need           int              // leases that the newcomer lacks
	held           map[string]*term // the leaver's leases that no instance has acquired yet
	taken          int
	extra          int
	first          string
	session        *session
}

// injected begins to watch a clean stop or a join from rest. Each fault ends the current watch, so that no other cause moves its leases.
func (g *g7) injected(inj *injection) {
	if inj.has(fault.Aside) {
		return
	}
	g.stop()
	m := &movement{injection: inj, at: g.w.now}
	switch {
	case !g.w.rest.wasAtRest || inj.node == nil:
		return
	case inj.has(fault.Starts):
	case inj.has(fault.Stops) && inj.node.current != nil:
		m.leaver = inj.node.current
		m.held = maps.Clone(m.leaver.held)
	default:
		return
	}
	g.now = m
	g.w.at(m.at+max(int64(g.w.TTL), g.w.settle()), func() {
		if g.now == m {
			g.stop()
		}
	})
}

// event ends the watch when something else changes: another process, the sessions, or the leaver returns.
func (g *g7) event(e *history.Event) {
	m := g.now
	if m == nil {
		return
	}
	own := e.Node == m.injection.node.name
	switch e.Kind {
	case history.Spawned:
		own = own && m.leaver == nil
	case history.Ready: // also of a process that started earlier
		own = own && m.leaver == nil || g.w.reporter.since != e.T
	case history.Exited:
		own = own && m.leaver != nil
	case history.Phase, history.SessionAdded, history.SessionRemoved, history.SessionPaused, history.SessionResumed:
		own = false
	default:
		return
	}
	if !own {
		g.stop()
	}
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
	who, what := m.leaver, "leave"
	if m.joiner != nil {
		who, what = m.joiner, "join"
		if over := m.taken - m.need; over > 0 {
			m.extra += over
			m.first = cmp.Or(m.first, fmt.Sprintf("it took %d leases and needs %d", m.taken, m.need))
		}
	}
	if m.extra > 0 && g.w.stall(m.at, m.at+g.w.settle()) > turn {
		g.excuseFor("a host that stalled")
		return
	}
	g.exercise(string(m.injection.Kind))
	g.extra += m.extra
	if m.extra > 0 {
		g.broke(m.session, "the %s of %s at %s moved %d leases more than it had to; the first: %s", what, who.who(), clock(m.at), m.extra,
			m.first)
	}
}

func (g *g7) began(t *term) {
	m, last := g.now, t.session.last
	if m == nil || last == nil {
		return
	}
	if m.leaver == nil && m.joiner == nil && t.inst.node == m.injection.node {
		m.joiner = t.inst
		live, _ := g.w.rest.live()
		m.need = g.w.existing / max(1, len(live)) // the whole part of an equal share
	}
	switch {
	case t.inst == m.joiner:
		m.taken++
	case m.held[t.session.id] != nil:
		delete(m.held, t.session.id)
		m.taken++
	case last.inst == t.inst && !last.over: // a new term of the same owner moves nothing
	default:
		m.extra++
		if m.first == "" {
			m.session = t.session
			m.first = fmt.Sprintf("session %s went from %s to %s at %s", t.session.id, last.inst.who(), t.inst.who(), clock(t.since))
		}
	}
}

func (g *g7) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = int64(g.extra)
	return v
}
