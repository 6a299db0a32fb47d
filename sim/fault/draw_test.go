package fault

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/sim/timing"
)

// atSpeed returns the parameters of a default run: the usual timings divided by speed, and the storm of such a run.
func atSpeed(nodes, sessions int, speed time.Duration, total time.Duration) DrawParams {
	ttl := 30 * time.Second / speed
	return DrawParams{
		Nodes: nodes, Sessions: sessions,
		Timings: timing.Timings{
			TTL: ttl, Renew: ttl / 3, Discovery: ttl / 3, Poll: ttl / 6, PollTimeout: ttl / 6,
		},
		Storm: total - ttl*2 - time.Second,
	}
}

func drawAnyParams(t *rapid.T) DrawParams {
	ms := func(label string, lo, hi int) time.Duration {
		return time.Duration(rapid.IntRange(lo, hi).Draw(t, label)) * time.Millisecond
	}
	p := DrawParams{
		Nodes: rapid.IntRange(1, 60).Draw(t, "nodes"), Sessions: rapid.IntRange(0, 300).Draw(t, "sessions"),
		Timings: timing.Timings{TTL: ms("ttl", 500, 40_000)}, Storm: ms("storm", 0, 400_000),
		Kinds: rapid.SliceOfDistinct(rapid.SampledFrom(order), rapid.ID).Draw(t, "kinds"),
	}
	p.Renew = p.TTL / time.Duration(rapid.IntRange(2, 10).Draw(t, "renewals in a TTL"))
	p.Discovery = ms("discovery", 50, 20_000)
	p.Poll = ms("poll", 10, 10_000)
	p.PollTimeout = min(p.Poll, p.TTL/3)
	return p
}

func TestDrawIsValidAndRepeatable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawAnyParams(t)
		seed := rapid.Uint64().Draw(t, "seed")
		plan := Draw(seed, p)
		if err := plan.Validate(Limits{Nodes: p.Nodes, Sessions: p.Sessions, Storm: p.Storm}); err != nil {
			t.Fatalf("drawn plan is invalid: %v\n%s", err, text(plan))
		}
		if again := Draw(seed, p); !reflect.DeepEqual(plan, again) {
			t.Fatalf("the same seed drew two plans:\n%s\n%s", text(plan), text(again))
		}
		for i, f := range plan.Faults {
			if end := f.At + f.For; end > p.Storm {
				t.Fatalf("fault %d lasts until %v, the storm until %v", i+1, end, p.Storm)
			}
			if f.At%time.Millisecond != 0 || f.For%time.Millisecond != 0 {
				t.Fatalf("fault %d is finer than plan.json's milliseconds: %+v", i+1, f)
			}
			if len(p.Kinds) > 0 && !slices.Contains(p.Kinds, f.Kind) {
				t.Fatalf("fault %d was not asked for: %s", i+1, f.Kind)
			}
		}
	})
}

// reach is the time after its start in which a fault can still delay changes of other faults, as for the judge.
func reach(f Fault, p DrawParams) time.Duration {
	switch f.Kind {
	case Crash, CrashAll:
		return p.TTL
	case RedisOutage, RedisRestart, RedisWipe, RedisFlush, RedisLoading:
		return f.For + p.TTL
	case Join, Leave: // G7 needs a quiet TTL
		return p.TTL
	case CheckSend:
		return p.TTL
	}
	return f.For
}

func TestLoneInjectionsAreAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := atSpeed(rapid.IntRange(3, 50).Draw(t, "nodes"), rapid.IntRange(1, 500).Draw(t, "sessions"), 10, time.Minute)
		plan := Draw(rapid.Uint64().Draw(t, "seed"), p)
		var end time.Duration
		seen := map[Kind]int{}
		for i, f := range plan.Faults {
			if f.At < end {
				t.Fatalf("fault %d (%s at %v) hits before %v, the end of the lone injection above it:\n%s",
					i+1, f.Kind, f.At, end, text(plan))
			}
			if f.Lone {
				end = f.At + reach(f, p)
				seen[f.Kind]++
			}
		}
		for _, k := range firsts() {
			if seen[k] == 0 {
				t.Errorf("a default run has no lone %s:\n%s", k, text(plan))
			}
		}
	})
}

