package fault

import (
	"slices"
	"time"
)

var weights = map[Scope]int{ScopeNone: 1, ScopeNode: 12, ScopeRedis: 3, ScopeSession: 3, ScopeServers: 12}

// mixed fills the rest of the storm with overlapping injections on nodes, Redis and the workload. A node has one fault at a time. A third
// of the fleet always has none, so that the run can be judged.
func (d *drawer) mixed() {
	// A smaller fleet gets fewer injections, so that the number per node is about the same in any fleet.
	mean := d.p.TTL*8/100 + d.p.TTL*4/10/time.Duration(d.p.Nodes)
	if d.p.Rate > 0 {
		mean = time.Duration(float64(mean) / d.p.Rate)
	}
	for {
		d.at += d.between(mean/4, mean*7/4).Truncate(time.Millisecond) + time.Millisecond
		if d.at+d.p.Renew/4 >= d.p.Storm {
			return
		}
		d.aimed = slices.DeleteFunc(d.aimed, func(end time.Duration) bool { return end <= d.at }) // keeps the list short in a long storm
		k, ok := d.mixedKind()
		if !ok {
			return
		}
		f, effect := d.mixedFault(k)
		if d.fits(k) && d.aim(&f) {
			d.add(f, effect)
		}
	}
}

func (d *drawer) mixedKind() (Kind, bool) {
	sum := 0
	byScope := map[Scope][]Kind{}
	for _, k := range d.p.Kinds {
		s := k.Scope()
		byScope[s] = append(byScope[s], k)
	}
	scopes := []Scope{ScopeNone, ScopeNode, ScopeRedis, ScopeSession, ScopeServers} // a fixed order, unlike the map's
	scopes = slices.DeleteFunc(scopes, func(s Scope) bool { return len(byScope[s]) == 0 })
	for _, s := range scopes {
		sum += weights[s]
	}
	if sum == 0 {
		return "", false
	}
	x := d.rng.IntN(sum)
	for _, s := range scopes {
		if x -= weights[s]; x < 0 {
			return byScope[s][d.rng.IntN(len(byScope[s]))], true
		}
	}
	return "", false
}

// fits reports whether the kind may hit now and still leaves a fleet to judge.
func (d *drawer) fits(k Kind) bool {
	switch k.Scope() {
	case ScopeRedis:
		return d.redis <= d.at
	case ScopeNone:
		return d.healthy(false) == len(d.live)
	case ScopeSession:
		return k.row().room == nil || k.row().room(d)
	case ScopeServers:
		return d.servers <= d.at
	}
	if room := k.row().room; room != nil {
		return room(d)
	}
	return d.healthy(false) > max(1, d.p.Nodes/3) || d.p.Nodes == 1
}

func roomToJoin(d *drawer) bool { return d.slots < d.p.Nodes+max(2, d.p.Nodes/3) }

func roomToLeave(d *drawer) bool {
	return len(d.live) > max(2, d.p.Nodes*3/4) && d.healthy(false) > 2 && d.owners() > 1
}

// roomToOutlast is for kinds that need a TTL to take effect.
func roomToOutlast(d *drawer) bool {
	return d.at+d.p.TTL < d.p.Storm && d.healthy(false) > max(1, d.p.Nodes/3)
}

func roomForSessions(d *drawer) bool { return d.sessions < d.p.Sessions*3/2+1 }

func roomToRemove(d *drawer) bool { return len(d.gone) < d.p.Sessions/4 }

// mixedFault returns an injection, and the time in which its target gets no other fault.
func (d *drawer) mixedFault(k Kind) (f Fault, effect time.Duration) {
	f = Fault{Kind: k}
	long := d.between(d.p.Renew/10, d.p.TTL*3/2)
	brief := d.between(d.p.Renew/10, d.p.Renew*3/2)
	if draw := k.row().mixed; draw != nil {
		f.For, effect = draw(d, brief, long)
	} else {
		f.For, effect = passing(d, brief, long)
	}
	d.fill(&f)
	return f, f.For + effect
}

func passing(d *drawer, _, _ time.Duration) (dur, effect time.Duration) { return 0, d.p.Renew }

func lasting(d *drawer, _, long time.Duration) (dur, effect time.Duration) { return long, d.p.Renew }

func comingBack(d *drawer, _, _ time.Duration) (dur, effect time.Duration) {
	return d.between(d.p.TTL/10, d.p.TTL*3/2), d.p.Renew
}

// silence is mostly short, so that trust windows stay open. A third of the silences last longer than a window, so that other
// instances take over.
func silence(d *drawer, brief, long time.Duration) (dur, effect time.Duration) {
	if d.rng.IntN(3) == 0 {
		return long, d.p.Renew
	}
	return brief, d.p.Renew
}

func stopping(d *drawer, _, _ time.Duration) (dur, effect time.Duration) {
	return 0, 2*d.p.TTL + d.p.Renew
}

// outlasting mostly lasts longer than a new master's quarantine.
func outlasting(d *drawer, _, _ time.Duration) (dur, effect time.Duration) {
	return d.between(d.p.Renew/10, d.p.TTL*3), d.p.Renew
}

func loss(d *drawer, _, _ time.Duration) (dur, effect time.Duration) {
	return d.between(d.p.Renew/10, d.p.Renew), d.p.TTL / 2
}

func refusing(d *drawer, brief, _ time.Duration) (dur, effect time.Duration) {
	return brief, d.p.TTL / 2
}

func forgetting(d *drawer, _, _ time.Duration) (dur, effect time.Duration) { return 0, d.p.TTL / 2 }
