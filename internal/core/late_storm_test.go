package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// What is worth something only if the worst comes together. Each plan here makes one rule matter; play asserts that no
// two windows overlap and no fence falls.

// Trust counts from the stamp of an attempt, not from its answer: an instance whose answers take seconds is frozen, and
// believes no longer than Redis keeps its leases.
func TestStormLateAnswersLengthenNothing(t *testing.T) {
	for seed := range uint64(20) {
		at := 20*time.Second + time.Duration(seed)*700*time.Millisecond
		r := play(t, calmFleet(3, 12), fault.Plan{Faults: []fault.Fault{
			{At: 15 * time.Second, Kind: fault.Latency, Ms: 1200, Jitter: 200, For: 100 * time.Second, Target: fault.NodeTarget(1)},
			{At: at, Kind: fault.Freeze, For: time.Minute, Target: fault.NodeTarget(1)},
		}}, seed)
		if len(r.moves(start+at, start+at+ttl+time.Second)) == 0 {
			t.Errorf("%s: nothing was taken from the frozen instance", r.name)
		}
	}
}

// The same for a term that begins: the answer to an acquisition is late, then the instance is frozen; or its machine sleeps
// while the answer is on its way, so that the stamp was read from a clock that stood still meanwhile.
func TestStormLateGrant(t *testing.T) {
	for seed := range uint64(40) {
		after := 54500*time.Millisecond + time.Duration(seed)*40*time.Millisecond
		// What node-2 renewed at 20 s expires at 50 s; node-1, 2.4 s from Redis and back, reads twice and takes it at 56 s.
		// Node-3 is quicker: it must not be there then, but when what node-1 took expires.
		plan := fault.Plan{Faults: []fault.Fault{
			{At: 5 * time.Second, Kind: fault.Latency, Ms: 1200, Jitter: 200, For: 115 * time.Second, Target: fault.NodeTarget(1)},
			{At: 22 * time.Second, Kind: fault.Crash, Target: fault.NodeTarget(2)},
			{At: 45 * time.Second, Kind: fault.Cut, For: 16 * time.Second, Target: fault.NodeTarget(3)},
		}}
		freeze := fault.Fault{At: after + 4*time.Second, Kind: fault.Freeze, For: time.Minute, Target: fault.NodeTarget(1)}
		if seed%2 == 0 {
			sleep := fault.Fault{At: after + time.Second/2, Kind: fault.Suspend, For: 15 * time.Second, Target: fault.NodeTarget(1)}
			freeze.At = sleep.At + sleep.For + 10*time.Millisecond
			freeze.For = 50 * time.Second
			plan.Faults = append(plan.Faults, sleep)
		}
		plan.Faults = append(plan.Faults, freeze)
		cfg := calmFleet(3, 18)
		cfg.Net = virtual.Net{Late: 1_000_000} // what came while the machine slept is heard
		r := play(t, cfg, plan, seed)
		taken, again := 0, 0
		for _, m := range r.moves(start+40*time.Second, start+freeze.At+freeze.For) {
			switch {
			case strings.HasPrefix(m.to, "node-1-"):
				taken++
			case strings.HasPrefix(m.from, "node-1-"):
				again++
			}
		}
		if taken == 0 && seed%2 == 1 || again == 0 {
			t.Errorf("%s: the late instance took %d leases and lost %d again: nothing was tried", r.name, taken, again)
		}
	}
}

// An owner that hears no answers, while its commands are executed, does not go on extending what it cannot use: its
// sessions are another's within a TTL and one time-out of the fault's start, however long that lasts.
func TestStormUnheardOwnerLetsGo(t *testing.T) { // G5
	const timeout = 3 * time.Second
	for seed := range uint64(20) {
		at := 15*time.Second + time.Duration(seed)*530*time.Millisecond
		struck := start + at
		cfg := calmFleet(4, 17)
		cfg.Storm = 200 * time.Second
		cfg.Poll = 5 * time.Second
		r := play(t, cfg, fault.Plan{Faults: []fault.Fault{
			{At: at, Kind: fault.RepliesLost, For: 150 * time.Second, Target: fault.NodeTarget(2)},
		}}, seed)
		// One renewal can still be executed unheard.
		limit := 10*time.Second + timeout + ttl + failoverAim
		if n := r.unpolled(struck+limit, struck+limit+6*time.Second); n > 0 {
			t.Errorf("%s: %v into the fault %d sessions are not polled", r.name, limit, n)
		}
	}
}

// A fence does not fall although Redis comes back empty, with a clock an hour or so off: who acquires carries the highest
// fence it has seen. (Only who has seen it: further apart than a TTL the clocks of successive masters are assumed not to
// be, so this is more than is promised.)
func TestStormFenceIsCarried(t *testing.T) { // G3
	for seed := range uint64(20) {
		cfg := virtual.Config{Nodes: 1, Sessions: 3, Storm: 150 * time.Second, Calm: 60 * time.Second}
		r := play(t, cfg, fault.Plan{Faults: []fault.Fault{
			{At: 20 * time.Second, Kind: fault.RedisFailover, Jitter: 3_600_000, For: 45 * time.Second},
			{At: 70 * time.Second, Kind: fault.RedisWipe},
		}}, seed)
		if r.out.Acquires != 6 || r.out.Unowned != 0 {
			t.Errorf("%s: %d terms, %d unowned; want three lost and three new", r.name, r.out.Acquires, r.out.Unowned)
		}
	}
}

// A clean stop takes the heartbeat away at once: nobody counts with the leaver for another TTL.
func TestStormLeaverIsForgotten(t *testing.T) {
	const leave = start + 25*time.Second
	for seed := range uint64(5) {
		r := play(t, calmFleet(4, 17), fault.Plan{Faults: []fault.Fault{
			{At: leave - start, Kind: fault.Leave, Target: fault.NodeTarget(1)},
		}}, seed)
		_, leaver := r.at(history.Exited, leave)
		if at, who := r.at(history.RedisBeatGone, leave); who != leaver || at > leave+250*time.Millisecond {
			t.Errorf("%s: %s left at %v; the heartbeat that went was %s's, %v later", r.name, leaver, leave, who, at-leave)
		}
	}
}
