package fault

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Limits is the size of the run that a plan is for.
type Limits struct {
	Nodes    int // at the start
	Sessions int // at the start
	Storm    time.Duration
	Virtual  bool // for the virtual engine, which has more kinds
}

// Validate returns nil if the plan can run: its kinds are available, its faults are in order of At and inside the storm, their targets
// exist when they hit, and their amounts fit their kinds. The error wraps ErrInvalid, ErrUnknownKind or ErrUnavailable and names the
// fault by its number, counted from 1.
func (p Plan) Validate(l Limits) error {
	v := validator{Limits: l, plan: p, nodes: make(map[int]bool, l.Nodes), nodesMax: l.Nodes + joinsMax}
	for i := range l.Nodes {
		v.nodes[i+1] = true
	}
	if l.Virtual {
		v.nodesMax = l.Nodes + joinsMaxVirtual
	}
	for i := range p.Faults {
		if err := v.fault(i); err != nil {
			return fmt.Errorf("fault %d: %w", i+1, err)
		}
	}
	return nil
}

// validator checks the faults of a plan in order. It keeps the nodes and the number of sessions that the faults so far leave.
type validator struct {
	Limits
	plan     Plan
	nodes    map[int]bool // participating slots
	nodesMax int
}

func (v *validator) fault(n int) error {
	f := v.plan.Faults[n]
	if err := f.Possible(v.Virtual); err != nil {
		return err
	}
	if err := v.amounts(f); err != nil {
		return err
	}
	if n > 0 && f.At < v.plan.Faults[n-1].At {
		return fmt.Errorf("%w: at %v, before the one above it (%v): give faults in order of time", ErrInvalid, f.At, v.plan.Faults[n-1].At)
	}
	if f.Kind == SessionAdd {
		v.Sessions += int(max(f.Ms, 1))
	}
	if v.Sessions > sessionsMax {
		return fmt.Errorf("%w: %d sessions with those that it adds: at most %d", ErrInvalid, v.Sessions, sessionsMax)
	}
	if err := v.target(f); err != nil {
		return err
	}
	if f.Target == Same && Lead(v.plan.Faults, n) < 0 {
		return fmt.Errorf("%w: %s of %q: no fault of an owner is above it", ErrInvalid, f.Kind, Same)
	}
	if len(v.nodes) > v.nodesMax {
		return fmt.Errorf("%w: %d nodes with those that joined: at most %d", ErrInvalid, len(v.nodes), v.nodesMax)
	}
	return nil
}

// Limits of a plan's effects, far beyond what any machine can run.
const (
	amountMax       = int64(lengthMax / time.Millisecond)
	sessionsMax     = 1_000_000 // existing and added ones
	joinsMax        = 1_000     // simultaneous nodes beyond those at the start
	joinsMaxVirtual = 20_000
)

// Possible returns nil if an engine can inject the fault in a run of any size: its kind is available (AvailableOn), and no number is
// negative or exceeds the limits (ErrInvalid).
func (f Fault) Possible(virtual bool) error {
	if err := f.Kind.AvailableOn(virtual); err != nil {
		return err
	}
	switch {
	case f.At < 0:
		return fmt.Errorf("%w: %s at %v is outside the storm: before its begin", ErrInvalid, f.Kind, f.At)
	case f.For < 0:
		return fmt.Errorf("%w: %s for %v: must not be negative", ErrInvalid, f.Kind, f.For)
	case f.Ms < 0 || f.Jitter < 0 || f.KBps < 0:
		return fmt.Errorf("%w: %s: amounts (ms, jitterMs, kbps) must not be negative", ErrInvalid, f.Kind)
	case f.For > lengthMax:
		return fmt.Errorf("%w: %s for %v: at most %v", ErrInvalid, f.Kind, f.For, lengthMax)
	case f.Kind == SessionAdd && f.Ms > 100_000:
		return fmt.Errorf("%w: %s of %d sessions at once: at most 100000", ErrInvalid, f.Kind, f.Ms)
	case f.Ms > amountMax || f.Jitter > amountMax || f.KBps > amountMax:
		return fmt.Errorf("%w: %s: amounts (ms, jitterMs, kbps) are at most %d: a day, of ms", ErrInvalid, f.Kind, amountMax)
	}
	return nil
}

