package check

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// i2 judges that one idempotency key in force gives one session and exactly one accepted start, however often and wherever clients send
// it. A key is in force from its first accepted start until it expires or its session has ended. i2 matches Redis' keys and records to
// the clients' requests and the API's answers. It computes the key itself.
type i2 struct{ intentRule }

func (g *i2) event(e *history.Event) {
	b := g.book
	switch e.Kind {
	case history.RedisIntent:
		if s := b.session(e.Session); e.Reason == "start" && s.starts > 1 {
			g.broke(s.session, "the start of session %s was published %d times, the last at %s", s.id, s.starts, clock(e.T))
		}
	case history.RedisKeyed:
		g.keyed(b.key(e.Reason), b.session(e.Session), e)
	case history.RedisUnkeyed:
		v := b.key(e.Reason)
		if o := v.inForce; o != nil && !o.ended() {
			g.broke(o.session, "at %s the key of %s went although session %s, which had it, was %s", clock(e.T), v.payload, o.id, o.state)
		}
		v.inForce = nil
	case history.RedisState:
		if s := b.session(e.Session); s.since == e.T && s.state == stateRunning {
			g.runs(s)
		}
	case history.Answered:
		if r := b.answered; r != nil && r.want != nil && r.session != nil {
			g.accepted(r, r.session, e)
		}
	}
}

// keyLife is how long a key lives for a session that no worker has made run. No run lasts as long.
const keyLife = 24 * time.Hour

// keyed handles a key that Redis assigns to a session.
func (g *i2) keyed(v *want, s *intent, e *history.Event) {
	old := v.inForce
	s.want, v.inForce, v.until = v, s, e.Until
	if old == s {
		return
	}
	s.passed = 0
	if old != nil {
		old.passed = e.T
		if !old.ended() {
			g.broke(s.session, "at %s the key of %s was given to session %s although session %s, which had it, was %s", clock(e.T), v.payload,
				s.id, old.id, old.state)
		}
	}
	if e.N == 0 && e.Until != 0 && e.Until < e.T+int64(keyLife-keyLife/50) {
		g.broke(s.session, "at %s the key of %s was given to session %s for %v: it answers for %v, or as long as that runs", clock(e.T),
			v.payload, s.id, time.Duration(e.Until-e.T).Round(time.Second), keyLife)
	}
}

// runs judges that the key of a running session has no end. The history may show one step of Redis as several events.
func (g *i2) runs(s *intent) {
	since := s.since
	g.w.at(g.w.host.recordedBy(since), func() {
		if v := s.want; v.inForce == s && s.since == since && v.until != 0 {
			g.broke(s.session, "session %s of %s runs since %s, and its key ends at %s", s.id, v.payload, clock(since), clock(v.until))
		}
	})
}

// accepted judges the session that an accepted start was given.
func (g *i2) accepted(r *request, s *intent, e *history.Event) {
	if r.want.accepted > 1 {
		g.exercise("")
	}
	switch {
	case s.want != r.want && s.want.payload != "":
		g.broke(s.session, "request %d asked for %s and was given session %s at %s, which is that of %s", e.N, r.want.payload, s.id,
			clock(e.T), s.want.payload)
	case s.passed != 0 && s.passed < r.at && g.book.ledSince(g.w.fleet.node(e.Node), r.at):
		g.broke(s.session, "request %d, sent at %s, was given session %s of %s, whose key had passed to another at %s", e.N, clock(r.at),
			s.id, r.want.payload, clock(s.passed))
	}
	s.want = r.want
}

func (g *i2) finish() {
	b := g.book
	for _, key := range sortedKeys(b.wants) {
		if v := b.wants[key]; v.payload == "" && v.first != nil && v.firstAt+eventAllowance < g.w.now {
			g.breach(breach{session: v.first.session, from: v.firstAt}, "the idempotency key %.12s… of session %s (%s) is that of nothing that "+
				"anybody asked for: the canonical form differs", key, v.first.id, clock(v.firstAt))
		}
	}
	for _, s := range b.order {
		if g.w.Tap && s.accepted != 0 && !s.published && !b.forgiven(s) && s.asked > b.gapAt {
			g.broke(s.session, "session %s was accepted at %s and its start was never published", s.id, clock(s.accepted))
		}
	}
}
