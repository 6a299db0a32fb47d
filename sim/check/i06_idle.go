package check

import (
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// The second half of i6: what no session uses any more is given back. A worker gives back all that a session held before it writes that
// the session has ended, so it holds a service only for a session that has not, and no more slots than services.

// holdings is how many leases Redis holds for a worker.
type holdings struct {
	services, slots int
	extra           *idle // it has more slots than services; nil: it has not
}

// idle is that a worker gives back what it holds for nobody.
type idle struct {
	since    int64
	reported bool
}

// holds counts a lease that Redis holds for the worker, as that knows, from now on or no more.
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

// heard: a holder sends no release of a grant that it never heard of, or of a lease that it says it lost. Both are left to expire.
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

// serves looks whether a service is held for anybody.
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

// wait begins to wait for the end of what is idle, and holds one that has come against its limit.
func (g *i6) wait(of **idle, holder, what string, still func() bool) {
	worker := g.w.instances[holder]
	if worker == nil || worker.gone || g.w.phase == "end" {
		*of = nil // what the dead left is judged apart
		return
	}
	idles := still()
	switch i := *of; {
	case !idles && i != nil:
		*of = nil
		if _, stands := g.held(g.back(i, worker)); stands == tooLate && !i.reported {
			g.kept(i, worker, what)
		}
	case idles && i == nil:
		i = &idle{since: g.w.now}
		*of = i
		g.w.await(func() (promise, bool) {
			return g.back(i, worker), *of == i && still() && !worker.gone && g.w.phase != "end"
		}, func(_ int64, excused *injection) {
			i.reported = true
			if excused != nil {
				g.excuse(excused)
				return
			}
			g.kept(i, worker, what)
		})
	}
}

// back is that a worker gives back what it holds for nobody, whatever befalls others. It may learn that a session has ended only when it
// has tried the slots.
func (g *i6) back(i *idle, worker *instance) promise {
	within := int64(failoverAllowance + time.Duration(g.w.Tuners)*(slotAllowance+g.w.TTL/100))
	return promise{from: i.since - g.limit, base: i.since, by: i.since + within, settle: int64(g.w.TTL/10) + within, only: worker.node}
}

func (g *i6) kept(i *idle, worker *instance, what string) {
	g.breach(breach{from: i.since, who: []*instance{worker}},
		"at %s Redis held %s for %s, which no session had used since %s: it was not given back", clock(g.w.now), what, worker.who(),
		clock(i.since))
}

// stopped: a process that was asked to stop, and ended by itself, has given back all that it held, unless it was kept from it.
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

// used looks at what a session's state says of its service.
func (g *i6) used(e *history.Event) {
	if s := g.book.sessions[e.Session]; s != nil && s.want != nil {
		g.serves(s.service())
	}
}
