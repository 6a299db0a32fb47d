package check

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// i3: every accepted intent reaches a terminal or running state within a stated time after calm; none is lost by any crash.
// The time is one TTL (a dead worker's leases, or a quarantine), one renewal interval and one second. A session that says it
// runs must be served by a tuner, and one that was asked to stop must have ended.
type i3 struct {
	hooks
	book  *intents
	calm  int64 // when it began; -1: not yet
	limit int64
	took  *times
	calls *times // from the answer to the first running or terminal state, of what was accepted in the calm
}

// settleAllowance is the part of I3's limit that no interval of the lease explains.
const settleAllowance = time.Second

func (p Params) settleIntents() time.Duration { return p.TTL + p.Renew + settleAllowance }

func (g *i3) attach(w *world, v Verdict) {
	v.Limit = w.settleIntents().Milliseconds()
	g.hooks.attach(w, v)
	g.calm, g.limit, g.took, g.calls = -1, int64(w.settleIntents()), g.measures("settled"), g.measures("from an answer to its effect")
}

func (g *i3) event(e *history.Event) {
	b := g.book
	switch e.Kind {
	case history.Phase:
		if e.Reason != "calm" {
			return
		}
		g.calm = e.T
		for _, s := range b.order {
			if s.accepted != 0 && (!s.settled() || s.state == stateRunning) {
				g.expect(s, e.T)
			}
		}
	case history.Answered:
		if r := b.requests[e.N]; g.calm >= 0 && e.Reason == "202" && r != nil {
			if r.want == nil {
				g.expect(b.session(r.session), e.T)
			} else if s := b.session(e.Session); s.accepted == e.T {
				g.expect(s, e.T)
			}
		}
	case history.RedisState, history.Seen:
		if s := b.sessions[e.Session]; s != nil && s.accepted != 0 && s.since == e.T && s.settled() {
			if from := max(s.accepted, s.stopped); g.calm >= 0 && from >= g.calm {
				g.calls.add(e.T - from)
			}
		}
		if s := b.sessions[e.Session]; s != nil && s.since == e.T && s.state == stateEnded {
			g.over(s, e.T)
		}
	}
}

// endAllowance is how long a tuner may serve a session whose record says that it ended.
const endAllowance = int64(time.Second)

// over holds the session to its end: a record that says ENDED while the session is served was written by somebody whose term
// was over. A frozen process cannot let go. Where Redis lost data, the end may have been written by an older copy, in which
// nobody ran the session yet: whoever runs it, and hears nothing, may do so until the window that was open then has ended.
func (g *i3) over(s *intent, at int64) {
	from := at
	if g.book.forgiven(s) {
		from = max(at, g.book.lostAt+int64(g.w.TTL))
	}
	g.w.at(from+endAllowance+g.w.stall(at, g.w.now), func() {
		for _, p := range s.serving {
			if s.since == at && !g.w.frozenSince(p.inst, at-int64(g.w.TTL)) && g.w.stall(at, g.w.now) == 0 && g.w.phase != "end" {
				g.broke(g.w.session(s.id), "session %s has said ENDED %s since %s, and at %s a tuner still served it to %s", s.id, s.reason,
					clock(at), clock(g.w.now), g.w.instance(p.inst).who())
			}
		}
	})
}

// settled reports whether the session's record says what it should in the end.
func (s *intent) settled() bool { return s.ended() || s.state == stateRunning && s.stopped == 0 }

// expect holds the session to its word once the time has passed.
func (g *i3) expect(s *intent, from int64) {
	due := from + g.limit + g.w.stall(from, g.w.now)
	g.w.at(due, func() {
		switch stall := g.w.stall(from, g.w.now); {
		case g.w.phase == "end":
		case from+g.limit+stall > due:
			g.expect(s, from) // the host stalled meanwhile
		case g.book.forgiven(s):
			g.excuseFor("Redis lost its data")
		default:
			g.judge(s, from)
		}
	})
}

func (g *i3) judge(s *intent, from int64) {
	g.exercised++
	g.took.add(max(0, s.since-from))
	about := g.w.session(s.id)
	switch {
	case s.state == stateGone && s.reason == "":
		g.broke(about, "session %s, accepted at %s, vanished from Redis, which had lost nothing", s.id, clock(s.accepted))
	case s.state == stateRunning && s.stopped > from: // the stop has its own time
	case !s.settled():
		g.took.add(g.w.now - from)
		state := s.state
		if state == "" {
			state = "known to nobody"
		}
		if s.stopped != 0 && !s.ended() {
			state += " and a stop had been accepted at " + clock(s.stopped)
		}
		g.broke(about, "session %s, accepted at %s, was %s at %s, %d ms after calm", s.id, clock(s.accepted), state, clock(g.w.now),
			ms(g.w.now-from))
	case s.state == stateRunning && len(s.serving) == 0:
		since := s.since
		g.w.at(g.w.now+int64(failoverAllowance), func() { // it may be about to say that it ended
			if s.state == stateRunning && len(s.serving) == 0 && s.since == since && g.w.phase != "end" {
				g.took.add(g.w.now - from)
				g.broke(about, "session %s has said RUNNING since %s, and at %s no tuner served it", s.id, clock(since), clock(g.w.now))
			}
		})
	}
}

func (g *i3) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = ms(g.took.max)
	if g.calls.n > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("in the calm, from an answer to its effect: %s", g.calls))
	}
	return v
}
