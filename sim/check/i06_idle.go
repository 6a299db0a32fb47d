package check

import (
	"strings"
	"time"
)

// The second half of i6: a worker must give back leases that no session uses. It gives back all leases of a session before it writes the
// session's end. So it holds a service only for a session that has not ended, and no more slots than services. Grants that it never heard
// of, and leases that it reported as lost, expire.

// idle is a service's lease that a worker holds without a session, or, without a lease, the worker's slots beyond its services.
type idle struct {
	worker *instance
	lease  *session
}

// unused begins or ends the waits for idle leases of the worker, of which s is one.
func (g *i6) unused(s *session, worker *instance) {
	if worker == nil {
		return
	}
	if strings.HasPrefix(s.id, servicePrefix) {
		g.follow(idle{worker, s}, s.id, func() bool { return worker.knows(s) && s.granted.lives(g.w.now) && !g.book.uses(s.id) })
	}
	g.follow(idle{worker, nil}, "a tuner slot beside those of the services that it held", func() bool {
		extra := 0
		for _, o := range g.leases {
			switch {
			case !worker.knows(o):
			case strings.HasPrefix(o.id, tunerPrefix):
				extra++
			default:
				extra--
			}
		}
		return extra > 0
	})
}

// knows reports whether Redis holds the lease for the instance, which has reported that it has it, and not that it lost it.
func (i *instance) knows(s *session) bool {
	k, t := s.granted, s.last
	return k != nil && k.holder == i.id && t != nil && t.inst == i && t.how != endLost && t.confirmedAt >= k.since
}

// uses reports whether a session may use a service's lease: one that has not ended, and whose service it is or is unknown.
func (b *intents) uses(lease string) bool {
	for s := range b.live {
		if service := s.service(); service == "" || service == lease {
			return true
		}
	}
	return false
}

// follow follows an idle state of a living worker. The leases of dead workers are judged apart.
func (g *i6) follow(of idle, what string, lasts func() bool) {
	o := g.idle[of]
	if o == nil {
		o = &spell{}
		g.idle[of] = o
	}
	if of.worker.gone || g.w.phase == "end" {
		o.drop()
		return
	}
	o.follow(&g.hooks, lasts(), wait{
		now: func() promise { // only faults of that worker delay it; it may learn of a session's end only after it has tried all slots
			within := int64(failoverAllowance + time.Duration(g.w.Tuners)*(slotAllowance+g.w.TTL/100))
			return promise{from: o.from - g.limit, base: o.from, by: o.from + within, settle: int64(g.w.TTL/10) + within, only: of.worker.node}
		},
		pending: func() bool { return lasts() && !of.worker.gone },
		missed: func(int64) {
			g.exercised++
			g.breach(breach{from: o.from, who: []*instance{of.worker}},
				"at %s Redis held %s for %s, which no session had used since %s: it was not given back", clock(g.w.now), what,
				of.worker.who(), clock(o.from))
		},
	})
}

// stopped judges that a process that was asked to stop, and ended by itself, has given back all its leases, unless a fault prevented it.
func (g *i6) stopped(inst *instance) {
	stop := inst.leave
	for _, s := range g.leases {
		if stop == nil || g.w.phase == "end" || !inst.knows(s) || !s.granted.lives(g.w.now) {
			continue
		}
		if by := g.w.hindered(inst.node, stop.start, g.w.now, stop); by != nil {
			g.excuse(by)
			continue
		}
		g.exercised++
		g.breach(breach{from: stop.start, by: stop, who: []*instance{inst}},
			"%s was asked to stop at %s and ended at %s, and Redis still held %s for it", inst.who(), clock(stop.start), clock(g.w.now), s.id)
	}
}
