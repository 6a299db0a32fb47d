package check

import "fmt"

// g6 judges that every instance owns within 1 of ideal, and no lease moves any more, 1.2 discovery intervals after the last change that
// Redis shows. After a change of the sessions, the time is two intervals.
type g6 struct {
	hooks
	worst  int64 // largest distance from ideal, in leases, rounded up
	putOff int   // judgements delayed until the end of a fault that hit meanwhile
}

func (g *g6) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	w.rest.observers = append(w.rest.observers, g)
}

func (g *g6) rested() {
	live := g.w.rest.live()
	if len(live) == 0 || g.w.existing == 0 {
		return
	}
	g.absent()
	for _, s := range g.w.sessions.all {
		if !s.unpaused() {
			continue
		}
		if t := s.owner(g.w.now); t != nil {
			if n, ok := live[t.inst]; ok {
				live[t.inst] = n + 1
			}
		}
	}
	g.exercise(g.w.rest.by.name())
	g.widened = max(g.widened, g.w.rest.stalled)
	n, m := int64(len(live)), int64(g.w.existing)
	var least, most *instance
	for _, id := range sortedKeys(g.w.instances) {
		i := g.w.instances[id]
		owned, ok := live[i]
		if !ok {
			continue
		}
		off := owned*n - m
		if off < 0 {
			off = -off
		}
		g.worst = max(g.worst, (off+n-1)/n)
		if least == nil || owned < live[least] {
			least = i
		}
		if most == nil || owned > live[most] {
			most = i
		}
	}
	if live[most]*n-m > n || m-live[least]*n > n {
		g.breach(breach{from: g.w.now, timed: true, who: []*instance{most, least}},
			"at %s, %s after the last change, %d instances share %d sessions, %d.%02d each, but %s owns %d and %s owns %d",
			clock(g.w.now), clock(g.w.now-g.w.rest.since), n, m, m/n, m%n*100/n, most.who(), live[most], least.who(), live[least])
	}
}

// absent finds living instances without a heartbeat: the others do not count them, and they get nothing.
func (g *g6) absent() {
	if !g.w.rest.tap {
		return
	}
	for _, id := range sortedKeys(g.w.instances) {
		if i := g.w.instances[id]; i.ready && !i.gone {
			if _, beats := g.w.rest.beats[id]; !beats {
				g.breach(breach{from: g.w.now, timed: true, who: []*instance{i}},
					"at %s, %s after the last change, %s has no heartbeat although it lives: nobody counts it", clock(g.w.now),
					clock(g.w.now-g.w.rest.since), i.who())
			}
		}
	}
}

// movedAtRest is called for the first lease that moves after the fleet settled. If the host stalled for more than a renewal interval in
// the TTL before, the owner may have had no turn to keep the lease.
func (g *g6) movedAtRest() {
	if g.w.stall(g.w.now-int64(g.w.TTL), g.w.now) > int64(g.w.Renew) {
		g.excuseFor("a host that stalled")
		return
	}
	g.broke(g.w.subject, "a lease moved at %s although nothing had changed since %s and all was to be settled by %s", clock(g.w.now),
		clock(g.w.rest.since), clock(g.w.rest.due))
}

func (g *g6) disturbed(*injection) { g.putOff++ }

func (g *g6) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = g.worst
	if g.exercised > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("looked at the fleet %d times when it had to be at rest: at most %d off ideal",
			g.exercised, g.worst))
	}
	if g.putOff > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("put off %d more until a fault that hit meanwhile was over", g.putOff))
	}
	return v
}