// At the real timings, five minutes have no idle time. Injections overlap, but only if neither delays a change of the other.
func TestFiveMinutesExerciseEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := atSpeed(rapid.IntRange(3, 50).Draw(t, "nodes"), rapid.IntRange(1, 500).Draw(t, "sessions"), 1, 5*time.Minute)
		plan := Draw(rapid.Uint64().Draw(t, "seed"), p)
		lone := slices.DeleteFunc(slices.Clone(plan.Faults), func(f Fault) bool { return !f.Lone })
		for _, k := range []Kind{Join, Leave, Crash, CheckSend, BlackHole, RedisOutage, RedisWipe, RedisFlush} {
			if !slices.ContainsFunc(lone, func(f Fault) bool { return f.Kind == k }) {
				t.Errorf("no lone %s:\n%s", k, text(plan))
			}
		}
		for i, f := range plan.Faults[:len(plan.Faults)-1] {
			next := plan.Faults[i+1]
			limit := reach(f, p)
			switch f.Kind {
			case CheckSend: // overlaps with the black hole, because neither delays the other's changes
				continue
			case RedisFlush: // mixed faults follow
				limit = p.Renew + p.Poll + FailoverAllowance
			case Crash: // dead until the calm
				limit = p.TTL + FailoverAllowance
			}
			if f.Lone && next.At < f.At+limit {
				t.Errorf("%s at %v follows %s at %v by less than %v", next.Kind, next.At, f.Kind, f.At, limit)
			}
		}
	})
}

func TestNamedFaultIsInjectedInItsDefaultDuration(t *testing.T) {
	for _, k := range Kinds() {
		for _, run := range []struct {
			speed, total time.Duration
		}{{10, time.Minute}, {1, 5 * time.Minute}, {10, 10 * time.Second}} {
			p := atSpeed(10, 100, run.speed, max(run.total, 2*time.Second))
			p.Storm = max(p.Storm, run.total/2)
			p.Kinds = []Kind{k}
			plan := Draw(1, p)
			if len(plan.Faults) == 0 {
				t.Errorf("--faults %s --duration %v at speed %d: nothing hits", k, run.total, run.speed)
			}
		}
	}
}

func TestSomebodyIsAlwaysLeft(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := atSpeed(rapid.IntRange(3, 30).Draw(t, "nodes"), 100, 10, 2*time.Minute)
		plan := Draw(rapid.Uint64().Draw(t, "seed"), p)
		type interval struct{ from, to time.Duration }
		down := map[string][]interval{}
		live := p.Nodes
		for _, f := range plan.Faults {
			switch f.Kind {
			case Join:
				live++
			case Leave:
				live--
			case Crash, Terminate, Freeze:
				down[f.Target] = append(down[f.Target], interval{f.At, f.At + f.For})
			}
			n := 0
			for _, spans := range down {
				if slices.ContainsFunc(spans, func(s interval) bool { return s.from <= f.At && f.At < s.to }) {
					n++
				}
			}
			if live-n < 1 {
				t.Fatalf("at %v nobody is left:\n%s", f.At, text(plan))
			}
		}
	})
}

// TestStory shows whole plans, so that a reader sees what a seed gives.
func TestStory(t *testing.T) {
	datadriven.RunTest(t, "testdata/draw.txt", func(t *testing.T, d *datadriven.TestData) string {
		var nodes, sessions, seconds int
		var seed, speed int64
		d.ScanArgs(t, "seed", &seed)
		d.ScanArgs(t, "nodes", &nodes)
		d.ScanArgs(t, "sessions", &sessions)
		d.ScanArgs(t, "speed", &speed)
		d.ScanArgs(t, "seconds", &seconds)
		p := atSpeed(nodes, sessions, time.Duration(speed), time.Duration(seconds)*time.Second)
		if d.HasArg("faults") {
			var faults string
			d.ScanArgs(t, "faults", &faults)
			kinds, err := ParseKinds(strings.ReplaceAll(faults, "+", ","), false)
			if err != nil {
				return err.Error() + "\n"
			}
			p.Kinds = kinds
		}
		return text(Draw(uint64(seed), p))
	})
}

func text(p Plan) string {
	var b strings.Builder
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "%9.3fs %-15s %-11s", f.At.Seconds(), f.Kind, cmp.Or(f.Target, "-"))
		if f.For > 0 {
			fmt.Fprintf(&b, " for %v", f.For)
		}
		if f.Ms > 0 {
			fmt.Fprintf(&b, " ms %d", f.Ms)
		}
		if f.Lone {
			b.WriteString(" alone")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// While Redis refuses writes, nobody can acquire a lease, and no quarantine follows.
func TestRefusalsAreOfRedis(t *testing.T) {
	n := 0
	for _, k := range VirtualKinds() {
		if k.Refuses() == RefusesNothing {
			continue
		}
		n++
		if !k.Has(Denies) || k.Has(Forgets|Silences) {
			t.Errorf("%s has the effects %b", k, k.Effects())
		}
	}
	if n != 5 {
		t.Errorf("%d kinds refuse writes, want 5", n)
	}
}
