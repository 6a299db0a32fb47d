package check

import (
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// stores holds the servers that may grant leases: one Redis, or with replicas also a deposed master. The rules apply to each by itself. A
// grant that too few replicas acknowledged does not count, and no instance may report it.
type stores struct {
	w   *world
	now *store            // server of the current event
	all map[string]*store // by name; "" is the master that the sentinels know
}

type store struct {
	tap    bool // its keys are being watched
	beside bool // there may be other servers, so its effects are kept
	epoch  *epoch
	acked  int64             // its effects until then were acknowledged by enough replicas
	keys   map[*session]*key // nil: the keys are in their sessions
}

type effects []effect

type effect struct {
	inst  string
	at    int64
	fence int64 // fence set for the instance; 0: none
}

// effectsMax is more than any instance has in flight.
const effectsMax = 12

func (x *stores) init(w *world) {
	x.w, x.all = w, map[string]*store{}
	x.all[""] = &store{tap: w.Tap, beside: w.replicated(), epoch: &w.epoch}
	x.now = x.all[""]
}

// at selects the server of the event. Messages of nodes belong to the first server.
func (x *stores) at(e *history.Event) {
	name := ""
	if x.w.replicated() && e.Aside() {
		name = e.Node
	}
	x.now = x.named(name)
}

func (x *stores) named(name string) *store {
	s := x.all[name]
	if s == nil {
		s = &store{beside: true, epoch: x.w.servers.epochOf(name), keys: map[*session]*key{}}
		x.all[name] = s
	}
	return s
}

func (x *stores) of(s *session) *key { return x.now.key(s) }

func (x *store) key(s *session) *key {
	k := &s.key
	if x.keys != nil {
		if k = x.keys[s]; k == nil {
			k = &key{}
			x.keys[s] = k
		}
	}
	k.session, k.store = s, x
	return k
}

func (x *stores) event(e *history.Event) {
	switch s := x.now; e.Kind {
	case history.TapUp:
		s.tap = true
	case history.RedisAcked:
		s.acked = max(s.acked, e.Until)
	default:
		s.tap = s.tap && e.Kind != history.TapDown
		for _, of := range x.w.sessions.all {
			k := s.key(of)
			k.known = false
			if e.Kind == history.TapDown && e.Reason != "" { // it still acts as a master, under that name
				x.named(e.Reason).key(of).effects, k.effects = k.effects, nil
			}
		}
		if e.Kind == history.TapDown && e.Reason != "" {
			x.named(e.Reason).acked = s.acked
		}
	}
}

func (k *key) effect(e *history.Event, inst string) {
	if !k.store.beside {
		return
	}
	if len(k.effects) == effectsMax {
		k.effects = slices.Delete(k.effects, 0, 1)
	}
	k.effects = append(k.effects, effect{inst, e.T, e.Fence})
}

// asserted reports whether a grant over another's lease may be an assertion in a quarantine. It may replace a lower fence, which too few
// replicas may have acknowledged. Its own fence follows.
func (g *g10) asserted(k *key) bool {
	_, last := k.store.epoch.quarantine(g.w)
	k.over = k.store.beside && k.store.epoch.since != 0 && g.w.now <= last
	return k.over
}

// above checks the fence of such an assertion, which must not be lower.
func (g *g10) above(k *key, e *history.Event) {
	if k.over && e.Fence < k.fence {
		g.broke(k.session, "at %s Redis let %s assert its lease of session %s under fence %d over one with %d", clock(e.T), g.who(k.holder),
			k.session.id, e.Fence, k.fence)
	}
	k.over = false
}

// counts checks a reported grant or renewal against the effects of all servers. Enough replicas must have acknowledged one by now.
func (g *g10) counts(s *said, e *history.Event, since int64) {
	if g.w.Foreign {
		return
	}
	seen := false
	for _, x := range g.stores.all {
		for _, f := range x.key(g.w.subject).effects {
			if f.inst != s.inst || f.at < since || e.Kind == history.Acquired && f.fence != e.Fence {
				continue
			}
			if seen = true; g.w.Replicas == 0 || f.at <= x.acked {
				return
			}
		}
	}
	what, why := "renewed its lease of", "no server did anything for it since "+clock(since)
	if e.Kind == history.Acquired {
		what = "acquired"
	}
	if seen {
		why = "as few replicas had acknowledged that as do not count"
	}
	g.broke(g.w.subject, "%s says that it %s session %s at %s%s, but %s", g.who(e.Instance), what, e.Session, clock(e.T),
		inBrackets(e.Fence), why)
}
