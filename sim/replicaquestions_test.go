package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// TestReplicaQuestions plays the questions of docs/replicas.md, as TestQuestions does, with two replicas behind Sentinel. The times of
// sentinels and servers are drawn. So the test also plays each question twenty times (or "seeds" times) and records how long the lease had
// no owner. All plays are judged.
func TestReplicaQuestions(t *testing.T) {
	datadriven.RunTest(t, "testdata/replicaquestions", func(t *testing.T, d *datadriven.TestData) string {
		watched, told, seeds := "session-1", uint64(7), 20
		d.MaybeScanArgs(t, "lease", &watched)
		d.MaybeScanArgs(t, "seed", &told)
		d.MaybeScanArgs(t, "seeds", &seeds)
		_, story := playReplicas(t, d, watched, told)
		text := story.String()
		var without []time.Duration
		for seed := range uint64(seeds) {
			s, _ := playReplicas(t, d, watched, seed+1)
			without = append(without, s.longest)
		}
		if slices.Sort(without); seeds > 0 {
			text += fmt.Sprintf("of %d seeds: without an owner for %s at least, %s in half, %s at most\n", seeds,
				secs(without[0]), secs(without[seeds/2]), secs(without[seeds-1]))
		}
		return text
	})
}

// playReplicas plays and judges a question once.
func playReplicas(t *testing.T, d *datadriven.TestData, watched string, seed uint64) (*gap, *timeline) {
	t.Helper()
	s, err := load("questions", func(string) ([]byte, error) {
		return []byte(askedFleet + "topology: sentinel\nreplicas: 2\nplan:\n" + d.Input), nil
	})
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	s.Seed = seed
	c := resolved(t, s)
	story, g := newTimeline(watched, c.Plan.Faults[0].At), &gap{}
	_, err = runVirtual(t.Context(), c, *c.Plan, nil, func(e history.Event) { story.add(e); g.add(&e, story) }, nil)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	verdicts, _, _, err := JudgeVirtual(t.Context(), c, *c.Plan, nil)
	if err != nil {
		d.Fatalf(t, "%v", err)
	}
	for _, v := range verdicts {
		if v.Verdict == check.Fail {
			d.Fatalf(t, "seed %d: %s: %s", seed, v.ID, v.Detail)
		}
	}
	return g, story
}

// gap is the longest time in which nobody trusted the lease, from the first fault on. A killed process trusts nothing.
type gap struct {
	since   int64 // 0: somebody trusts it
	longest time.Duration
}

func (g *gap) add(e *history.Event, l *timeline) {
	owned := false
	for _, sure := range l.sure {
		owned = owned || sure
	}
	switch {
	case e.T < l.from:
	case !owned && g.since == 0:
		g.since = e.T
	case g.since != 0 && (owned || e.Kind == history.Phase && e.Reason == "end"):
		g.longest = max(g.longest, time.Duration(e.T-g.since))
		g.since = 0
	}
}

func secs(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
