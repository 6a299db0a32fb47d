package fault

import (
	"slices"
	"time"
)

// firsts are the kinds without which a guarantee stays unexercised, in the order in which they hit: changes of the
// fleet while Redis is well (G7 wants a TTL of quiet around each), then silent owners, then Redis, whose quarantines
// delay every change that comes after. What each is for: session-add G8; join G6, G7, G8, G11; leave also G13; crash G5;
// check-send G2; black hole G4; the three losses of Redis G9.
var firsts = []Kind{SessionAdd, Join, Leave, Crash, CheckSend, BlackHole, RedisOutage, RedisWipe, RedisFlush}

// spares are the first to go when a storm has no time for all firsts: other injections exercise the same guarantees.
var spares = []Kind{SessionAdd, RedisFlush, BlackHole, RedisOutage, CheckSend, Leave, Join, RedisWipe}

// roundsMax bounds how often a short list of kinds is gone through alone.
const roundsMax = 4

// lone places the lone injections and moves the cursor to the end of their aftermath.
func (d *drawer) lone() {
	var want []Kind
	for _, k := range firsts {
		if slices.Contains(d.p.Kinds, k) {
			want = append(want, k)
		}
	}
	chosen := len(want) // by the table above; what follows is drawn alone only where time is left
	for _, k := range d.p.Kinds {
		if !slices.Contains(want, k) {
			want = append(want, k)
		}
	}
	if len(want) == 0 {
		return
	}
	if chosen == 0 {
		chosen = len(want)
	}
	first, rest := want[:chosen], want[chosen:]
	warm := d.p.Discovery*2 + slack // a cold start is a change too
	tight := d.total(first, false) > d.p.Storm-warm
	for tight && len(first) > 0 && d.total(first, true) > d.p.Storm-warm {
		first = drop(first)
	}
	if len(first) == 0 {
		d.short(want[0])
		return
	}
	d.at = warm
	d.place(first, tight)
	d.extra(first, rest, tight)
}

// extra uses the time that the firsts left: the other kinds alone once, then all again, up to three quarters of the storm.
func (d *drawer) extra(first, rest []Kind, tight bool) {
	if tight {
		return
	}
	until := d.p.Storm * 3 / 4
	d.rng.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
	for _, k := range rest {
		if d.at+d.total([]Kind{k}, false) <= until {
			d.place([]Kind{k}, false)
		}
	}
	for range roundsMax - 1 {
		if d.at+d.total(first, false) > until {
			return
		}
		d.place(first, false)
	}
}

// drop returns the kinds without the one that is missed least.
func drop(ks []Kind) []Kind {
	for _, k := range spares {
		if i := slices.Index(ks, k); i >= 0 {
			return slices.Delete(slices.Clone(ks), i, i+1)
		}
	}
	return ks[:len(ks)-1]
}

// short places one injection early into a storm that has no time to judge any alone.
func (d *drawer) short(k Kind) {
	d.at = d.p.Storm / 10
	f, _ := d.loneFault(k, true)
	if f.For = min(f.For, d.p.Storm/2).Truncate(time.Millisecond); d.placeable(k) && d.aim(&f) {
		f.Lone = false
		d.add(f, f.For+d.settle())
	}
}

// total is how long the kinds take alone, one after another.
func (d *drawer) total(ks []Kind, tight bool) (sum time.Duration) {
	for i, k := range ks {
		_, length := d.loneFault(k, tight)
		if !d.shares(ks, i, tight) {
			sum += length
		}
	}
	return sum
}

// shares reports whether the i-th kind hits together with the one before it: in a short storm a black hole hits
// while another node is stopped between check and send, where there are owners enough for both. Neither can delay what the
// other is for: G2 and G4 have no time limit that another node's silence could stretch.
func (d *drawer) shares(ks []Kind, i int, tight bool) bool {
	return tight && i > 0 && ks[i] == BlackHole && ks[i-1] == CheckSend && d.several
}

// place places the kinds one after another, each a random moment (at most a tenth of a renewal interval; none in a short
// storm) after the aftermath of the one before.
func (d *drawer) place(ks []Kind, tight bool) {
	for i, k := range ks {
		if !d.placeable(k) {
			continue
		}
		f, length := d.loneFault(k, tight)
		before := d.at
		if n := len(d.faults); d.shares(ks, i, tight) && n > 0 && d.faults[n-1].Kind == ks[i-1] {
			// The one before has moved the cursor to its end; hit shortly after its start.
			d.at = d.faults[n-1].At + d.p.Poll
			length = before - d.at
		}
		if !tight {
			d.at += d.between(0, d.p.Renew/10)
		}
		if d.aim(&f) {
			d.add(f, max(length, f.For+d.p.Renew)) // a node that is down until the calm is no target for more
			d.at = max(before, f.At, d.at+length).Truncate(time.Millisecond)
		}
	}
}

// placeable reports whether the fleet can lose what the kind takes: a crash or a leave needs others to take over, unless
// nothing but such kinds was asked for.
func (d *drawer) placeable(k Kind) bool {
	switch k {
	case Leave:
		return len(d.live) > 2
	case Crash, Terminate, Freeze, CheckSend, Suspend:
		return len(d.live) > 1 || len(d.p.Kinds) == 1
	case KeyDelete, SessionRemove, SessionPause, PollSlow, PollHang:
		return d.sessions > 0
	}
	return true
}

