package mutant

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Rules returns the alterations of one instance's core.
type Rules func(core.Config) exchange

// exchange alters the input and output of a core. Nil functions alter nothing.
type exchange struct {
	event  func(*core.Event)                 // before the core handles it
	answer func(*core.Op, *core.Answer)      // before the core handles it; the op is the original one
	op     func(*core.Op) bool               // before an op is sent; false drops it
	tell   func(*core.Tell) bool             // before the shell handles a tell; false drops it
	more   func(*core.Event, *core.Effects)  // after a step
	also   func(*core.Effects) []core.Event  // additional events for the core, processed at once
	again  func(*core.Op, *core.Answer) bool // true: the core does not see this answer, and the op is sent again
	next   func(core.Time) core.Time         // next tick of the core
}

func (r Rules) machine(c core.Config) virtual.Machine {
	return &instance{Core: core.New(c), exchange: r(c.WithDefaults()), sent: map[uint64]core.Op{}}
}

type instance struct {
	*core.Core
	exchange
	sent map[uint64]core.Op
}

// Step implements virtual.Machine.
func (i *instance) Step(ev core.Event) core.Effects {
	if i.event != nil {
		i.event(&ev)
	}
	if op, ok := i.sent[ev.Answer.Seq]; ok && ev.Kind == core.EvAnswer {
		switch {
		case i.again != nil && i.again(&op, &ev.Answer):
			return core.Effects{Ops: []core.Op{op}}
		case i.answer != nil:
			ev.Answer.Results = slices.Clone(ev.Answer.Results)
			i.answer(&op, &ev.Answer)
		}
	}
	eff := i.Core.Step(ev)
	if i.more != nil {
		i.more(&ev, &eff)
	}
	if i.also != nil {
		for _, next := range i.also(&eff) {
			eff = core.Effects{Tells: slices.Clone(eff.Tells), Ops: slices.Clone(eff.Ops)}
			next.Now = ev.Now
			then := i.Core.Step(next)
			eff.Tells, eff.Ops = append(eff.Tells, then.Tells...), append(eff.Ops, then.Ops...)
		}
	}
	for _, op := range eff.Ops {
		i.sent[op.Seq] = op
	}
	eff.Tells, eff.Ops = passed(eff.Tells, i.tell), passed(eff.Ops, i.op)
	return eff
}

// passed returns the elements that pass accepts, as altered by pass.
func passed[T any](all []T, pass func(*T) bool) []T {
	if pass == nil {
		return all
	}
	kept := all[:0]
	for _, t := range all {
		if pass(&t) {
			kept = append(kept, t)
		}
	}
	return kept
}

// Next implements virtual.Machine.
func (i *instance) Next() core.Time {
	next := i.Core.Next()
	if i.next != nil && next != 0 {
		next = i.next(next)
	}
	return next
}
