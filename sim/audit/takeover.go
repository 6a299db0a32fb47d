package audit

import (
	"github.com/leasestorm/leasestorm/sim/audit/logs"
	"github.com/leasestorm/leasestorm/sim/check"
)

// takeovers judges the leases that an instance acquires from another: after a release in time (G13), or after a crash (G5).
type takeovers struct {
	failover, stop finding
	p              *limits
	*agenda
	instances *instances
	incidents map[incidentKey]*incident
	slowStops int
}

// incident is the end of an instance, with its leases that others acquired.
type incident struct {
	pending int
	late    []func()
}

type incidentKey struct {
	of   *finding
	inst *instance
}

// takeover is a lease that t acquired after prev.
type takeover struct {
	prev, t *term
	at      int64 // of the log
	took    span
	limit   int64 // 0: it is none
	unclear bool
}

// began looks at a term that follows prev.
func (s *takeovers) began(prev, t *term) {
	switch {
	case prev.end == logs.Released && prev.why == "drain":
		s.await(&s.stop, &takeover{prev: prev, t: t}, func(c *takeover) {
			c.took, c.limit = prev.ended.until(t.granted()), int64(check.FailoverAllowance)
			c.unclear = prev.inst.gone == 0 || prev.inst.gone > prev.ended.wall+c.limit // its release may have come late
		})
	case prev.end == logs.Other && prev.inst.gone == 0:
		last, renewedAt, renews := prev.inst.last, prev.inst.renewedAt, prev.inst.renewals > 0
		at := t.granted()
		s.await(&s.failover, &takeover{prev: prev, t: t}, func(c *takeover) {
			if prev.inst.last > last { // it lives, or ended later
				return
			}
			c.limit = prev.ttl + int64(check.FailoverAllowance)
			c.took = prev.at(last).until(at)
			if c.took.hi <= c.limit {
				return
			}
			// It crashed after its last entry. Its lease ends a TTL after the last renewal, unless another was under way as it crashed.
			c.took = prev.at(prev.confirmed).until(at)
			again := prev.at(renewedAt + int64(s.p.Renew) - 2*grace).until(at)
			c.unclear = !renews || again.hi >= prev.ttl && c.took.lo <= c.limit+prev.ttl
		})
	}
}

// await judges a takeover a while later, because what disturbed it may be logged later. Late is only what at least two leases of one
// instance were, since a session may have been paused meanwhile.
func (s *takeovers) await(f *finding, c *takeover, measure func(*takeover)) {
	key := incidentKey{f, c.prev.inst}
	of := s.incidents[key]
	if of == nil {
		of = &incident{}
		s.incidents[key] = of
	}
	of.pending++
	key.inst.takeovers++
	c.at = s.now
	s.later(c.at+int64(s.p.Renew+s.p.RenewTimeout)+int64(s.p.TTL), func() {
		of.pending--
		key.inst.takeovers--
		measure(c)
		s.judge(f, of, c)
		if of.pending > 0 {
			return
		}
		delete(s.incidents, key)
		if len(of.late) == 1 {
			f.doubt("one lease was acquired late: its session may have been paused")
			return
		}
		for _, fail := range of.late {
			fail()
		}
	})
}

func (s *takeovers) judge(f *finding, of *incident, c *takeover) {
	prev, t := c.prev, c.t
	if c.limit == 0 {
		return
	}
	f.limit = max(f.limit, ms(c.limit))
	switch {
	case c.took.hi <= c.limit:
		f.exercised++
		f.value = max(f.value, ms(c.took.hi))
	case s.instances.disturbed(s.p, prev.inst, c.at-c.took.hi):
		f.excused++
	case c.unclear || c.took.lo <= c.limit || s.over || s.slow(t) || !s.instances.undisturbed(s.p, prev.inst, c.at-c.took.hi, c.at):
		f.doubt("late changes that the log does not explain")
	default:
		f.exercised++
		of.late = append(of.late, func() {
			wall := t.began.wall
			f.lacks(during(t.lease, wall-c.took.lo, wall, prev, t), ms(c.took.lo),
				"%s was acquired by %s (fence %d) at %s, at least %d ms after the end of %s (limit %d ms)",
				t.lease.name, t.inst.id, t.fence, stamp(wall), ms(c.took.lo), prev.inst.id, ms(c.limit))
		})
	}
}

// drained judges that an instance which has released its leases is soon gone. A single late one may have been frozen, so there must be
// two.
func (s *takeovers) drained(i *instance, at int64) {
	limit := int64(s.p.RenewTimeout) + int64(check.FailoverAllowance)
	took, from := at-i.released, i.released
	if from == 0 || took <= limit {
		return
	}
	s.later(s.now+int64(s.p.Renew+s.p.RenewTimeout), func() {
		switch {
		case i.trouble >= from-int64(s.p.Renew) || s.instances.disturbed(s.p, i, from):
			s.stop.excused++
			return
		case s.slowStops == 0 || s.over:
			s.slowStops++
			s.stop.doubt("an instance had released its leases, and took long to stop")
			return
		}
		s.stop.exercised++
		s.stop.limit = max(s.stop.limit, ms(limit))
		s.stop.lacks(during(nil, from, at), ms(took), "%s released its last lease at %s because it stops, and had drained only %d ms later "+
			"(limit %d ms): its heartbeat may keep others from its leases", i.id, stamp(from), ms(took), ms(limit))
	})
}

// slow reports whether the request that began t took time.
func (s *takeovers) slow(t *term) bool {
	return t.confirmed == t.began.wall && t.until != 0 && t.began.wall-(t.until-t.ttl+s.p.margin) > grace
}
