package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/audit"
	"github.com/leasestorm/leasestorm/sim/audit/logs"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/mutant"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

const clockError = 40 * time.Millisecond

// storm plays a seed, and returns the verdicts of the judge, and those of an audit of the logs alone.
func storm(ctx context.Context, s sim.Scenario, seed uint64, bend sim.Breaker) (judge, audited []check.Verdict, n audit.Counts, err error) {
	c, plan, err := s.Swarm(seed)
	if err != nil {
		return nil, nil, n, err
	}
	c.Virtual.Clock = virtual.Clock{Offset: clockError, Late: c.Virtual.Clock.Late}
	plan.Faults = slices.DeleteFunc(plan.Faults, func(f fault.Fault) bool { // the clock would be off by more than stated
		return f.Kind == fault.ClockDrift || f.Kind == fault.ClockStep
	})
	judge, in, err := play(ctx, c, plan, bend)
	if err != nil {
		return nil, nil, n, err
	}
	a, err := audit.New(audit.Options{ClockError: clockError, Params: check.Params{System: c.System, Timings: c.Timings}})
	if err != nil {
		return nil, nil, n, err
	}
	r, err := a.Read(in...)
	return judge, r.Verdicts, a.Counts(), err
}

// play plays a storm, and returns the judge's verdicts and the log of each node.
func play(ctx context.Context, c sim.Config, plan fault.Plan, bend sim.Breaker) (judge []check.Verdict, in []logs.Input, err error) {
	cores := map[string]zapcore.Core{}
	var fields []zap.Field
	judge, _, _, err = sim.JudgeVirtual(ctx, c, plan, func(v *virtual.Config) {
		if bend != nil {
			bend(v)
		}
		judged := v.Log
		v.Log = func(e *virtual.LogEntry) {
			judged(e)
			core := cores[e.Node]
			if core == nil {
				enc := zap.NewProductionEncoderConfig()
				enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
				text := &bytes.Buffer{}
				core = zapcore.NewCore(zapcore.NewJSONEncoder(enc), zapcore.AddSync(text), zapcore.DebugLevel)
				cores[e.Node], in = core, append(in, logs.Input{Name: e.Node, Reader: text})
			}
			fields = zaplog.Append(fields[:0], e.Fields)
			_ = core.Write(zapcore.Entry{Level: zapcore.Level(e.Level), Time: time.Unix(0, e.Wall).UTC(), Message: e.Message}, fields)
		}
	})
	for _, log := range in {
		if dir := os.Getenv("AUDIT_KEEP"); dir != "" && err == nil {
			err = os.WriteFile(fmt.Sprintf("%s/%d-%s.log", dir, c.Seed, log.Name), log.Reader.(*bytes.Buffer).Bytes(), 0o600)
		}
	}
	return judge, in, err
}

// same maps guarantees of elections to those that an audit judges.
var same = map[string]string{"G1": "E1", "G3": "E3", "G5": "E4"}

func of(all []check.Verdict, id string) (check.Verdict, bool) {
	for _, v := range all {
		if v.ID == id || v.ID == same[id] {
			return v, true
		}
	}
	return check.Verdict{}, false
}

type tally struct{ equal, unknown, passed, judgePassed, wrong int }

func storms(t *testing.T, s sim.Scenario, seeds uint64, print bool) map[string]*tally {
	all, mu := map[string]*tally{}, sync.Mutex{}
	var wait sync.WaitGroup
	next := make(chan uint64)
	for range 2 {
		wait.Go(func() {
			for seed := range next {
				judge, audited, n, err := storm(t.Context(), s, seed, nil)
				mu.Lock()
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				for _, v := range audited {
					j, ok := of(judge, v.ID)
					if !ok {
						continue
					}
					x := all[v.ID]
					if x == nil {
						x = &tally{}
						all[v.ID] = x
					}
					if j.Verdict == check.Pass {
						x.judgePassed++
						if v.Verdict == check.Pass {
							x.passed++
						}
					}
					switch v.Verdict {
					case j.Verdict:
						x.equal++
					case check.Unknown:
						x.unknown++
					default:
						x.wrong++
						t.Errorf("seed %d: %s is %s by the logs, %s by the judge: %s (%+v)", seed, v.ID, v.Verdict, j.Verdict, v.Detail, n)
					}
					if print && v.Verdict == check.Unknown && j.Verdict == check.Pass {
						fmt.Printf("%s seed %d: %s\n", v.ID, seed, v.Detail)
					}
				}
				mu.Unlock()
			}
		})
	}
	for seed := number("AUDIT_FROM", 1); seed <= seeds; seed++ {
		next <- seed
	}
	close(next)
	wait.Wait()
	return all
}

func number(name string, def uint64) uint64 {
	if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
		return n
	}
	return def
}

// An audit of the logs alone gives the judge's verdict, or none. AUDIT_SEEDS plays more storms, and prints how often it gives one.
func TestStorms(t *testing.T) {
	n := number("AUDIT_SEEDS", 10)
	for _, system := range check.Systems() {
		if only := os.Getenv("AUDIT_SYSTEM"); only != "" && only != system {
			continue
		}
		seeds := n
		if system != check.SystemPolling {
			seeds = max(1, n/5)
		}
		all := storms(t, sim.Scenario{System: system}, seeds, os.Getenv("AUDIT_SEEDS") != "")
		for _, id := range audit.Guarantees {
			if x := all[id]; x != nil {
				t.Logf("%s %s: as the judge %d, unknown %d, wrong %d; passes %d of the %d that the judge passes", system, id, x.equal, x.unknown, x.wrong,
					x.passed, x.judgePassed)
			}
		}
	}
}

// Mutants that the judge catches are caught from the logs alone. AUDIT_MUTANTS is the number of seeds that the judge catches.
func TestMutants(t *testing.T) {
	want := number("AUDIT_MUTANTS", 0)
	if want == 0 {
		t.Skip("AUDIT_MUTANTS=10 plays the mutants")
	}
	for _, m := range mutant.All() {
		if !slices.Contains([]string{"G1", "G3", "G4", "G5", "G13"}, m.Breaks) && m.Name != "releases-the-first-only" || m.Scenario.Topology != "" ||
			!strings.Contains(m.Name, os.Getenv("AUDIT_NAME")) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			judged, caught, other := uint64(0), 0, 0
			var why []string
			for seed := uint64(1); seed <= min(m.Seeds*10, number("AUDIT_UPTO", math.MaxUint64)) && judged < want; seed++ {
				judge, audited, _, err := storm(t.Context(), m.Scenario, seed, m.Bend)
				j, _ := of(judge, m.Breaks)
				if err != nil || j.Verdict != check.Fail {
					continue
				}
				judged++
				v, _ := of(audited, m.Breaks)
				any := slices.ContainsFunc(audited, func(v check.Verdict) bool { return v.Verdict == check.Fail })
				switch {
				case v.Verdict == check.Fail:
					caught++
				case any:
					other++
					why = append(why, fmt.Sprintf("seed %d other: %s %s", seed, v.Verdict, v.Detail))
				default:
					why = append(why, fmt.Sprintf("seed %d %s: %s | judge: %s", seed, v.Verdict, v.Detail, j.Detail))
				}
			}
			fmt.Printf("%-36s %-4s judge %d, logs %d, under another guarantee %d\n  %s\n", m.Name, m.Breaks, judged, caught, other, strings.Join(why, "\n  "))
		})
	}
}
