package mutant

import (
	"context"
	"fmt"
	"regexp"
	"slices"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Mutant breaks one guarantee on purpose.
type Mutant struct {
	Name     string // [a-z0-9-]
	Story    string // the defect, and the software that has it
	Breaks   string // guarantee that must detect the mutant
	Seeds    uint64 // number of seeds within which the judge must catch the mutant
	Scenario sim.Scenario

	// Exactly one of the following is set.
	Core Rules
	Lua  []Edit
	Run  sim.Breaker
}

// Edit replaces Old, which occurs exactly once in the script, by New.
type Edit struct{ Script, Old, New string }

// Bend applies the mutant to a virtual run.
func (m *Mutant) Bend(v *virtual.Config) {
	switch {
	case m.Core != nil:
		v.New = m.Core.machine
	case m.Run != nil:
		m.Run(v)
	default:
		v.Lua, v.Seams.Script = true, func(text string) string { return edited(text, m.Lua) }
	}
}

// scriptHead matches the first line of a script's file. An instance sends several files as one text.
var scriptHead = regexp.MustCompile(`(?m)^-- ([a-z]+)\.lua `)

// edited applies each edit to the part of a text that comes from its script.
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

// Caught is the result of a hunt.
type Caught struct {
	Seed   uint64   // first seed that broke anything; 0: none
	Broke  []string // broken guarantees
	Detail string   // of the mutant's own guarantee
}

// Hunt plays the mutant's seeds until one breaks a guarantee. It returns an error if none or another guarantee broke, or if the seed
// breaks one without the mutant.
func (m *Mutant) Hunt(ctx context.Context) (Caught, error) {
	for seed := uint64(1); seed <= m.Seeds; seed++ {
		c, err := m.play(ctx, seed, m.Bend)
		switch {
		case err != nil:
			return c, err
		case len(c.Broke) == 0:
			continue
		case !slices.Contains(c.Broke, m.Breaks):
			return c, fmt.Errorf("seed %d breaks %v, want %s: %s", seed, c.Broke, m.Breaks, c.Detail)
		}
		control, err := m.play(ctx, seed, m.control())
		if err == nil && len(control.Broke) > 0 {
			err = fmt.Errorf("seed %d breaks %v with nothing altered: %s", seed, control.Broke, control.Detail)
		}
		return c, err
	}
	return Caught{}, fmt.Errorf("it survives %d seeds", m.Seeds)
}

func (m *Mutant) control() sim.Breaker {
	if m.Lua != nil {
		return sim.Interpreted(nil)
	}
	return nil
}

func (m *Mutant) play(ctx context.Context, seed uint64, bend sim.Breaker) (Caught, error) {
	broken, err := Broken(ctx, &m.Scenario, seed, bend)
	got := Caught{Seed: seed}
	for _, v := range broken {
		if v.ID == panicked || len(m.Scenario.Criteria) == 0 || slices.Contains(m.Scenario.Criteria, v.ID) {
			if got.Broke = append(got.Broke, v.ID); v.ID == m.Breaks || got.Detail == "" {
				got.Detail = v.Detail
			}
		}
	}
	return got, err
}

// panicked stands in for a guarantee if an instance panicked or hung.
const panicked = "panic"

// Broken plays a seed and returns the failed verdicts.
func Broken(ctx context.Context, s *sim.Scenario, seed uint64, bend sim.Breaker) ([]check.Verdict, error) {
	c, plan, err := s.Swarm(seed)
	if err != nil {
		return nil, err
	}
	verdicts, out, _, err := sim.JudgeVirtual(ctx, c, plan, bend)
	if out.Fell != "" {
		verdicts = slices.Insert(verdicts, 0, check.Verdict{ID: panicked, Verdict: check.Fail, Detail: out.Fell})
	}
	return slices.DeleteFunc(verdicts, func(v check.Verdict) bool { return v.Verdict != check.Fail }), err
}

// struck is a storm with only these kinds of faults.
func struck(kinds ...fault.Kind) sim.Scenario { return sim.Scenario{Faults: kinds} }

func of(system string, s sim.Scenario) sim.Scenario {
	s.System = system
	return s
}

func judgedBy(s sim.Scenario, ids ...string) sim.Scenario {
	s.Criteria = ids
	return s
}
