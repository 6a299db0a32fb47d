package check

import (
	"fmt"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// i6 judges that a slot of a crashed worker is free within TTL + 250 ms of the crash, or of the victim's last command that Redis
// executed. After a restart of the same worker, it must be free within 250 ms of the worker's readiness. A lease is free when Redis has
// dropped it or given it to another process. A living worker must give back a lease without a session within 250 ms.
type i6 struct {
	hooks
	book        *intents
	keys        map[string]*taken
	of          map[string]*holdings
	obligations []*obligation // leases of crashed processes, in order
	limit       int64
	took        *times // time after the crash
	again       *times // time after the readiness of the same worker
	crashes     int
}

type taken struct {
	grant
	heard bool  // its holder reported that it has the lease, and not that it lost it
	idle  *idle // a service's lease without a session; nil: a session uses it
}

// obligation is a lease that a crashed process left behind.
type obligation struct {
	*wait
	name   string
	victim *instance
	crash  *injection
	at     int64 // time of the crash
	base   int64 // start of the limit
	ready  int64 // when the same worker was ready again; 0: not yet
}

func (g *i6) attach(w *world, v Verdict) {
	v.Limit = (w.TTL + failoverAllowance).Milliseconds()
	g.hooks.attach(w, v)
	g.keys, g.of, g.limit = map[string]*taken{}, map[string]*holdings{}, int64(w.TTL+failoverAllowance)
	g.took, g.again = g.measures("freed"), g.measures("after the same worker was ready again")
	if !w.Tap {
		g.untested = "what Redis granted was not recorded"
	}
}

func (g *i6) injected(inj *injection) {
	if inj.has(fault.Kills) {
		g.crashes++
	}
}

func (g *i6) event(e *history.Event) {
	switch e.Kind {
	case history.RedisGranted:
		g.let(e.Session, e.Instance)
		old := g.keys[e.Session]
		g.keys[e.Session] = &taken{grant: grant{holder: e.Instance, until: e.Until}}
		g.free(e.Session, old)
		g.late(e)
	case history.RedisExtended:
		if k := g.keys[e.Session]; k != nil {
			k.until = max(k.until, e.Until)
			g.late(e)
		}
	case history.RedisDeleted:
		g.let(e.Session, "")
		old := g.keys[e.Session]
		delete(g.keys, e.Session)
		g.free(e.Session, old)
	case history.Acquired, history.Renewed, history.Lost:
		g.heard(e)
	case history.RedisState:
		g.used(e)
	case history.RedisFlushed, history.TapDown:
		clear(g.keys)
		for _, h := range g.of {
			*h = holdings{} // its holdings are unknown, so no wait is pending
		}
		for _, d := range g.obligations {
			d.over = true
		}
	case history.Exited:
		g.exited(e)
	case history.Ready:
		for _, d := range g.open() {
			if d.ready == 0 && d.victim.node != nil && d.victim.node.name == e.Node && d.victim.id != e.Instance {
				d.ready = e.T
				d.look() // it is due earlier now
			}
		}
	}
}

func (g *i6) open() []*obligation {
	kept := g.obligations[:0]
	for _, d := range g.obligations {
		if !d.over {
			kept = append(kept, d)
		}
	}
	g.obligations = kept
	return kept
}

// exited handles the end of a process, which leaves its leases if the plan killed it. The world has already dropped its instance.
func (g *i6) exited(e *history.Event) {
	inst := g.w.instances[e.Instance]
	switch {
	case inst == nil || g.w.phase == "end":
		return
	case !inst.killed:
		g.stopped(inst)
		return
	}
	var crash *injection
	for _, inj := range slices.Backward(g.w.injections) {
		if inj.has(fault.Kills) && (inj.node == inst.node || inj.Kind.Scope() == fault.ScopeNone) && inj.start <= e.T {
			crash = inj
			break
		}
	}
	if crash == nil {
		return
	}
	for _, name := range sortedKeys(g.keys) {
		if k := g.keys[name]; k.holder == inst.id && (k.until == 0 || k.until > e.T) {
			d := &obligation{name: name, victim: inst, crash: crash, at: e.T, base: e.T}
			d.wait = g.expect(wait{now: func() promise { return g.promise(d) }, missed: func(int64) { g.owe(d) }})
			g.obligations = append(g.obligations, d)
		}
	}
}

// late restarts the limit: a command of the victim, held back by a partition, arrived after its death.
func (g *i6) late(e *history.Event) {
	for _, d := range g.obligations {
		if !d.over && d.name == e.Session && d.victim.id == e.Instance {
			d.base = e.T
		}
	}
}

func (g *i6) promise(d *obligation) promise {
	due := d.base + g.limit
	if d.ready != 0 {
		due = min(due, max(d.ready, d.base)+int64(failoverAllowance))
	}
	return promise{from: d.at, base: d.base, by: due, settle: g.limit, only: d.victim.node, but: d.crash}
}

func (g *i6) free(name string, k *taken) {
	if k == nil {
		return
	}
	if k.heard {
		g.holds(name, k.holder, -1)
	}
	if k.idle != nil {
		g.wait(&k.idle, k.holder, name, func() bool { return false })
	}
}

func (g *i6) owe(d *obligation) {
	k := g.keys[d.name]
	if k.until != 0 && k.until < g.w.now { // Redis grants an expired lease at once, but shows its end late
		g.paid(d, k.until)
		return
	}
	g.exercise(string(d.crash.Kind))
	after := fmt.Sprintf("%d ms after", ms(g.w.now-d.base))
	if d.ready != 0 {
		g.again.add(g.w.now - d.ready)
		after = fmt.Sprintf("%d ms after the same worker was ready again and %s", ms(g.w.now-d.ready), after)
	}
	g.took.add(g.w.now - d.base)
	g.broke(g.w.session(d.name), "at %s, %s the crash of %s at %s, Redis still held %s for it, until %s", clock(g.w.now), after,
		d.victim.who(), clock(d.at), d.name, clock(k.until))
}

// let handles a lease that leaves its holder, unless it goes to the same instance.
func (g *i6) let(name, to string) {
	for _, d := range g.open() {
		if d.name == name && d.victim.id != to {
			at := g.w.now
			if k := g.keys[name]; k != nil && k.until != 0 {
				at = min(at, k.until)
			}
			g.paid(d, at)
		}
	}
}

func (g *i6) paid(d *obligation, at int64) {
	d.over = true
	g.exercise(string(d.crash.Kind))
	g.took.add(max(0, at-d.base))
	if d.ready != 0 {
		g.again.add(max(0, at-d.ready))
	}
}

func (g *i6) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = ms(g.took.max)
	if g.took.n > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d leases left behind by %d crashes, free after %s", g.took.n, g.crashes, g.took))
	}
	if g.again.n > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d of them after the same worker was ready again, within %s", g.again.n, g.again))
	}
	return v
}
