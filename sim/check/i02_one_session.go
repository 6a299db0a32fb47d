package check

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// i2 judges that one idempotency key in force gives one session and exactly one accepted start, however often and wherever clients send
// it. A key is in force from its first accepted start until it expires or its session has ended. i2 matches Redis' keys and records to
// the clients' requests and the API's answers. It computes the key itself.
type i2 struct {
	hooks
	book    *intents
	replays int
	keys    int
}

func (g *i2) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	if !w.Tap {
		g.untested = "what Redis stored was not recorded"
	}
}

func (g *i2) event(e *history.Event) {
	b := g.book
	switch e.Kind {
	case history.RedisIntent:
		if s := b.session(e.Session); e.Reason == "start" && s.starts > 1 {
			g.broke(g.w.session(e.Session), "the start of session %s was published %d times, the last at %s", e.Session, s.starts,
				clock(e.T))
		}
	case history.RedisKeyed:
		g.keyed(b, e)
	case history.RedisUnkeyed:
		if v := b.byHash[e.Reason]; v != nil {
			if o := v.inForce; o != nil && !o.ended() {
				g.broke(g.w.session(o.id), "at %s the key of %s went although session %s, which had it, was %s", clock(e.T), v.payload, o.id, o.state)
			}
			v.inForce = nil
		}
	case history.RedisState:
		if s := b.sessions[e.Session]; s != nil && s.since == e.T && s.state == stateRunning {
			g.runs(s)
		}
	case history.Answered:
		if r := b.requests[e.N]; r != nil && r.want != nil && e.Reason == "202" {
			g.answered(b, r, e)
		}
	}
}

// keyed handles a key that Redis assigns to a session. Its stamp may be a little before that of the request.
func (g *i2) keyed(b *intents, e *history.Event) {
	v, s := b.byHash[e.Reason], b.session(e.Session)
	if v == nil {
		late := *e
		g.w.at(e.T+eventAllowance, func() {
			if v := b.byHash[late.Reason]; v != nil {
				if b.unknownAt > late.T || v.keyedAt > late.T { // the key has ended since, or has a newer assignment
					b.place(s, v)
				} else {
					g.keyed(b, &late)
				}
				return
			}
			g.broke(g.w.session(s.id), "the idempotency key %.12s… of session %s (%s) is that of nothing that anybody asked for: the canonical "+
				"form differs", late.Reason, s.id, clock(late.T))
		})
		return
	}
	b.place(s, v)
	v.keyedAt = e.T
	if v.inForce != nil && v.inForce.created > s.created { // the key has passed on already
		s.passed = v.inForce.created
		return
	}
	old := v.inForce
	if old != nil && old != s {
		old.passed = e.T
		if !old.ended() && (old.state == stateRunning || e.T < v.since+int64(keyLife)) {
			g.broke(g.w.session(e.Session), "at %s the key of %s was given to session %s although session %s, which had it, was %s", clock(e.T),
				v.payload, s.id, old.id, old.state)
		}
	}
	if e.N == 0 && old != s {
		g.keys++
		if e.Until != 0 && e.Until < e.T+int64(keyLife-keyLife/50) {
			g.broke(g.w.session(e.Session),
				"at %s the key of %s was given to session %s for %v: it answers for %v, or as long as that runs", clock(e.T),
				v.payload, s.id, time.Duration(e.Until-e.T).Round(time.Second), keyLife)
		}
	}
	if v.inForce != s {
		v.inForce, v.since, s.passed = s, e.T, 0
	}
	v.until = e.Until
}

// keyLife is how long a key lives for a session that no worker has made run. No run lasts as long.
const keyLife = 24 * time.Hour

// runs judges that the key of a running session has no end. The history may show one step of Redis as several events.
func (g *i2) runs(s *intent) {
	since := s.since
	g.w.at(since+eventAllowance, func() {
		if v := s.want; v != nil && v.inForce == s && s.since == since && v.until != 0 {
			g.broke(g.w.session(s.id), "session %s of %s runs since %s, and its key ends at %s", s.id, v.payload, clock(since), clock(v.until))
		}
	})
}

// answered judges the session that an accepted start was given.
func (g *i2) answered(b *intents, r *request, e *history.Event) {
	s := b.session(e.Session)
	if r.want.accepted > 1 {
		g.exercised++
	}
	if s.accepted < e.T {
		g.replays++
	}
	switch {
	case s.want != nil && s.want != r.want:
		g.broke(g.w.session(s.id), "request %d asked for %s and was given session %s at %s, which is that of %s", e.N, r.want.payload,
			s.id, clock(e.T), s.want.payload)
	case s.passed != 0 && s.passed < r.at && b.ledSince(e.Node, r.at):
		g.broke(g.w.session(s.id), "request %d, sent at %s, was given session %s of %s, whose key had passed to another at %s", e.N,
			clock(r.at), s.id, r.want.payload, clock(s.passed))
	}
	b.place(s, r.want)
}

func (g *i2) finish() {
	b := g.book
	for _, s := range b.order {
		if !g.w.Tap || s.accepted == 0 || s.published || b.forgiven(s) || s.asked <= b.gapAt {
			continue
		}
		g.broke(g.w.session(s.id), "session %s was accepted at %s and its start was never published", s.id, clock(s.accepted))
	}
}

func (g *i2) verdict() Verdict {
	v := g.hooks.verdict()
	if g.keys > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d keys came into force, %d starts were answered with a session that others had been "+
			"given before", g.keys, g.replays))
	}
	return v
}
