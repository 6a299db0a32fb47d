package fault

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/timing"
)

// DrawParams is what a storm is drawn for. Only Nodes, TTL, Renew and Storm must be positive; the rest may be zero.
type DrawParams struct {
	Nodes    int // at the start
	Sessions int // at the start

	timing.Timings

	// Storm is the time in which faults hit; every fault is healed before its end or by it.
	Storm time.Duration

	// Kinds are the faults to draw from; empty: DefaultKinds. Kinds that are not available are left out.
	Kinds []Kind

	// Rate is how much denser than usual mixed injections follow each other; 0: as usual. Mixed leaves the lone injections out.
	Rate  float64
	Mixed bool

	// Leader: one lease is what matters, so that mixed injections aim at whoever holds it more often than at owners otherwise.
	Leader bool
	// Owns: whether the node in a slot can own leases. nil: all can.
	Owns func(slot int) bool

	// Virtual: the plan is for the virtual engine, which has faults of its own.
	Virtual bool
}

// DefaultKinds returns the faults that a storm draws from unless told otherwise: those that table calls usual, and why; name others
// to get them. The caller owns the slice.
func DefaultKinds() []Kind { return ranked(func(r *row) int { return r.usual }) }

// slack is what a lone injection waits beyond the computed end of its aftermath. It is not divided by the speed of a run, as
// the allowances of the guarantees are not.
const slack = 300 * time.Millisecond

// failoverAllowance is G5's and G8's allowance beyond the TTL.
const failoverAllowance = 250 * time.Millisecond

// Draw returns the plan that the seed gives for the parameters: the same on every machine, and valid (Plan.Validate).
//
// First come lone injections, one kind after another, so spaced that each change is judged with no other fault in its way
// (guarantees: "faults that overlap"); as many kinds as the storm has time for, those that exercise a guarantee of their
// own first. Where the time is short, injections share it that cannot delay each other. What remains of the storm is filled
// with mixed injections that overlap freely.
func Draw(seed uint64, p DrawParams) Plan {
	d := newDrawer(seed, p)
	if !p.Mixed {
		d.lone()
	}
	d.mixed()
	slices.SortStableFunc(d.faults, func(a, b Fault) int { return int(a.At - b.At) })
	return Plan{Version: Version, Seed: seed, Faults: d.faults}
}

// drawer is the state of one drawing: the plan so far and what the fleet will look like at the cursor.
type drawer struct {
	p        DrawParams
	rng      *rand.Rand
	faults   []Fault
	at       time.Duration         // the cursor: nothing more is placed before it
	live     []int                 // slots that take part, ascending
	several  bool                  // two owners can be hit at once at the start, and there is one more
	slots    int                   // slots ever used
	busy     map[int]time.Duration // slot → end of its latest fault's effect
	aimed    []time.Duration       // the same of faults of owners, whoever they will be
	servers  time.Duration         // when the next fault of a server may come
	redis    time.Duration         // end of Redis' latest fault's effect
	sessions int                   // sessions ever created
	gone     map[int]bool          // sessions removed
	asleep   map[int]time.Duration // session → end of its latest fault
}

// stream separates this generator from others that are built from the same seed.
const stream = 0x6c656173_6573746f

func newDrawer(seed uint64, p DrawParams) *drawer {
	p.Nodes = max(p.Nodes, 1)
	p.TTL = max(p.TTL, 10*time.Millisecond)
	p.Renew = max(p.Renew, time.Millisecond)
	p.Storm = max(p.Storm, 0).Truncate(time.Millisecond)
	if len(p.Kinds) == 0 {
		p.Kinds = DefaultKinds()
	}
	p.Kinds = slices.DeleteFunc(slices.Clone(p.Kinds), func(k Kind) bool { return k.AvailableOn(p.Virtual) != nil })
	d := &drawer{
		p: p, rng: rand.New(rand.NewPCG(seed, stream)), slots: p.Nodes, sessions: p.Sessions,
		busy: map[int]time.Duration{}, gone: map[int]bool{}, asleep: map[int]time.Duration{},
	}
	for i := range p.Nodes {
		d.live = append(d.live, i+1)
	}
	d.several = !p.Leader && d.owners() > 2
	return d
}

