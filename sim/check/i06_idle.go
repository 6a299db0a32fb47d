package check

import (
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// The second half of i6: a worker must give back leases that no session uses. It gives back all leases of a session before it writes the
// session's end. So it holds a service only for a session that has not ended, and no more slots than services.

// holdings counts the leases that Redis holds for a worker.
type holdings struct {
	services, slots int
	extra           *idle // excess of slots over services; nil: none
}

// idle is a lease without a session, until the worker gives it back.
type idle struct {
	*wait
	from int64
}

// holds adds by, 1 or -1, to the leases that Redis holds for the worker with the worker's knowledge.
func (g *i6) holds(name, holder string, by int) {
	h := g.of[holder]
	if h == nil {
		h = &holdings{}
		g.of[holder] = h
	}
	switch {
	case strings.HasPrefix(name, servicePrefix):
		h.services += by
	case strings.HasPrefix(name, tunerPrefix):
		h.slots += by
	}
	g.wait(&h.extra, holder, "a tuner slot beside those of the services that it held", func() bool { return h.slots > h.services })
}

// heard tracks whether the holder knows of its lease. Grants that it never heard of, and leases that it reported as lost, expire.
func (g *i6) heard(e *history.Event) {
	k := g.keys[e.Session]
	if has := e.Kind != history.Lost; k != nil && k.holder == e.Instance && k.heard != has {
		by := 1
		if !has {
			by = -1
		}
		k.heard = has
		g.holds(e.Session, k.holder, by)
		g.serves(e.Session)
	}
}

// serves starts or ends the wait for a service's lease that no session uses.
func (g *i6) serves(name string) {
	k := g.keys[name]
	if k == nil || !strings.HasPrefix(name, servicePrefix) {
		return
	}
	b := g.book
	g.wait(&k.idle, k.holder, name, func() bool {
		return g.keys[name] == k && k.heard && b.inUse[name] == 0 && b.unplaced == 0 && (k.until == 0 || k.until > g.w.now)
	})
}

// wait begins to wait for the end of an idle state, and judges one that has ended.
func (g *i6) wait(of **idle, holder, what string, still func() bool) {
	worker := g.w.instances[holder]
	if worker == nil || worker.gone || g.w.phase == "end" {
		*of = nil // leases of dead workers are judged apart
		return
	}
	idles := still()
	switch i := *of; {
	case !idles && i != nil:
		*of = nil
		i.came()
	case idles && i == nil:
		i = &idle{from: g.w.now}
		*of = i
		i.wait = g.expect(wait{
			now:     func() promise { return g.back(i, worker) },
			pending: func() bool { return *of == i && still() && !worker.gone },
			missed: func(int64) {
				g.exercised++
				g.kept(i, worker, what)
			},
		})
	}
}

// back returns the promise that a worker gives back an idle lease, which only faults of that worker delay. It may learn of a session's
// end only after it has tried all slots.
func (g *i6) back(i *idle, worker *instance) promise {
	within := int64(failoverAllowance + time.Duration(g.w.Tuners)*(slotAllowance+g.w.TTL/100))
	return promise{from: i.from - g.limit, base: i.from, by: i.from + within, settle: int64(g.w.TTL/10) + within, only: worker.node}
}

func (g *i6) kept(i *idle, worker *instance, what string) {
	g.breach(breach{from: i.from, who: []*instance{worker}},
		"at %s Redis held %s for %s, which no session had used since %s: it was not given back", clock(g.w.now), what, worker.who(),
		clock(i.from))
}

// stopped judges that a process that was asked to stop, and ended by itself, has given back all its leases, unless a fault prevented it.
func (g *i6) stopped(inst *instance) {
	var stop *injection
	for _, inj := range slices.Backward(g.w.injections) {
		if inj.has(fault.Stops) && inj.node == inst.node {
			stop = inj
			break
		}
	}
	if stop == nil || g.w.phase == "end" {
		return
	}
	for _, name := range sortedKeys(g.keys) {
		if k := g.keys[name]; k.holder != inst.id || !k.heard || k.until != 0 && k.until <= g.w.now {
			continue
		}
		by := g.w.hindered(inst.node, stop.start, g.w.now, stop)
		if by != nil {
			g.excuse(by)
			continue
		}
		g.exercised++
		g.breach(breach{from: stop.start, by: stop, who: []*instance{inst}},
			"%s was asked to stop at %s and ended at %s, and Redis still held %s for it", inst.who(), clock(stop.start),
			clock(g.w.now), name)
	}
}

// used updates the wait for the service of a session whose state changed.
func (g *i6) used(e *history.Event) {
	if s := g.book.sessions[e.Session]; s != nil && s.want != nil {
		g.serves(s.service())
	}
}
