package mutant

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Mutant breaks one promise on purpose.
type Mutant struct {
	Name     string // [a-z0-9-]
	Story    string // what it does wrong, and who ships it so
	Breaks   string // the guarantee that must catch it
	Seeds    uint64 // it is caught within so many
	Scenario sim.Scenario

	// How it breaks the promise: one of these.
	Core Rules
	Lua  []Edit
	Run  func(v *virtual.Config, ran func())
}

// Edit replaces Old, which stands in the script exactly once, by New. The new text calls ran(…), which returns its arguments.
type Edit struct{ Script, Old, New string }

// All returns every mutant.
func All() []Mutant { return slices.Concat(rules, replicas, scripts, others, elections, intents) }

// Named returns the mutant of that name.
func Named(name string) (Mutant, error) {
	all := All()
	i := slices.IndexFunc(all, func(m Mutant) bool { return m.Name == name })
	if i < 0 {
		return Mutant{}, fmt.Errorf("no mutant is called %q; sim/mutant lists them", name)
	}
	return all[i], nil
}

// Bend returns what breaks a virtual run. It calls ran each time something is altered.
func (m *Mutant) Bend(ran func()) sim.Breaker {
	return func(v *virtual.Config) {
		v.Seams.Ran = ran
		switch {
		case m.Core != nil:
			v.New = m.Core.machine(ran)
		case m.Run != nil:
			m.Run(v, ran)
		default:
			v.Lua, v.Seams.Script = true, func(text string) string { return edited(text, m.Lua) }
		}
	}
}

// scriptHead is the first line of a script's file. What an instance sends begins with other files.
var scriptHead = regexp.MustCompile(`(?m)^-- ([a-z]+)\.lua `)

// edited changes the parts of a text that come from the scripts of the edits.
func edited(text string, edits []Edit) string {
	heads := scriptHead.FindAllStringSubmatchIndex(text, -1)
	for i, h := range slices.Backward(heads) {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		part := text[h[0]:end]
		for _, e := range edits {
			if e.Script == text[h[2]:h[3]] {
				part = replaceOnce(part, e)
			}
		}
		text = text[:h[0]] + part + text[end:]
	}
	return text
}

// Caught is what became of a mutant.
type Caught struct {
	Seed   uint64   // the first that broke anything; 0: none did
	Broke  []string // what it broke
	Detail string   // of the mutant's own guarantee
}

// Hunt plays the seeds of a mutant until one breaks a guarantee. The error says why the mutant does not count as caught: nothing was
// broken, or another guarantee; nothing of it ran; or the seed breaks a guarantee with nothing altered, too.
func (m *Mutant) Hunt(ctx context.Context) (Caught, error) {
	var ran atomic.Bool
	bend := m.Bend(func() { ran.Store(true) })
	for seed := uint64(1); seed <= m.Seeds; seed++ {
		c, err := m.play(ctx, seed, bend)
		switch {
		case err != nil:
			return c, err
		case len(c.Broke) == 0:
			continue
		case !slices.Contains(c.Broke, m.Breaks):
			return c, fmt.Errorf("seed %d breaks %v, want %s: %s", seed, c.Broke, m.Breaks, c.Detail)
		case !ran.Load():
			return c, fmt.Errorf("seed %d breaks %v, and nothing was altered in it", seed, c.Broke)
		}
		control, err := m.play(ctx, seed, m.control())
		if err == nil && len(control.Broke) > 0 {
			err = fmt.Errorf("seed %d breaks %v with nothing altered: %s", seed, control.Broke, control.Detail)
		}
		return c, err
	}
	return Caught{}, fmt.Errorf("it survives %d seeds (altered: %v)", m.Seeds, ran.Load())
}

// control plays as the mutant does, with nothing altered.
func (m *Mutant) control() sim.Breaker {
	if m.Lua != nil {
		return sim.Interpreted(nil)
	}
	return nil
}

func (m *Mutant) play(ctx context.Context, seed uint64, bend sim.Breaker) (Caught, error) {
	c, plan, err := m.Scenario.Swarm(seed)
	if err != nil {
		return Caught{}, err
	}
	verdicts, out, _, err := sim.JudgeVirtual(ctx, c, plan, bend)
	if err != nil {
		return Caught{}, err
	}
	got := Caught{Seed: seed}
	if out.Fell != "" {
		got.Broke, got.Detail = append(got.Broke, "panic"), out.Fell
	}
	for _, v := range verdicts {
		if v.Verdict == check.Fail && (len(m.Scenario.Criteria) == 0 || slices.Contains(m.Scenario.Criteria, v.ID)) {
			if got.Broke = append(got.Broke, v.ID); v.ID == m.Breaks || got.Detail == "" {
				got.Detail = v.Detail
			}
		}
	}
	return got, nil
}

// struck is a storm with faults of those kinds alone.
func struck(kinds ...fault.Kind) sim.Scenario { return sim.Scenario{Faults: kinds} }

// of is s in another system.
func of(system string, s sim.Scenario) sim.Scenario {
	s.System = system
	return s
}

// judgedBy is s judged by those guarantees alone.
func judgedBy(s sim.Scenario, ids ...string) sim.Scenario {
	s.Criteria = ids
	return s
}
