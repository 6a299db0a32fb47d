package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// i4 judges that a rejected request changes nothing. Clients that mean to be refused ask for what no other client asks for, so any trace
// in Redis is theirs. A start whose every request was refused must leave no trace either.
type i4 struct {
	hooks
	book *intents
	by   map[string]int
}

func (g *i4) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.by = map[string]int{}
	if !w.Tap {
		g.untested = "what Redis stored was not recorded"
	}
}

func (g *i4) event(e *history.Event) {
	b := g.book
	switch e.Kind {
	case history.Answered:
		r := b.requests[e.N]
		if r == nil || isNone(e.Reason) {
			return
		}
		bad := len(r.what) > 3 && r.what[:3] == "bad"
		if e.Reason[0] == '4' {
			g.exercised++
			g.by[e.Reason]++
		} else if bad {
			g.broke(nil, "request %d (%s) was answered %s at %s instead of being refused", e.N, r.what, e.Reason, clock(e.T))
		}
	case history.RedisKeyed:
		if v := b.byHash[e.Reason]; v != nil && e.N == 0 && v.refused() {
			g.keyed(v, e.Session, e.T)
		}
	}
}

// aside applies the rule to every other server.
func (g *i4) aside(e *history.Event) {
	if e.Kind == history.RedisKeyed {
		g.event(e)
	}
}

// keyed judges a key for a start that was refused. Its stamp may be a little before that of the request.
func (g *i4) keyed(v *want, session string, at int64) {
	g.w.at(at+eventAllowance, func() {
		if !v.refused() {
			return
		}
		g.broke(g.w.session(session), "at %s Redis held a session (%s) of %s, and every request for it had been refused", clock(at), session,
			v.payload)
		if v.inForce != nil && v.inForce.id == session {
			v.inForce = nil // reported once
		}
	})
}

func (v *want) refused() bool { return v.open == 0 && v.accepted == 0 && v.rejected > 0 }

func (g *i4) finish() {
	b := g.book
	for _, payload := range sortedKeys(b.wants) {
		if v := b.wants[payload]; v.refused() && v.inForce != nil {
			g.broke(g.w.session(v.inForce.id), "Redis holds session %s of %s, and every request for it was refused", v.inForce.id, payload)
		}
	}
}

func (g *i4) verdict() Verdict {
	v := g.hooks.verdict()
	if len(g.by) > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("refused: %s", counts(g.by)))
	}
	return v
}
