package criteria

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// Exercisable returns the guarantees that a run of these parameters can put to the test. They are the run's criteria if none are named. A
// kind of fault counts only if the plan has one whose change no other fault could delay.
func Exercisable(p check.Params) []string {
	r := run{Params: p}
	for n := range p.Plan.Faults {
		x := planned{Interval: p.Plan.Interval(n)}
		if x.until, x.delays = x.Reach(p.Timings, 0); !x.delays {
			x.until = x.From
		}
		r.faults = append(r.faults, x)
	}
	return slices.DeleteFunc(check.IDs(p.System), func(id string) bool { return !p.Judges(id) || !r.exercises(id) })
}

// run asks about the plan of a run.
type run struct {
	check.Params
	faults []planned
}

// planned is a fault of the plan, and until when it delays others, or, if it delays nobody, when it hits.
type planned struct {
	fault.Interval
	until  int64
	delays bool
}

// exercises reports whether a run of these parameters can put the guarantee to the test.
func (p *run) exercises(id string) bool {
	limit := p.TTL + check.FailoverAllowance
	several := p.Nodes > 1
	switch id {
	case "G1", "G2", "G3":
		return several && p.has(silent) || p.has(fault.Kills|fault.Stops|fault.Starts)
	case "G4":
		return p.unanswered(p.Renew, fault.Partitions|fault.Denies)
	case "G5":
		return several && p.alone(limit, fault.Crash) || p.alone(limit, fault.CrashAll)
	case "G7":
		settle := time.Duration(p.Settle())
		return p.apart(settle, max(p.TTL, settle), true, []fault.Kind{fault.Join, fault.Leave})
	case "G8":
		return p.alone(limit+p.Poll, append(fault.Having(fault.Starts|fault.Stops), fault.Crash, fault.SessionAdd)...) ||
			p.alone(p.TTL, fault.BlackHole, fault.Cut)
	case "G9":
		return p.alone(p.Renew+p.Poll+check.FailoverAllowance, fault.Having(fault.Denies)...)
	case "G11":
		return p.most() >= check.InstancesNeeded && p.includes(fault.Join) && p.includes(fault.Leave)
	case "G12":
		return !p.Foreign
	case "G13":
		return several && p.alone(check.FailoverAllowance, fault.Having(fault.Stops)...)
	case "G14", "E7", "I7": // no budget applies to another program
		return p.Counted && !p.Foreign
	case "E1", "E2", "E3":
		return several && (p.aims(0, fault.Kills|fault.Stops) || p.aims(limit, silent))
	case "E4":
		return several && p.alone(limit, fault.Crash, fault.Terminate) && p.aims(0, fault.Kills|fault.Stops)
	case "E5":
		return p.aims(p.Renew+p.RenewTimeout, silent) || p.unanswered(p.Renew+p.RenewTimeout, fault.Denies)
	case "G10", "I2", "I4", "I5":
		return p.Tap
	case "I6":
		return p.Tap && p.alone(limit, fault.Crash)
	}
	return true
}

// silent has the effects of faults that cut a living owner off from Redis, or freeze it.
const silent = fault.Partitions | fault.Freezes

func (p *run) any(is func(x planned) bool) bool { return slices.ContainsFunc(p.faults, is) }

func (p *run) includes(k fault.Kind) bool {
	return p.any(func(x planned) bool { return x.Kind == k })
}

func (p *run) has(any fault.Effect) bool {
	return p.any(func(x planned) bool { return x.Has(any) })
}

// unanswered reports whether a fault with one of the effects keeps a node, or all nodes, from every renewal for at least d.
func (p *run) unanswered(d time.Duration, any fault.Effect) bool {
	return p.any(func(x planned) bool {
		return x.Has(any) && x.Kind.Refuses() != fault.RefusesSome && x.To-x.From >= int64(d)
	})
}

// aims reports whether the plan aims such a fault at the leader for at least d. Only the history shows whether it hit one.
func (p *run) aims(d time.Duration, any fault.Effect) bool {
	return p.includes(fault.CrashAll) || p.any(func(x planned) bool { return x.Has(any) && x.Aims() && x.To-x.From >= int64(d) })
}

func (p *run) most() int {
	n := p.Nodes
	most := n
	for _, x := range p.faults { // in order of their start
		switch x.Kind {
		case fault.Join:
			n++
		case fault.Leave:
			n--
		}
		most = max(most, n)
	}
	return most
}

// alone reports whether the plan has a fault of these kinds that nothing overlaps until limit after it. Faults that delay nobody may.
func (p *run) alone(limit time.Duration, kinds ...fault.Kind) bool {
	return p.apart(0, limit, false, kinds)
}

// apart reports whether the plan has a fault of these kinds that no other overlaps, from the time before it until the time after it. With
// all, faults that delay nobody overlap too.
func (p *run) apart(before, after time.Duration, all bool, kinds []fault.Kind) bool {
	for i, x := range p.faults {
		end := x.To
		if x.Kind == fault.CrashAll { // nobody can take over before the restart
			end += int64(x.For)
		}
		if slices.Contains(kinds, x.Kind) && !p.overlapped(i, x.From-int64(before), end+int64(after), all) {
			return true
		}
	}
	return false
}

// overlapped reports whether a fault other than that one delays others, or with all merely hits, between since and until.
func (p *run) overlapped(but int, since, until int64, all bool) bool {
	for i, x := range p.faults {
		if i != but && (x.delays || all) && x.From <= until && x.until >= since {
			return true
		}
	}
	return false
}
