package check

import (
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// stores are the servers that may grant leases: Redis, and with replicas each that may act as a master, as a deposed one does. Each is held
// to the same rules by itself. A grant that too few replicas acknowledged does not count: nobody may say that it has it.
type stores struct {
	w   *world
	now *store            // of the event in hand
	all map[string]*store // by name, that of the master that the sentinels know being empty
}

// store is one of them.
type store struct {
	tap    bool // what it holds is being watched
	beside bool // others may be: its effects are kept
	epoch  *epoch
	acked  int64             // what it did by then was acknowledged by as many replicas as must
	keys   map[*session]*key // nil: they lie with their sessions
}

// effects are the last that scripts had for instances on a lease.
type effects []effect

type effect struct {
	inst  string
	at    int64
	fence int64 // that was set for it; 0: none
}

// effectsMax is more than any instance has under way.
const effectsMax = 12

func (x *stores) init(w *world) {
	x.w, x.all = w, map[string]*store{}
	x.all[""] = &store{tap: w.Tap, beside: w.replicated(), epoch: &w.epoch}
	x.now = x.all[""]
}

// at finds the server that the event is of. What nodes say is kept with the first.
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

// event follows what is known of the server's keys.
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
			if e.Kind == history.TapDown && e.Reason != "" { // it acts as a master on, under that name
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
// may have acknowledged. Its own fence follows.
func (g *g10) asserted(k *key) bool {
	_, last := k.store.epoch.quarantine(g.w)
	k.over = k.store.beside && k.store.epoch.since != 0 && g.w.now <= last
	return k.over
}

// above: it had the higher fence.
func (g *g10) above(k *key, e *history.Event) {
	if k.over && e.Fence < k.fence {
		g.broke(k.session, "at %s Redis let %s assert its lease of session %s under fence %d over one with %d", clock(e.T), g.who(k.holder),
			k.session.id, e.Fence, k.fence)
	}
	k.over = false
}

// counts holds what a node says it was given against what any server did for it, which as many replicas must have acknowledged by now.
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
