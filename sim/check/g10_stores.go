package check

import "github.com/leasestorm/leasestorm/sim/history"

// store is a server that may grant leases: the one Redis, or with replicas the master or a deposed master. The rules apply to each
// server separately. A grant that too few replicas acknowledged does not count, and no instance may report it.
type store struct {
	epoch *epoch
	keys  map[*session]*key
	acked int64 // its effects until then were acknowledged by enough replicas
}

func newStore(p *epoch) *store { return &store{epoch: p, keys: map[*session]*key{}} }

// effect is what a server did for an instance.
type effect struct {
	store *store
	at    int64
	fence int64 // 0: none shown
}

// store returns the server of the event. Messages of nodes belong to the master.
func (g *g10) store(e *history.Event) *store {
	name := ""
	if g.w.replicated() && e.Aside() {
		name = e.Node
	}
	if g.stores[name] == nil {
		g.stores[name] = newStore(g.w.servers.epochOf(name))
	}
	return g.stores[name]
}

func (g *g10) key(e *history.Event) *key {
	on, of := g.store(e), g.w.subject
	if on.keys[of] == nil {
		on.keys[of] = &key{session: of, store: on}
	}
	return on.keys[of]
}

// interrupted forgets the holders of a server that is lost from view, or was flushed. A deposed master still acts as a master, under the
// name that the event gives.
func (g *g10) interrupted(e *history.Event) {
	on := g.store(e)
	for _, k := range on.keys {
		k.known = false
	}
	if e.Kind == history.TapDown && e.Reason != "" {
		on.epoch = g.w.servers.epochOf(e.Reason)
		g.stores[e.Reason], g.stores[""] = on, newStore(&g.w.servers.epoch)
	}
}

// did records what a server did for the holder of the lease.
func (g *g10) did(k *key, at int64) *said {
	s := g.by(k.session, k.holder)
	s.effects = append(s.effects, effect{k.store, at, k.fence})
	return s
}

// unheard judges a script for an instance that has trusted one of these leases, or any lease, since before the present epoch. Such
// an instance has not heard of the epoch: an instance that hears of it first reports that it no longer trusts its leases. No script
// may serve it.
func (g *g10) unheard(on *store, inst string, ids ...string) {
	p, at, i := *on.epoch, g.w.now, g.w.fleet.instances[inst]
	if i == nil || i.asks || g.w.Foreign || p.until == never {
		return
	}
	if ids == nil {
		ids = i.leases()
	}
	for _, id := range ids {
		t := i.held[id]
		if t == nil || !t.believes(at) || t.believesSince() >= p.since {
			continue
		}
		from := t.believesSince()
		g.w.at(at+min(g.w.blur(), clockStep), func() {
			if t.believes(g.w.now) && t.believesSince() == from {
				g.broke(t.session, "at %s Redis executed a script of %s, which trusts session %s (fence %d) since before the epoch of Redis' "+
					"data began (%s) and cannot have heard of that: it compared no epochs", clock(at), i.who(), id, t.fence, clock(p.until))
			}
		})
		return
	}
}
