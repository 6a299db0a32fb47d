package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// i6 judges that a slot of a crashed worker is free within TTL + 250 ms of the crash, or of the victim's last command that Redis
// executed. After a restart of the same worker, it must be free within 250 ms of the worker's readiness. A lease is free when Redis has
// dropped it or given it to another process. A living worker must release a lease without a session within 250 ms.
type i6 struct {
	intentRule
	leases []*session // all that Redis has granted
	owed   []*obligation
	idle   map[idle]*spell
	took   *measure.Times // time after the crash
	again  *measure.Times // time after the readiness of the same worker
}

// obligation is a lease that a crashed process left behind.
type obligation struct {
	*wait
	lease  *session
	victim *instance
	at     int64 // time of the crash
	base   int64 // start of the limit
	ready  int64 // when the same worker was ready again; 0: not yet
}

func (g *i6) attach(w *world, v Verdict) {
	v.Limit = (w.TTL + FailoverAllowance).Milliseconds()
	g.intentRule.attach(w, v)
	g.took, g.again = g.measures("freed"), g.measures("after the same worker was ready again")
}

func (g *i6) event(e *history.Event) {
	switch e.Kind {
	case history.RedisExtended:
		g.moves(g.w.subject)
	case history.RedisGranted, history.RedisDeleted, history.Acquired, history.Renewed, history.Lost:
		g.moves(g.w.subject)
		g.idles(g.w.subject)
	case history.RedisState:
		if s := g.w.fleet.byID[g.book.session(e.Session).want.service]; s != nil {
			g.idles(s)
		}
	case history.RedisFlushed, history.TapDown: // the holders are unknown now
		g.drop()
	case history.Exited:
		if inst := g.w.fleet.instances[e.Instance]; inst != nil && g.w.phase != "end" {
			g.exited(inst)
		}
	case history.Ready: // the leases of this worker's crash are due earlier now
		for _, d := range g.owed {
			if inst := g.w.reporter; d.ready == 0 && d.victim.node == inst.node && d.victim != inst {
				d.ready = e.T
				d.look()
			}
		}
	}
}

func (g *i6) drop() {
	for _, o := range g.idle {
		o.drop()
	}
	for _, d := range g.owed {
		d.over = true
	}
}

// exited handles the end of a process, which leaves its leases if the plan killed it.
func (g *i6) exited(inst *instance) {
	for _, s := range g.leases {
		switch k := s.granted; {
		case k == nil || k.holder != inst.id || !k.lives(g.w.now):
		case inst.killed && inst.killer != nil:
			d := &obligation{lease: s, victim: inst, at: g.w.now, base: g.w.now}
			d.wait = g.expect(wait{now: func() promise { return g.promise(d) }, missed: func(int64) { g.owe(d) }})
			g.owed = append(g.owed, d)
		case !inst.killed && inst.leave != nil && inst.knows(s):
			g.stopped(inst, s)
		}
	}
}

func (k *grant) lives(now int64) bool { return k.until == 0 || k.until > now }

func (g *i6) promise(d *obligation) promise {
	limit := int64(g.w.TTL + FailoverAllowance)
	due := d.base + limit
	if d.ready != 0 {
		due = min(due, max(d.ready, d.base)+int64(FailoverAllowance))
	}
	return promise{from: d.at, base: d.base, by: due, settle: limit, only: d.victim.node, but: d.victim.killer}
}

// moves handles a lease that Redis has granted, extended or dropped. If a crashed process has it now, a partition delayed a command
// of that process, which arrived after its death.
func (g *i6) moves(s *session) {
	if s.granted != nil && !slices.Contains(g.leases, s) {
		g.leases = append(g.leases, s)
	}
	for _, d := range g.owed {
		switch {
		case d.lease != s || d.over:
		case s.granted != nil && s.granted.holder == d.victim.id:
			d.base = g.w.now
		default:
			g.exercise(string(d.victim.killer.Kind))
			g.free(d, min(g.w.now, cmp.Or(s.before.until, g.w.now)))
		}
	}
}

// free counts a lease that a crashed process left behind: it was free at the given time, or was still held at that time.
func (g *i6) free(d *obligation, at int64) {
	d.over = true
	g.took.Add(max(0, at-d.base))
	g.v.Value = max(g.v.Value, ms(at-d.base))
	if d.ready != 0 {
		g.again.Add(max(0, at-d.ready))
	}
}

