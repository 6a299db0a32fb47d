package fault

import (
	"slices"
	"time"
)

// firsts returns the kinds that hit alone before all others, in order. A short storm omits the spares among them, the first one first.
func firsts() []Kind { return ranked(func(r *row) int { return r.first }) }

func spares() []Kind { return ranked(func(r *row) int { return r.spare }) }

// roundsMax bounds the rounds of lone injections of a short list of kinds.
const roundsMax = 4

func (d *drawer) lone() {
	var want []Kind
	for _, k := range firsts() {
		if slices.Contains(d.p.Kinds, k) {
			want = append(want, k)
		}
	}
	chosen := len(want) // the others hit alone only if there is time
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
	warm := d.p.Discovery*2 + slack // a cold start is a change, too
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

// extra uses the remaining time, up to three quarters of the storm, for the other kinds once and then the first ones again.
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

func drop(ks []Kind) []Kind {
	for _, k := range spares() {
		if i := slices.Index(ks, k); i >= 0 {
			return slices.Delete(slices.Clone(ks), i, i+1)
		}
	}
	return ks[:len(ks)-1]
}

// short places one early injection in a storm that is too short to judge any alone.
func (d *drawer) short(k Kind) {
	d.at = d.p.Storm / 10
	f, _ := d.loneFault(k, true)
	if f.For = min(f.For, d.p.Storm/2).Truncate(time.Millisecond); d.placeable(k) && d.aim(&f) {
		f.Lone = false
		d.add(f, f.For+d.settle())
	}
}

func (d *drawer) total(ks []Kind, tight bool) (sum time.Duration) {
	for i, k := range ks {
		_, length := d.loneFault(k, tight)
		if !d.shares(ks, i, tight) {
			sum += length
		}
	}
	return sum
}

// shares reports whether the injection of the i-th kind overlaps the previous injection. In a short storm with enough owners, a
// black hole may overlap a check-send of another node. G2 and G4 have no time limit that another node's silence could extend.
func (d *drawer) shares(ks []Kind, i int, tight bool) bool {
	return tight && i > 0 && ks[i] == BlackHole && ks[i-1] == CheckSend && d.several
}

// place places the kinds one after another, each after the aftermath of the previous one. Unless the storm is short, it adds a random
// delay of up to Renew/10.
func (d *drawer) place(ks []Kind, tight bool) {
	for i, k := range ks {
		if !d.placeable(k) {
			continue
		}
		f, length := d.loneFault(k, tight)
		before := d.at
		if n := len(d.faults); d.shares(ks, i, tight) && n > 0 && d.faults[n-1].Kind == ks[i-1] {
			// The previous fault has moved the cursor to its end. Hit shortly after its start instead.
			d.at = d.faults[n-1].At + d.p.Poll
			length = before - d.at
		}
		if !tight {
			d.at += d.between(0, d.p.Renew/10)
		}
		if d.aim(&f) {
			d.add(f, max(length, f.For+d.p.Renew)) // a node that is down until the calm gets no other fault
			d.at = max(before, f.At, d.at+length).Truncate(time.Millisecond)
		}
	}
}

// placeable reports whether the fleet can bear the kind. A crash or a leave needs successors, unless only such a kind is wanted.
func (d *drawer) placeable(k Kind) bool {
	switch {
	case k == Leave:
		return len(d.live) > 2
	case k.Scope() == ScopeNode && k.Has(Kills|Stops|Freezes):
		return len(d.live) > 1 || len(d.p.Kinds) == 1
	case k.Scope() == ScopeSession && k != SessionAdd:
		return d.sessions > 0
	}
	return true
}

// loneFault returns the kind's lone injection, and the time without another fault in which all effects meet their limits. In a short
// storm (tight), that time excludes only faults that could delay them.
func (d *drawer) loneFault(k Kind, tight bool) (f Fault, length time.Duration) {
	f = Fault{Kind: k, Lone: true}
	var tail time.Duration
	if draw := k.row().lone; draw != nil {
		f.For, tail = draw(d, tight)
	} else {
		f.For, tail = moment(d, tight)
	}
	d.fill(&f)
	return f, f.For + tail
}

// moment is an instant fault, which at most a quarantine follows.
func moment(d *drawer, tight bool) (dur, tail time.Duration) { return 0, d.quarantine(tight) }

// changing is a change of the fleet, with no other change for a TTL afterwards (G7).
func changing(d *drawer, _ bool) (dur, tail time.Duration) {
	return 0, max(d.p.TTL, d.settle()) + slack
}

// crashing lasts until the fleet is balanced without the node. In a short storm it lasts until the calm, so that the node's return
// disturbs no change.
func crashing(d *drawer, tight bool) (dur, tail time.Duration) {
	passed := d.gap() + slack
	if tight {
		return d.p.Storm, passed - d.p.Storm
	}
	return passed + d.settle(), d.settle()
}

func restarting(d *drawer, _ bool) (dur, tail time.Duration) { return d.p.TTL + slack, d.p.TTL + slack }

func checkSend(d *drawer, tight bool) (dur, tail time.Duration) {
	if tight {
		return 0, d.gap() + slack
	}
	return 0, d.p.Poll + d.gap() + d.settle()
}

// silent lasts longer than the trust window.
func silent(d *drawer, tight bool) (dur, tail time.Duration) { return d.outlasting(tight), d.settle() }

// outliving lasts longer than the quarantine of the next master.
func outliving(d *drawer, _ bool) (dur, tail time.Duration) { return 2*d.p.TTL + d.p.Renew, d.p.TTL }

func slow(d *drawer, _ bool) (dur, tail time.Duration) { return 2 * d.p.Renew, d.settle() }

func adding(d *drawer, _ bool) (dur, tail time.Duration) {
	return 0, d.p.Discovery + max(d.p.Discovery, time.Second) + d.p.Poll + slack
}

func pausing(d *drawer, _ bool) (dur, tail time.Duration) {
	return d.p.Discovery, 2*d.p.Discovery + d.p.Poll + slack
}

func polling(d *drawer, _ bool) (dur, tail time.Duration) { return 2 * d.p.Poll, d.settle() }

// outlasting exceeds the trust window of an owner that cannot renew, so that others take over its leases during the fault.
func (d *drawer) outlasting(tight bool) time.Duration {
	if tight {
		return d.p.TTL + FailoverAllowance + slack
	}
	return d.p.TTL + d.p.Renew
}

// again returns the time until owners that stay alive work as before a fault of Redis (G9).
func (d *drawer) again() time.Duration { return d.p.Renew + d.p.Poll + slack }

// quarantine returns the time until the fleet works as before Redis lost its data.
func (d *drawer) quarantine(tight bool) time.Duration {
	if tight {
		return d.p.TTL + slack
	}
	return d.p.TTL + d.again()
}

func losing(d *drawer, tight bool) (dur, tail time.Duration) {
	if tight {
		return d.p.TTL / 15, d.quarantine(tight)
	}
	return d.p.Renew / 2, d.quarantine(tight)
}

// flushing comes last in a short storm, so that its quarantine delays no other fault.
func flushing(d *drawer, tight bool) (dur, tail time.Duration) {
	if tight {
		return 0, d.again()
	}
	return 0, d.quarantine(tight)
}

// freezingRedis lasts until no owner is trusted any more.
func freezingRedis(d *drawer, tight bool) (dur, tail time.Duration) {
	return d.outlasting(tight), d.p.TTL + d.again()
}

func refused(d *drawer, _ bool) (dur, tail time.Duration) { return d.p.Renew, d.again() }

func renewing(d *drawer, _ bool) (dur, tail time.Duration) { return 0, d.again() }