// loneFault returns the kind's lone injection and how long nothing else may follow: until all that it changes has met its
// limits. In a short storm (tight) what follows waits only for what could delay it.
func (d *drawer) loneFault(k Kind, tight bool) (f Fault, length time.Duration) {
	p := d.p
	f = Fault{Kind: k, Lone: true}
	tail := d.settle()
	switch k {
	case Join, Leave:
		return f, max(p.TTL, tail) + slack // G7: no other change within a TTL
	case Crash:
		f.For = d.gap() + slack
		if tight {
			f.For = p.Storm // started again with the calm, so that its return is not a change in another's way
			return f, d.gap() + slack
		}
		f.For += tail // balanced without it, then with it
		return f, f.For + tail
	case Terminate, CrashAll:
		f.For = p.TTL + slack
		tail = p.TTL + slack
	case CheckSend:
		if tight {
			return f, d.gap() + slack
		}
		return f, p.Poll + d.gap() + tail
	case Freeze, BlackHole, RequestsLost, RepliesLost, Cut, Flapping, Suspend:
		f.For = d.outlasting(tight)
	case Latency, Bandwidth, Fragments, ClockDrift, Duplicate, Reorder:
		f.For = 2 * p.Renew
	case SessionAdd:
		tail = p.Discovery + max(p.Discovery, time.Second) + p.Poll + slack
	case SessionRemove, SessionPause:
		tail = 2*p.Discovery + p.Poll + slack
		f.For = p.Discovery
	case PollSlow, PollHang:
		f.For = 2 * p.Poll
	default:
		f.For, tail = d.loneRedis(k, tight)
	}
	d.amounts(&f)
	return f, f.For + tail
}

// outlasting is longer than an owner may be trusted that cannot renew from the injection on: others take over what it held while the
// fault lasts.
func (d *drawer) outlasting(tight bool) time.Duration {
	if tight {
		return d.p.TTL + failoverAllowance + slack
	}
	return d.p.TTL + d.p.Renew
}

// loneRedis returns duration and tail of a fault of Redis.
func (d *drawer) loneRedis(k Kind, tight bool) (dur, tail time.Duration) {
	p := d.p
	again := p.Renew + p.Poll + slack // G9, for owners that live on
	switch k {
	case RedisOutage, RedisWipe, RedisFailover:
		dur = p.Renew / 2
		if tight {
			dur = p.TTL / 15
		}
	case RedisFreeze: // all trust is over when it answers again
		return d.outlasting(tight), p.TTL + again
	case RedisReadOnly, RedisMemory, RedisNoPerm, RedisNoReplicas, RedisMisconf:
		return p.Renew, again
	case ScriptFlush, ClientKill, KeyDelete, RedisSlow:
		return 0, again
	}
	switch {
	case tight && k == RedisFlush: // the last of its kind: nothing that its quarantine could delay comes after
		return dur, again
	case tight:
		return dur, p.TTL + slack // the quarantine
	}
	return dur, p.TTL + again
}

// amounts fills what the kind needs beside its duration, and clears what it does not take.
func (d *drawer) amounts(f *Fault) {
	in := kinds[f.Kind]
	if !in.needFor && !in.mayFor {
		f.For = 0
	}
	if in.needFor {
		f.For = max(f.For, 10*time.Millisecond)
	}
	ms := func(x time.Duration) int64 { return max(1, x.Milliseconds()) }
	p := d.p
	switch f.Kind {
	case Latency:
		f.Ms = ms(d.between(5*time.Millisecond, p.TTL*8/100))
		f.Jitter = f.Ms / 2
	case Flapping:
		f.Ms = ms(d.between(p.Renew/10, p.Renew))
	case Bandwidth:
		f.KBps = 1 + d.rng.Int64N(16)
	case RedisSlow:
		f.Ms = ms(d.between(p.TTL/100, p.TTL/10))
	case RedisLoading:
		f.Ms = ms(p.Renew)
	case ClockStep: // forward, or back
		f.Ms, f.Jitter = ms(d.between(p.TTL/100, p.TTL*2)), d.rng.Int64N(2)
	case ClockDrift: // parts per million, fast or slow; within the margin
		f.Ms, f.Jitter = 1+d.rng.Int64N(5_000), d.rng.Int64N(2)
	case Reorder:
		f.Ms = ms(d.between(p.TTL/100, p.TTL/4))
	case RedisFailover: // how far the replica lags, and how far its clock is off at most
		f.Ms, f.Jitter = ms(d.between(p.TTL/100, p.TTL)), ms(d.between(p.TTL/100, p.TTL/2))
	case SessionAdd:
		f.Ms = 1 + d.rng.Int64N(int64(max(1, p.Sessions/20)))
	case RedisNoPerm:
		f.Deny = denials[d.rng.IntN(len(denials))]
	case PollSlow:
		f.Ms = ms(d.between(p.PollTimeout/4, p.PollTimeout*8/10))
	}
}