func (g *i6) owe(d *obligation) {
	k, now := d.lease.granted, g.w.now
	g.free(d, min(now, cmp.Or(k.until, now)))
	if k.until != 0 && k.until < now { // Redis grants an expired lease at once, but shows its end late
		return
	}
	after := fmt.Sprintf("%d ms after", ms(now-d.base))
	if d.ready != 0 {
		after = fmt.Sprintf("%d ms after the same worker was ready again and %s", ms(now-d.ready), after)
	}
	g.broke(d.lease, "at %s, %s the crash of %s at %s, Redis still held %s for it, until %s", clock(now), after, d.victim.who(), clock(d.at),
		d.lease.id, clock(k.until))
}

// The second half of i6: a worker must release leases that no session uses. It releases all leases of a session before it writes the
// session's end. So it holds a service's lease only for a session that has not ended, and no more slots than services. Two kinds of lease
// are exempt, because they expire by themselves: leases whose grant the worker did not hear of, and leases that it reported as lost.

// idle is a service's lease that a worker holds without a session, or, without a lease, the worker's slots beyond its services.
type idle struct {
	worker *instance
	lease  *session
}

// idles begins or ends the waits for idle leases of the workers that have the lease, or had it last.
func (g *i6) idles(s *session) {
	for _, k := range []*grant{s.before, s.granted} {
		if k == nil || g.w.fleet.instances[k.holder] == nil {
			continue
		}
		worker := g.w.fleet.instances[k.holder]
		if strings.HasPrefix(s.id, servicePrefix) {
			g.follow(idle{worker, s}, s.id, func() bool { return worker.knows(s) && s.granted.lives(g.w.now) && !g.book.uses(s.id) })
		}
		g.follow(idle{worker, nil}, "a tuner slot beside those of the services that it held", func() bool { return g.extra(worker) > 0 })
	}
}

// extra returns how many more slots than services the worker holds.
func (g *i6) extra(worker *instance) (n int) {
	for _, s := range g.leases {
		switch {
		case !worker.knows(s):
		case strings.HasPrefix(s.id, tunerPrefix):
			n++
		default:
			n--
		}
	}
	return n
}

// knows reports whether Redis holds the lease for the instance, and the instance has reported the lease as acquired and not as lost.
func (i *instance) knows(s *session) bool {
	k, t := s.granted, s.last
	return k != nil && k.holder == i.id && t != nil && t.inst == i && t.how != endLost && t.confirmedAt >= k.since
}

// uses reports whether a session may use a service's lease: a session that has not ended, and whose service is this one or unknown.
func (b *intents) uses(lease string) bool {
	for s := range b.live {
		if service := s.want.service; service == "" || service == lease {
			return true
		}
	}
	return false
}

// follow follows an idle state of a living worker. The leases of dead workers are judged separately.
func (g *i6) follow(of idle, what string, lasts func() bool) {
	o := cmp.Or(g.idle[of], &spell{})
	g.idle[of] = o
	if of.worker.gone || g.w.phase == "end" {
		o.drop()
		return
	}
	o.follow(&g.hooks, lasts(), wait{
		now: func() promise { // only faults of that worker delay it; it may learn of a session's end only after it has tried all slots
			ttl, within := int64(g.w.TTL), int64(FailoverAllowance+time.Duration(g.w.Tuners)*(slotAllowance+g.w.TTL/100))
			return promise{from: o.from - ttl - int64(FailoverAllowance), base: o.from, by: o.from + within, settle: ttl/10 + within,
				only: of.worker.node}
		},
		pending: func() bool { return lasts() && !of.worker.gone },
		missed: func(int64) {
			g.breach(breach{from: o.from, who: []*instance{of.worker}},
				"at %s Redis held %s for %s, which no session had used since %s: it was not released", clock(g.w.now), what,
				of.worker.who(), clock(o.from))
		},
	})
}

// stopped judges that a process that was asked to stop, and ended by itself, has released the lease, unless a fault prevented it.
func (g *i6) stopped(inst *instance, s *session) {
	stop := inst.leave
	if by := g.w.faults.hindered(inst.node, stop.From, g.w.now, stop); by != nil {
		g.excuse(by.name())
		return
	}
	g.exercise("")
	g.breach(breach{from: stop.From, by: stop, who: []*instance{inst}},
		"%s was asked to stop at %s and ended at %s, and Redis still held %s for it", inst.who(), clock(stop.From), clock(g.w.now), s.id)
}
