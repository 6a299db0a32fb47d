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
	now *movement
}

// movement is a join or a leave, and what it moved.
type movement struct {
	*injection
	who         *instance // of a join, nil until the newcomer takes a lease
	leave       bool
	need, taken int   // leases that the newcomer lacks, and that it took
	extra       int   // leases that moved between other instances
	first, from *term // the first of these moves
}

// injected begins to watch a clean stop or a join from rest. Each fault ends the current watch, so that a watch has only one cause
// of moved leases.
func (g *g7) injected(inj *injection) {
	if inj.Has(fault.Aside) {
		return
	}
	g.stop(g.now)
	m := &movement{injection: inj}
	switch {
	case !g.w.rest.wasAtRest || inj.node == nil:
		return
	case inj.Has(fault.Starts):
		live, _ := g.w.rest.live()
		m.need = g.w.fleet.existing / (len(live) + 1) // the whole part of an equal share
	case inj.Has(fault.Stops) && inj.node.current != nil:
		m.who, m.leave = inj.node.current, true
	default:
		return
	}
	g.now = m
	g.w.at(m.From+max(int64(g.w.TTL), g.w.Settle()), func() { g.stop(m) })
}

// event ends the watch when something else changes: another process, the sessions, or the leaver returns.
func (g *g7) event(e *history.Event) {
	m := g.now
	if m == nil {
		return
	}
	own := e.Node == m.node.name
	switch e.Kind {
	case history.Spawned:
		own = own && !m.leave
	case history.Ready: // also of a process that started earlier
		own = own && !m.leave || g.w.reporter.since != e.T
	case history.Exited:
		own = own && m.leave
	case history.Phase, history.SessionAdded, history.SessionRemoved, history.SessionPaused, history.SessionResumed:
		own = false
	default:
		return
	}
	if !own {
		g.stop(m)
	}
}

// turn is the delay between the attempts of waiting instances. If the host stalls for longer, the wrong instance may acquire the
// lease.
const turn = int64(20 * time.Millisecond)

// stop ends the watch of m and judges it, unless that watch is over.
func (g *g7) stop(m *movement) {
	if m == nil || m != g.now {
		return
	}
	g.now = nil
	g.moves(m)
	if m.who == nil || m.From == g.w.now {
		return // the newcomer has not come, or no lease had time to move
	}
	var s *session
	first := fmt.Sprintf("it took %d leases and needs %d", m.taken, m.need)
	if t := m.first; t != nil {
		s = t.session
		first = fmt.Sprintf("session %s went from %s to %s at %s", s.id, m.from.inst.who(), t.inst.who(), clock(t.since))
	}
	extra := m.extra + max(0, m.taken-m.need)
	if extra > 0 && g.w.host.stall(m.From, m.From+g.w.Settle()) > turn {
		g.excuse("a host that stalled")
		return
	}
	g.exercise(string(m.Kind))
	g.v.Value += int64(extra)
	if extra > 0 {
		g.broke(s, "the %s of %s at %s moved %d leases more than it had to; the first: %s", m.Kind, m.who.who(), clock(m.From), extra, first)
	}
}

// moves counts the leases that have moved since m began.
func (g *g7) moves(m *movement) {
	for _, s := range g.w.fleet.sessions {
		for i := len(s.history) - 1; i > 0 && s.history[i].since >= m.From; i-- {
			switch t, last := s.history[i], s.history[i-1]; {
			case t.unsaid, m.leave && last.inst == m.who:
			case !m.leave && t.inst.node == m.node:
				m.who = t.inst
				m.taken++
			default:
				m.extra++
				if m.first == nil || t.since <= m.first.since {
					m.first, m.from = t, last
				}
			}
		}
	}
}