// settle is the time in which a change that Redis shows is balanced again (G6), with slack.
func (d *drawer) settle() time.Duration { return d.p.Discovery*12/10 + slack }

// gap is the time in which an owner's silence is made up for (G5, G8).
func (d *drawer) gap() time.Duration { return d.p.TTL + d.p.Poll + failoverAllowance }

// node returns a random slot that takes part and has no fault now; false if there is none.
func (d *drawer) node() (int, bool) {
	free := slices.DeleteFunc(slices.Clone(d.live), func(i int) bool { return d.busy[i] > d.at })
	if len(free) == 0 {
		return 0, false
	}
	return free[d.rng.IntN(len(free))], true
}

// healthy counts the slots that take part and have no fault now, among those that can own leases if owners is set. Whom the faults
// of owners have in hand is not known, but how many they are.
func (d *drawer) healthy(owners bool) (n int) {
	for _, i := range d.live {
		if d.busy[i] <= d.at && (!owners || d.p.Owns == nil || d.p.Owns(i)) {
			n++
		}
	}
	for _, end := range d.aimed {
		if end > d.at {
			n--
		}
	}
	return n
}

// session returns a random session that exists and has no fault now; false if none was found.
func (d *drawer) session() (int, bool) {
	for range 8 {
		if d.sessions == 0 {
			break
		}
		i := 1 + d.rng.IntN(d.sessions)
		if !d.gone[i] && d.asleep[i] <= d.at {
			return i, true
		}
	}
	return 0, false
}

// between draws from [lo, hi), in whole milliseconds.
func (d *drawer) between(lo, hi time.Duration) time.Duration {
	lo, hi = lo.Truncate(time.Millisecond), hi.Truncate(time.Millisecond)
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(d.rng.Int64N(int64((hi-lo)/time.Millisecond)))*time.Millisecond
}

// aim gives the fault its target and says whether there is one.
func (d *drawer) aim(f *Fault) bool {
	switch f.Kind.Scope() {
	case ScopeNode:
		if f.Kind == Join {
			f.Target = NodeTarget(d.slots + 1)
			return true
		}
		if f.Kind != Leave && (f.Lone || d.rng.IntN(4) < d.aims()) && d.healthy(true) > 0 {
			f.Target = Owner
			return true
		}
		i, ok := d.node()
		f.Target = NodeTarget(i)
		return ok
	case ScopeRedis:
		f.Target = Redis
	case ScopeSession:
		if f.Kind == SessionAdd {
			return true
		}
		i, ok := d.session()
		f.Target = SessionTarget(i)
		return ok
	}
	return true
}

// aims is how many of four mixed injections of nodes hit an owner, whoever that is.
func (d *drawer) aims() int {
	if d.p.Leader {
		return 3
	}
	return 2
}

// add puts an aimed fault at the cursor into the plan and follows what it does to the fleet. effect is how long its target
// is left alone. A fault that would be healed as it hits, because the storm is over, is left out.
func (d *drawer) add(f Fault, effect time.Duration) {
	f.At = d.at.Truncate(time.Millisecond)
	f.For = min(f.For, d.p.Storm-f.At).Truncate(time.Millisecond)
	if f.For < 0 || f.For == 0 && f.Kind.row().takes&takesFor != 0 {
		return
	}
	end := f.At + effect
	switch f.Kind.Scope() {
	case ScopeNone:
		for _, i := range d.live {
			d.busy[i] = max(d.busy[i], end)
		}
	case ScopeNode:
		if f.Aims() {
			d.aimed = append(d.aimed, end)
			break
		}
		i, _ := NodeIndex(f.Target)
		switch f.Kind {
		case Join:
			d.slots = i
			d.live = append(d.live, i)
		case Leave:
			d.live = slices.DeleteFunc(d.live, func(j int) bool { return i == j })
		}
		d.busy[i] = end
	case ScopeRedis:
		d.redis = end
	case ScopeServers:
		d.servers = f.At + d.apart()
	case ScopeSession:
		if f.Kind == SessionAdd {
			d.sessions += int(f.Ms)
			break
		}
		i, _ := SessionIndex(f.Target)
		d.asleep[i] = end
		d.gone[i] = f.Kind == SessionRemove
	}
	d.faults = append(d.faults, f)
}
