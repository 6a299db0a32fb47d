package fault

import (
	"slices"
	"time"
)

// weights are how often a scope's kinds are drawn in the mixed part, relative to each other.
var weights = map[Scope]int{ScopeNone: 1, ScopeNode: 12, ScopeRedis: 3, ScopeSession: 3}

// mixed fills the storm from the cursor to its end with injections that overlap: on different nodes, on Redis and on the
// workload at once. A node has one fault at a time, and a third of the fleet is always without one, so that somebody is
// left to be judged.
func (d *drawer) mixed() {
	// The fewer the nodes, the rarer the injections: each node sees about as many whatever the size of the fleet.
	mean := d.p.TTL*8/100 + d.p.TTL*4/10/time.Duration(d.p.Nodes)
	if d.p.Rate > 0 {
		mean = time.Duration(float64(mean) / d.p.Rate)
	}
	for {
		d.at += d.between(mean/4, mean*7/4).Truncate(time.Millisecond) + time.Millisecond
		if d.at+d.p.Renew/4 >= d.p.Storm {
			return
		}
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

// mixedKind draws a kind: first the scope by its weight, then one of its kinds.
func (d *drawer) mixedKind() (Kind, bool) {
	sum := 0
	byScope := map[Scope][]Kind{}
	for _, k := range d.p.Kinds {
		s := k.Scope()
		byScope[s] = append(byScope[s], k)
	}
	scopes := []Scope{ScopeNone, ScopeNode, ScopeRedis, ScopeSession} // a fixed order, unlike the map's
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

// fits reports whether the kind may hit now without leaving nothing to judge.
func (d *drawer) fits(k Kind) bool {
	switch k.Scope() {
	case ScopeRedis:
		return d.redis <= d.at
	case ScopeNone:
		return d.healthy(false) == len(d.live)
	case ScopeSession:
		return d.fitsSession(k)
	}
	switch k {
	case Join:
		return d.slots < d.p.Nodes+max(2, d.p.Nodes/3)
	case Leave:
		return len(d.live) > max(2, d.p.Nodes*3/4) && d.healthy(false) > 2 && d.owners() > 1
	case CheckSend: // what it waits for takes a TTL
		return d.at+d.p.TTL < d.p.Storm && d.healthy(false) > max(1, d.p.Nodes/3)
	}
	return d.healthy(false) > max(1, d.p.Nodes/3) || d.p.Nodes == 1
}

// owners counts the slots that take part and can own leases: where the last of them leaves, nothing is carried out any more.
func (d *drawer) owners() (n int) {
	for _, i := range d.live {
		if d.p.Owns == nil || d.p.Owns(i) {
			n++
		}
	}
	return n
}

func (d *drawer) fitsSession(k Kind) bool {
	switch k {
	case SessionAdd:
		return d.sessions < d.p.Sessions*3/2+1
	case SessionRemove:
		return len(d.gone) < d.p.Sessions/4
	}
	return true
}

// mixedFault returns an injection of the kind with a duration drawn for it, and how long its target is left alone.
func (d *drawer) mixedFault(k Kind) (f Fault, effect time.Duration) {
	p := d.p
	f = Fault{Kind: k}
	long := d.between(p.Renew/10, p.TTL*3/2)
	brief := d.between(p.Renew/10, p.Renew*3/2)
	effect = p.Renew
	switch k {
	case Crash, Terminate, CrashAll:
		f.For = d.between(p.TTL/10, p.TTL*3/2)
	case Freeze, BlackHole, RequestsLost, RepliesLost, Cut, Suspend:
		// Mostly short, where windows stay open; at times longer than a TTL, where others take over.
		if f.For = brief; d.rng.IntN(3) == 0 {
			f.For = long
		}
	case Latency, Bandwidth, Fragments, Flapping, SessionPause, PollSlow, PollHang, ClockDrift, Duplicate, Reorder:
		f.For = long
	case CheckSend:
		effect = 2*p.TTL + p.Renew
	case RedisOutage, RedisWipe, RedisFailover:
		f.For = d.between(p.Renew/10, p.Renew)
		effect = p.TTL / 2
	case RedisFreeze, RedisReadOnly, RedisMemory, RedisNoPerm, RedisNoReplicas, RedisMisconf:
		f.For = brief
		effect = p.TTL / 2
	case RedisRestart, RedisFlush, RedisLoading:
		effect = p.TTL / 2
	}
	d.amounts(&f)
	return f, f.For + effect
}
