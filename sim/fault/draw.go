package fault

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/timing"
)

// DrawParams describes the run that a storm is drawn for. Only Nodes, TTL, Renew and Storm must be positive.
type DrawParams struct {
	Nodes    int // at the start
	Sessions int // at the start

	timing.Timings

	// Storm is the time in which faults hit. Every fault is healed by its end.
	Storm time.Duration

	// Kinds are the kinds to draw from; empty: DefaultKinds. Draw ignores unavailable kinds.
	Kinds []Kind

	// Rate multiplies the density of mixed injections; 0 means 1. Mixed omits the lone injections.
	Rate  float64
	Mixed bool

	// Leader means that only one lease matters, so mixed injections hit the owner of this lease more often.
	Leader bool
	// Owns reports whether the node in a slot can own leases. nil: all can.
	Owns func(slot int) bool

	// Virtual selects the virtual engine, which has more kinds.
	Virtual bool
}

// DefaultKinds returns the kinds that a storm draws from by default. The caller owns the slice.
func DefaultKinds() []Kind { return ranked(func(r *row) int { return r.usual }) }

// slack extends the aftermath of a lone injection. Like the guarantees' allowances, it ignores a run's speed.
const slack = 300 * time.Millisecond

// Draw returns the seed's plan for the parameters. The plan is valid (Plan.Validate) and the same on every machine.
//
// First come lone injections, one kind after another, with enough time between them to judge each change on its own. The storm's
// length limits the number of lone injections. Kinds that exercise a guarantee of their own come first. In a short storm,
// injections that cannot delay each other may overlap. Mixed injections, which overlap freely, fill the rest of the storm.
func Draw(seed uint64, p DrawParams) Plan {
	d := newDrawer(seed, p)
	if !p.Mixed {
		d.lone()
	}
	d.mixed()
	slices.SortStableFunc(d.faults, func(a, b Fault) int { return int(a.At - b.At) })
	return Plan{Version: Version, Seed: seed, Faults: d.faults}
}

type drawer struct {
	p        DrawParams
	rng      *rand.Rand
	faults   []Fault
	at       time.Duration // cursor: no fault is placed before it
	live     []int         // participating slots, ascending
	several  bool          // there are enough owners to hit two at once
	slots    int
	busy     map[int]time.Duration // slot → end of the effect of its latest fault
	aimed    []time.Duration       // ends of the effects of faults of owners
	servers  time.Duration         // earliest time of the next fault of a server
	redis    time.Duration         // end of the effect of Redis' latest fault
	sessions int
	gone     map[int]bool
	asleep   map[int]time.Duration // session → end of its latest fault
}

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

// settle returns the time until a change that Redis shows is balanced again (G6), with slack.
func (d *drawer) settle() time.Duration { return d.p.Discovery*12/10 + slack }

// gap returns the time until another instance replaces a silent owner (G5, G8).
func (d *drawer) gap() time.Duration { return d.p.TTL + d.p.Poll + FailoverAllowance }

func (d *drawer) node() (int, bool) {
	free := slices.DeleteFunc(slices.Clone(d.live), func(i int) bool { return d.busy[i] > d.at })
	if len(free) == 0 {
		return 0, false
	}
	return free[d.rng.IntN(len(free))], true
}

// healthy counts the slots without a current fault. With owners, it counts only those that can own leases. It also subtracts the
// faults of owners, because the slots that they will hit are not known yet.
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

// owners counts the participating slots that can own leases. The last one must not leave.
func (d *drawer) owners() (n int) {
	for _, i := range d.live {
		if d.p.Owns == nil || d.p.Owns(i) {
			n++
		}
	}
	return n
}

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

// between draws whole milliseconds from [lo, hi).
func (d *drawer) between(lo, hi time.Duration) time.Duration {
	lo, hi = lo.Truncate(time.Millisecond), hi.Truncate(time.Millisecond)
	if hi <= lo {
		return lo
	}
	return lo + time.Duration(d.rng.Int64N(int64((hi-lo)/time.Millisecond)))*time.Millisecond
}

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

// aims returns how many of four mixed injections of nodes hit an owner.
func (d *drawer) aims() int {
	if d.p.Leader {
		return 3
	}
	return 2
}

// apart returns the minimum time to the next fault of a server. Half of the time it is 0, so that old and new masters coexist. If
// replicas attached more than once a TTL, nobody could own anything.
func (d *drawer) apart() time.Duration {
	if d.rng.IntN(2) == 0 {
		return 0
	}
	return d.between(0, 3*d.p.TTL)
}

// add appends a fault at the cursor. For the time effect, the target gets no other fault. add omits a fault that would heal at
// once.
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
