package core_test

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Clocks that drift within the margin, wall clocks hours apart and steps of them change nothing but doubt: no overlap, and
// no session changes hands. play asserts the first.
func TestStormClocks(t *testing.T) {
	for _, f := range []fault.Fault{
		{Kind: fault.ClockStep, Ms: 3_600_000}, {Kind: fault.ClockStep, Ms: 3_600_000, Jitter: 1},
		{Kind: fault.ClockStep, Ms: 31_000}, {Kind: fault.ClockStep, Ms: 29_000, Jitter: 1},
		{Kind: fault.ClockDrift, Ms: 5_000, For: time.Minute}, {Kind: fault.ClockDrift, Ms: 5_000, Jitter: 1, For: time.Minute},
	} {
		for seed := range uint64(6) {
			f.At = 20*time.Second + time.Duration(seed)*1700*time.Millisecond
			cfg := calmFleet(4, 17)
			cfg.Poll = 5 * time.Second
			cfg.Clock = virtual.Clock{Drift: 4_000, Offset: 6 * time.Hour}
			r := play(t, cfg, fault.Plan{Faults: []fault.Fault{f}}, seed)
			if counts := r.holders(start + f.At + 15*time.Second); !balanced(counts, 17) {
				t.Errorf("%s: 15s after %s instances hold %v", r.name, f.Kind, counts)
			}
			if n := r.unpolled(start+f.At, start+f.At+20*time.Second); n > 0 {
				t.Errorf("%s: %d sessions were not polled in the 20s after %s", r.name, n, f.Kind)
			}
		}
	}
}

// A machine that sleeps for longer than a TTL believes in nothing when it wakes, whatever its monotonic clock says: its
// sessions went to others in time, and it is given its share again.
func TestStormSuspension(t *testing.T) {
	for seed := range uint64(10) {
		at := 20*time.Second + time.Duration(seed)*1100*time.Millisecond
		const asleep = 50 * time.Second
		cfg := calmFleet(4, 17)
		cfg.Poll = 5 * time.Second
		r := play(t, cfg, fault.Plan{Faults: []fault.Fault{
			{At: at, Kind: fault.Suspend, For: asleep, Target: fault.NodeTarget(2)},
			// What it could assert again if it still believed: the quarantine after a flush.
			{At: at + asleep - time.Second, Kind: fault.RedisFlush},
		}}, seed)
		if n := r.unpolled(start+at+ttl, start+at+ttl+6*time.Second); n > 0 {
			t.Errorf("%s: a TTL after the suspension %d sessions are not polled", r.name, n)
		}
		woke := start + at + asleep
		if counts := r.holders(woke + ttl + 12*time.Second); !balanced(counts, 17) {
			t.Errorf("%s: after it woke and the quarantine ended instances hold %v", r.name, counts)
		}
	}
}

// A lease key deleted by a foreign hand is noticed by its owner within a renewal interval and its time-out: the exception
// of G1, and its bound.
func TestStormKeyDeleted(t *testing.T) {
	const bound = 10*time.Second + 3*time.Second
	for seed := range uint64(20) {
		at := 20*time.Second + time.Duration(seed)*700*time.Millisecond
		r := play(t, calmFleet(3, 9), fault.Plan{Faults: []fault.Fault{
			{At: at, Kind: fault.KeyDelete, Target: fault.SessionTarget(int(seed%9) + 1)},
		}}, seed)
		struck := start + at
		noticed, _ := r.at(history.Lost, struck)
		if noticed > struck+bound {
			t.Errorf("%s: the owner noticed after %v, want at most %v", r.name, noticed-struck, bound)
		}
		if counts := r.holders(struck + bound + 2*time.Second); !balanced(counts, 9) {
			t.Errorf("%s: after the deletion was noticed instances hold %v", r.name, counts)
		}
	}
}

// One instance after the other is stopped cleanly and started again: each hands over within 250 ms (G13), nothing moves
// that its stop or its return does not ask for, and the fleet ends in balance.
func TestStormRollingRestart(t *testing.T) {
	const nodes, sessions = 5, 23
	for seed := range uint64(6) {
		var plan fault.Plan
		for i := range nodes {
			plan.Faults = append(plan.Faults, fault.Fault{
				At: time.Duration(20+20*i) * time.Second, Kind: fault.Terminate, Target: fault.NodeTarget(i + 1), For: 5 * time.Second,
			})
		}
		cfg := calmFleet(nodes, sessions)
		cfg.Storm = 140 * time.Second
		r := play(t, cfg, plan, seed)
		released := map[string]time.Duration{}
		for i := range r.events {
			switch e := &r.events[i]; e.Kind {
			case history.Released:
				released[e.Session] = time.Duration(e.T)
			case history.Acquired:
				if at, ok := released[e.Session]; ok && time.Duration(e.T)-at > 250*time.Millisecond {
					t.Errorf("%s: %s was owned again %v after its release", r.name, e.Session, time.Duration(e.T)-at)
				}
			}
		}
		// A stop moves the 4 or 5 that its instance holds, a return as many at most.
		if n := len(r.moves(start+20*time.Second, time.Hour)); n > nodes*(5+5) {
			t.Errorf("%s: %d moves, want at most %d", r.name, n, nodes*(5+5))
		}
		if counts := r.holders(start + cfg.Storm); !balanced(counts, sessions) {
			t.Errorf("%s: at the end instances hold %v", r.name, counts)
		}
	}
}
