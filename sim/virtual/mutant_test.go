package virtual

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// bent is a core whose tells a mutant bends before the shell hears them.
type bent struct {
	*core.Core
	ttl     int64
	bend    func(ttl int64, t *core.Tell) (keep bool)
	patient bool // attempts wait for ever, so that belief does not end with their time-out either
	short   time.Duration
}

func (b *bent) Step(ev core.Event) core.Effects {
	if b.short != 0 {
		ev.Answer.Group = 0 // else nobody would believe in an epoch that was begun with so little
	}
	eff := b.Core.Step(ev)
	kept := eff.Tells[:0]
	for _, t := range eff.Tells {
		if b.bend == nil || b.bend(b.ttl, &t) {
			kept = append(kept, t)
		}
	}
	eff.Tells = kept
	for i := range eff.Ops {
		if b.patient && eff.Ops[i].Kind.Extends() {
			eff.Ops[i].Deadline += core.Time(100 * b.ttl)
		}
		if b.short != 0 {
			eff.Ops[i].Quarantine = int64(b.short)
		}
	}
	return eff
}

func begins(t *core.Tell) bool { return t.Kind == core.TellAcquired || t.Kind == core.TellRenewed }

// mutants break a lease on purpose. The engine and the judge must both see it, by the guarantee that it breaks.
var mutants = []struct {
	name       string
	guarantee  string
	oracle     bool // the engine's oracle sees it too
	bend       func(ttl int64, t *core.Tell) bool
	patient    bool
	quarantine time.Duration // that an op begins, where it is not the TTL
	faults     []fault.Fault
}{
	{name: "trust without end", guarantee: "G1", oracle: true, patient: true, bend: func(ttl int64, t *core.Tell) bool {
		if begins(t) {
			t.Until, t.UntilWall = t.Until+core.Time(100*ttl), t.UntilWall+100*ttl
		}
		return t.Kind != core.TellUncertain && (t.Kind != core.TellLost || t.Cause != core.CauseExpired)
	}, faults: []fault.Fault{{At: 30 * time.Second, Kind: fault.BlackHole, For: 60 * time.Second}}},
	{name: "trust counted from the answer", guarantee: "G1", oracle: true, bend: func(ttl int64, t *core.Tell) bool {
		if begins(t) {
			longer := t.At + core.Time(ttl-ttl/100) - t.Until
			t.Until, t.UntilWall = t.Until+longer, t.UntilWall+int64(longer)
		}
		return true
	}, faults: []fault.Fault{
		{At: 20 * time.Second, Kind: fault.Latency, Ms: 1200, For: 100 * time.Second, Target: fault.NodeTarget(1)},
		{At: 45 * time.Second, Kind: fault.Freeze, For: 60 * time.Second, Target: fault.NodeTarget(1)},
	}},
	{name: "a renewal that fails is ignored", guarantee: "G4", patient: true, bend: func(_ int64, t *core.Tell) bool {
		return t.Kind != core.TellUncertain
	}, faults: []fault.Fault{{At: 30 * time.Second, Kind: fault.BlackHole, For: 40 * time.Second}}},
	{name: "the fence is constant", guarantee: "G3", oracle: true, bend: func(_ int64, t *core.Tell) bool {
		t.Fence = min(t.Fence, 7)
		return true
	}, faults: []fault.Fault{{At: 30 * time.Second, Kind: fault.Crash, For: 60 * time.Second}}},
	{name: "no quarantine", guarantee: "G1", oracle: true, quarantine: time.Millisecond, faults: []fault.Fault{
		{At: 30 * time.Second, Kind: fault.Cut, For: 25 * time.Second, Target: fault.NodeTarget(1)},
		{At: 30*time.Second + 1, Kind: fault.Freeze, For: 40 * time.Second, Target: fault.NodeTarget(1)},
		{At: 32 * time.Second, Kind: fault.RedisWipe, For: time.Second},
	}},
}

func TestMutantsAreCaught(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			cfg := Config{
				Nodes: 3, Sessions: 12, Poll: 5 * time.Second, Storm: 150 * time.Second, Calm: 60 * time.Second,
				Net: Net{Late: 1_000_000},
			}
			cfg.New = func(c core.Config) Machine { return &bent{core.New(c), c.TTL, m.bend, m.patient, m.quarantine} }
			found, seen := 0, 0
			const seeds = 5
			for seed := range uint64(seeds) {
				plan := fault.Plan{Faults: m.faults}
				w := newWorld(cfg.withDefaults(), plan, seed, nil)
				var events []history.Event
				w.sink = func(e history.Event) { events = append(events, e) }
				w.run()
				if w.out.Overlaps+w.out.Falls > 0 {
					seen++
				}
				r, err := check.Judge(params(cfg, plan), inOrder(events), nil)
				if err != nil {
					t.Fatal(err)
				}
				if v, _ := r.Verdict(m.guarantee); v.Verdict == check.Fail {
					found++
				}
			}
			if found < seeds-1 {
				t.Errorf("the judge saw it by %s in %d of %d runs", m.guarantee, found, seeds)
			}
			if m.oracle && seen < seeds-1 {
				t.Errorf("the oracle saw it in %d of %d runs", seen, seeds)
			}
		})
	}
}
