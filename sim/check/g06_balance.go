package check

import "fmt"

// g6 judges that every instance owns within 1 of ideal, and no lease moves any more, 1.2 discovery intervals after the last change that
// Redis shows. After a change of the sessions, the time is two intervals.
type g6 struct {
	hooks
	told bool // a lease has moved since the last check
}

func (g *g6) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	w.rest.g6 = g
}

// rested judges the fleet at rest. A living instance without a heartbeat gets no leases, because the other instances do not count
// it.
func (g *g6) rested(stalled int64) {
	g.told = false
	live, absent := g.w.rest.live()
	n, m := int64(len(live)), int64(g.w.fleet.existing)
	if n == 0 || m == 0 {
		return
	}
	rest := &g.w.rest
	g.exercise(rest.by.name())
	g.widened = max(g.widened, stalled)
	since := fmt.Sprintf("at %s, %s after the last change", clock(g.w.now), clock(g.w.now-rest.since))
	if g.w.Tap {
		for _, i := range absent {
			g.breach(breach{from: g.w.now, timed: true, who: []*instance{i}},
				"%s, %s has no heartbeat although it lives: nobody counts it", since, i.who())
		}
	}
	owned := map[*instance]int64{}
	for _, s := range g.w.fleet.sessions {
		if t := s.owner(g.w.now); s.unpaused() && t != nil {
			owned[t.inst]++
		}
	}
	least, most := live[0], live[0]
	for _, i := range live {
		if owned[i] < owned[least] {
			least = i
		}
		if owned[i] > owned[most] {
			most = i
		}
	}
	off := max(owned[most]*n-m, m-owned[least]*n)
	g.v.Value = max(g.v.Value, (off+n-1)/n) // the largest distance from ideal, in leases, rounded up
	if off > n {
		g.breach(breach{from: g.w.now, timed: true, who: []*instance{most, least}},
			"%s, %d instances share %d sessions, %d.%02d each, but %s owns %d and %s owns %d",
			since, n, m, m/n, m%n*100/n, most.who(), owned[most], least.who(), owned[least])
	}
}

func (g *g6) began(*term) { g.moved() }

func (g *g6) ended(_ *term, how ending) {
	if how == endLost || how == endReleased {
		g.moved()
	}
}

// moved judges the first lease that moves after the fleet settled. If the host stalled for more than a renewal interval in the TTL before,
// the owner may have had no turn to keep the lease.
func (g *g6) moved() {
	if g.told || !g.w.rest.atRest || g.w.phase == "end" {
		return
	}
	g.told = true
	if g.w.host.stall(g.w.now-int64(g.w.TTL), g.w.now) > int64(g.w.Renew) {
		g.excuse("a host that stalled")
		return
	}
	g.broke(g.w.subject, "a lease moved at %s although nothing had changed since %s and all was to be settled by %s", clock(g.w.now),
		clock(g.w.rest.since), clock(g.w.rest.due))
}
