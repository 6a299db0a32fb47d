package mutant

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Rules makes what alters the exchange of one instance's core with the rest.
type Rules func(core.Config) exchange

// exchange alters what passes. A nil function alters nothing.
type exchange struct {
	event  func(*core.Event)                 // before the core is told it
	answer func(*core.Op, *core.Answer)      // likewise; the op is as the core asked for it
	op     func(*core.Op) bool               // before it is sent; false: it is not
	tell   func(*core.Tell) bool             // before the shell is told it; false: it is not
	more   func(*core.Event, *core.Effects)  // after a step
	also   func(*core.Effects) []core.Event  // what the core is told besides, at once
	again  func(*core.Op, *core.Answer) bool // the core is not told this answer, and the op is sent once more
	next   func(core.Time) core.Time         // when the core wants a tick
}

func (r Rules) machine(c core.Config) virtual.Machine {
	return &instance{Core: core.New(c), exchange: r(c.WithDefaults()), sent: map[uint64]core.Op{}}
}

// instance is a core behind an altered exchange.
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

// passed returns what pass lets through, as pass alters it.
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