func (v *validator) amounts(f Fault) error {
	takes := f.Kind.row().takes
	switch {
	case f.At > v.Storm:
		return fmt.Errorf("%w: %s at %v is outside the storm, which lasts %v", ErrInvalid, f.Kind, f.At, v.Storm)
	case takes&takesFor != 0 && f.For == 0:
		return fmt.Errorf("%w: %s needs a duration (for) after which it is healed", ErrInvalid, f.Kind)
	case takes&(takesFor|mayFor) == 0 && f.For > 0:
		return fmt.Errorf("%w: %s happens at once and takes no duration (for)", ErrInvalid, f.Kind)
	case takes&takesMs != 0 && f.Ms == 0:
		return fmt.Errorf("%w: %s needs an amount (ms)", ErrInvalid, f.Kind)
	case takes&takesKBps != 0 && f.KBps == 0:
		return fmt.Errorf("%w: %s needs an amount (kbps)", ErrInvalid, f.Kind)
	case takes&takesDeny != 0 && !slices.Contains(denials, f.Deny):
		return fmt.Errorf("%w: %s needs what the ACL takes away (deny), one of %s; got %q", ErrInvalid, f.Kind,
			strings.Join(denials, ", "), f.Deny)
	case takes&takesDeny == 0 && f.Deny != "":
		return fmt.Errorf("%w: %s takes nothing away by an ACL (deny)", ErrInvalid, f.Kind)
	}
	return nil
}

func (v *validator) target(f Fault) error {
	switch f.Kind.Scope() {
	case ScopeNone, ScopeServers:
		if v.Virtual && f.Aims() {
			return v.node(f)
		}
		if f.Target != "" {
			return fmt.Errorf("%w: %s takes no target, got %q", ErrInvalid, f.Kind, f.Target)
		}
	case ScopeRedis:
		if f.Target != "" && f.Target != Redis {
			return fmt.Errorf("%w: %s hits %q, got target %q", ErrInvalid, f.Kind, Redis, f.Target)
		}
	case ScopeSession:
		if f.Target == "" {
			return nil
		}
		if i, ok := SessionIndex(f.Target); !ok || i > v.Sessions {
			return fmt.Errorf("%w: %s: no session %q: there are session-1 to session-%d", ErrInvalid, f.Kind, f.Target,
				v.Sessions)
		}
	case ScopeNode:
		return v.node(f)
	}
	return nil
}

func (v *validator) node(f Fault) error {
	target := f.Target
	if f.Aims() {
		of, _ := aimOf(f.Target)
		if s, ok := SessionIndex(of); f.Target == Owner || f.Target == Same || ok && s <= v.Sessions {
			return nil
		}
		target = of
	}
	i, ok := NodeIndex(target)
	switch {
	case !ok && f.Aims():
		return fmt.Errorf("%w: %s: target %q is nobody's: write owner, or owner:session-1 to owner:session-%d", ErrInvalid, f.Kind,
			f.Target, v.Sessions)
	case !ok && (f.Kind == Join || f.Kind == Leave):
		return fmt.Errorf("%w: %s: target %q is no node: write node-1, node-2, …", ErrInvalid, f.Kind, f.Target)
	case !ok:
		return fmt.Errorf("%w: %s: target %q is no node: write node-1, node-2, …, or owner", ErrInvalid, f.Kind, f.Target)
	case f.Kind == Join && v.nodes[i]:
		return fmt.Errorf("%w: %s of %s, which takes part already", ErrInvalid, f.Kind, f.Target)
	case f.Kind == Join:
		v.nodes[i] = true
	case !v.nodes[i]:
		return fmt.Errorf("%w: %s: %s does not take part at that time", ErrInvalid, f.Kind, target)
	case f.Kind == Leave:
		delete(v.nodes, i)
	}
	return nil
}
