package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Cause says when a break became inevitable, and which fault was the last that could have been left out.
type Cause struct {
	Guarantee string
	// At is the moment in the storm from which the guarantee breaks even if all faults end; 0: it breaks without any fault.
	At   time.Duration
	Last *fault.Fault // the latest fault without which nothing breaks; nil: no single one
	Runs int
}

// Moment counts the branches that broke. A branch is the run until At, and continues without faults and with other random delays.
type Moment struct {
	At         time.Duration
	Broken, Of int
}

const causeBranches = 4 // of each moment

// FindCause branches a run that breaks the guarantee ("": the first that it breaks) in virtual time, and leaves out its faults. An error
// wraps ErrNothingBroke, ErrInterrupted or ErrHarness.
func FindCause(ctx context.Context, c Config, guarantee string, bend Breaker, progress func(Moment)) (Cause, error) {
	c, err := c.On(EngineVirtual)
	if err != nil {
		return Cause{}, err
	}
	s := shrinker{ctx: ctx, best: c, bend: bend}
	if err := s.first(guarantee); err != nil {
		return Cause{}, err
	}
	from, to := time.Duration(0), c.Storm
	if s.inevitable(c, 0, progress) {
		to = 0
	}
	for to-from > c.TTL/50 && s.err == nil {
		if middle := (from + to) / 2; s.inevitable(c, middle, progress) {
			to = middle
		} else {
			from = middle
		}
	}
	return Cause{Guarantee: s.guarantee, At: to, Last: s.lastOf(c, until(c.Plan.Faults, to)), Runs: s.runs}, s.err
}

// inevitable reports whether all branches at a moment of the storm break.
func (s *shrinker) inevitable(c Config, at time.Duration, progress func(Moment)) bool {
	bend := s.bend
	defer func() { s.bend = bend }()
	m := Moment{At: at, Of: causeBranches}
	for seed := range uint64(causeBranches) {
		s.bend = forked(bend, at, seed+1)
		if s.breaks(c, until(c.Plan.Faults, at)) {
			m.Broken++
		}
	}
	if s.err == nil && progress != nil {
		progress(m)
	}
	return m.Broken == m.Of
}

// lastOf returns the latest fault without which nothing breaks; nil: no single one.
func (s *shrinker) lastOf(c Config, all []fault.Fault) *fault.Fault {
	for i := range slices.Backward(all) {
		if !s.breaks(c, slices.Delete(slices.Clone(all), i, i+1)) && s.err == nil {
			return &all[i]
		}
	}
	return nil
}

// until returns the faults as far as they have come at a moment of the storm.
func until(faults []fault.Fault, at time.Duration) (all []fault.Fault) {
	for _, f := range faults {
		if f.At < at {
			f.For = min(f.For, at-f.At)
			all = append(all, f)
		}
	}
	return all
}

// breaks reports whether a run with these faults breaks the guarantee.
func (s *shrinker) breaks(c Config, faults []fault.Fault) bool {
	plan := *c.Plan
	plan.Faults = faults
	c.Plan = &plan
	if s.err != nil || plan.Validate(c.limits()) != nil {
		return false
	}
	verdicts, err := s.judge(c)
	s.err = err
	return slices.ContainsFunc(verdicts, func(v check.Verdict) bool { return v.ID == s.guarantee && v.Verdict == check.Fail })
}

func forked(bend Breaker, at time.Duration, seed uint64) Breaker {
	return func(v *virtual.Config) {
		if bend != nil {
			bend(v)
		}
		v.Fork, v.ForkSeed = at, seed
	}
}

// String returns the conclusion in two lines.
func (c Cause) String() string {
	text := fmt.Sprintf("%s is bound to break from %v into the storm: if all faults end then, it still breaks", c.Guarantee,
		c.At.Round(time.Millisecond))
	if c.At == 0 {
		return c.Guarantee + " breaks without any fault"
	}
	if c.Last == nil {
		return text + "\nno single fault is the cause: it breaks without any one of them"
	}
	return fmt.Sprintf("%s\nthe last fault that could have been left out: %s of %s, %v into the storm", text, c.Last.Kind, c.Last.Target,
		c.Last.At)
}
