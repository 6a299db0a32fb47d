package fault

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/timing"
)

// FailoverAllowance is the time beyond a TTL in which the guarantees expect another instance to notice a free lease and to acquire it.
const FailoverAllowance = 250 * time.Millisecond

// Interval is a fault with all that follows from it: its target and amounts, its effects, when it lasts, and until when it can
// delay others (Reach). Engines inject intervals, the criteria query the intervals of a plan, and the judge queries those of a
// history. Times are in ns. In a plan they count from the start of the storm, in a history from the start of the run.
type Interval struct {
	Fault
	N        int // in the plan, from 0
	Does     Effect
	From, To int64 // To is From for an instant fault
}

// Interval returns the interval of the plan's n-th fault under the assumption that the fault hits on time and is healed after For.
func (p Plan) Interval(n int) Interval { return p.Faults[n].interval(n) }

// As returns the interval of a fault that a history names by number and kind.
func (p Plan) As(n int, k Kind) Interval {
	var f Fault
	if n >= 0 && n < len(p.Faults) {
		f = p.Faults[n]
	}
	if k != "" {
		f.Kind = k
	}
	return f.interval(n)
}

func (f Fault) interval(n int) Interval {
	x := Interval{Fault: f, N: n, Does: f.Kind.Effects(), From: int64(f.At), To: int64(f.At)}
	if !x.Has(Instant) {
		x.To += int64(f.For)
	}
	return x
}

// Has reports whether the interval has at least one of the effects.
func (x Interval) Has(any Effect) bool { return x.Does&any != 0 }

// Lingers returns for how long after the interval's end delayed messages may still arrive, in ns.
func (x Interval) Lingers() int64 {
	if x.Has(Lingers) {
		return (x.Ms + x.Jitter) * int64(time.Millisecond)
	}
	return 0
}

// Reach returns until when the interval or its aftermath can delay others, and false if neither delays any. noticed is the time at which
// an instance first found Redis' data lost; 0: not known.
func (x Interval) Reach(t timing.Timings, noticed int64) (until int64, delays bool) {
	switch {
	case x.Has(Kills): // its leases and its heartbeat outlive it
		return x.From + int64(t.TTL), true
	case x.Has(Stops | Disconnects):
		return x.From + int64(FailoverAllowance), true
	case x.Has(StepsClock): // its node doubts its terms, and acquires nothing for a TTL
		return x.From + int64(t.TTL+t.Renew), true
	case x.Kind == RedisSlow:
		return max(x.To, x.From+x.Ms*int64(time.Millisecond)), true
	case x.Has(Forgets) && noticed != 0: // the quarantine began with the first script that saw the loss
		return noticed + int64(t.TTL), true
	case x.Has(Forgets): // or begins with the next renewal
		return x.To + int64(t.TTL+t.Renew), true
	case x.Kind.Refuses() != RefusesNothing: // a refused request is retried within a quarter of a renewal interval (G14)
		return x.To + int64(t.Renew)/4, true
	case x.Has(BlocksAcquire):
		return x.To + int64(t.TTL), true
	case x.Has(Denies | Silences):
		return x.To + x.Lingers(), true
	}
	return 0, false
}
