package replicamodel_test

import (
	"slices"
	"strings"
	"testing"

	model "github.com/leasestorm/leasestorm/internal/replicamodel"
)

func design(t *testing.T) model.Protocol {
	t.Helper()
	p, ok := model.Find("P8")
	if !ok {
		t.Fatal("there is no protocol P8")
	}
	return p
}

// storm is a standing storm with that switch, on as many nodes as it wants.
func storm(with string) model.Storm {
	s := model.Standing(with)
	if strings.HasPrefix(with, "shrink") {
		s.Nodes = 5
	}
	return s
}

// The protocol stands every storm that keeps its assumptions, and all leases are owned again soon after.
func TestStands(t *testing.T) {
	for _, sw := range model.Switches {
		if !sw.Stands {
			continue
		}
		t.Run(sw.Name, func(t *testing.T) {
			t.Parallel()
			stands(t, storm(sw.Name), 30)
		})
	}
	for nodes := 2; nodes <= 5; nodes++ {
		s := model.Standing()
		s.Nodes, s.Chain = nodes, nodes > 3
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			stands(t, s, 30)
		})
	}
}

func stands(t *testing.T, s model.Storm, runs uint64) {
	t.Helper()
	p, terms, asserted := design(t), 0, 0
	for seed := range runs {
		out := model.Run(seed+1, p, s)
		if out.Overlap || out.Fall {
			t.Fatalf("seed %d (%v): overlap %v, fence falls %v:\n%s", seed+1, s, out.Overlap, out.Fall,
				strings.Join(model.Shrink(seed+1, p, s), "\n"))
		}
		if low := slices.Min(out.Back[:]); low < 0 || slices.Max(out.Back[:]) > 2.5 {
			t.Errorf("seed %d (%v): leases are owned again after %v TTLs of calm", seed+1, s, out.Back)
		}
		terms, asserted = terms+out.Terms, asserted+out.Asserted
	}
	if terms == 0 || asserted == 0 {
		t.Errorf("%v: %d terms, %d assertions: nothing was tried", s, terms, asserted)
	}
}

// Each rule of the protocol is needed: without it something breaks. Of those that the model does not need it shows that they have a
// part in what happens.
func TestMutants(t *testing.T) {
	for _, m := range model.Mutants {
		t.Run(m.Rule, func(t *testing.T) {
			t.Parallel()
			p, s := design(t), model.Standing(m.With...)
			s.Nodes = max(s.Nodes, m.Of)
			whole := p
			p.Broken = m.Rule
			for seed := max(1, m.From); seed < m.From+m.Runs; seed++ {
				out := model.Run(seed, p, s)
				switch {
				case m.Unseen:
					if out != model.Run(seed, whole, s) {
						return
					}
				case m.Fences && out.Fall, !m.Fences && out.Overlap:
					return
				}
			}
			t.Errorf("%s: not seen in %d runs", m.Why, m.Runs)
		})
	}
}

// Each assumption is needed: a storm that breaks it breaks the promise.
func TestAssumptions(t *testing.T) {
	// The first seed to try, where few break, and how many.
	tries := map[string][2]uint64{}
	for _, sw := range model.Switches {
		if sw.Stands {
			continue
		}
		t.Run(sw.Name, func(t *testing.T) {
			t.Parallel()
			try := tries[sw.Name]
			if try[1] == 0 {
				try = [2]uint64{1, 150}
			}
			for seed := try[0]; seed < try[0]+try[1]; seed++ {
				if model.Run(seed, design(t), storm(sw.Name)).Overlap {
					return
				}
			}
			t.Errorf("%s: no overlap in %d runs: is it an assumption at all?", sw.What, try[1])
		})
	}
}

// What was tried before the design falls short.
func TestForerunnersFall(t *testing.T) {
	for _, name := range []string{"P0", "P1", "P2", "P2-gossip", "recent", "recent-attached"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, ok := model.Find(name)
			if !ok {
				t.Fatal("there is no such protocol")
			}
			for seed := range uint64(200) {
				if model.Run(seed+1, p, model.Standing()).Overlap {
					return
				}
			}
			t.Error("no overlap in 200 runs")
		})
	}
}

func TestRunsRepeat(t *testing.T) {
	for seed := range uint64(5) {
		first := model.Run(seed, design(t), model.Standing())
		if again := model.Run(seed, design(t), model.Standing()); again != first {
			t.Errorf("seed %d: first %+v, then %+v", seed, first, again)
		}
	}
}

// A failover in peace: the lease of an owner that lives is owned on, but for a retry; that of a dead one after its TTL, the promotion
// and a quarantine.
func TestFailover(t *testing.T) {
	for seed := range uint64(40) {
		gap, again := model.Failover(seed+1, design(t), 3, false)
		if gap > 0.15 || again == 0 || again > 1.6 {
			t.Errorf("seed %d: nobody's for %.2f TTL, the dead owner's again after %.2f", seed+1, gap, again)
		}
		if _, again := model.Failover(seed+1, design(t), 3, true); again == 0 || again > 2.6 {
			t.Errorf("seed %d: the old master returns: the dead owner's again after %.2f", seed+1, again)
		}
	}
}

// A run that breaks is made small, and still breaks.
func TestShrink(t *testing.T) {
	p, _ := model.Find("P0")
	for seed := uint64(1); ; seed++ {
		if model.Run(seed, p, model.Standing()).Overlap {
			log := model.Shrink(seed, p, model.Standing())
			if len(log) == 0 || !strings.Contains(log[len(log)-1], "trusts L") && !strings.Contains(strings.Join(log, "\n"), "OVERLAP") {
				t.Errorf("seed %d: %v", seed, log)
			}
			return
		}
	}
}

func TestValidate(t *testing.T) {
	s := model.Standing("no such thing")
	if err := s.Validate(); err == nil || !strings.Contains(err.Error(), "no such thing") {
		t.Errorf("an unknown switch: %v", err)
	}
	if s = model.Standing("grow"); s.Validate() != nil {
		t.Errorf("%v is refused: %v", s, s.Validate())
	}
}
