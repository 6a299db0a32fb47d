package core_test

import (
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

// An attempt whose stamp was read before a machine slept is worth nothing after it woke: its monotonic clock stood still
// meanwhile, Redis' did not.
func TestStormAttemptAcrossASuspension(t *testing.T) {
	const asleep = 15 * time.Second
	for seed := range uint64(30) {
		at := 19*time.Second + time.Duration(seed)*100*time.Millisecond // around the renewal at 20 s
		r := play(t, calmFleet(3, 12), fault.Plan{Faults: []fault.Fault{
			{At: 15 * time.Second, Kind: fault.Latency, Ms: 900, Jitter: 200, For: 100 * time.Second, Target: fault.NodeTarget(1)},
			{At: at, Kind: fault.Suspend, For: asleep, Target: fault.NodeTarget(1)},
			{At: at + asleep + 20*time.Millisecond, Kind: fault.Freeze, For: time.Minute, Target: fault.NodeTarget(1)},
		}}, seed)
		if len(r.moves(start+at, start+at+asleep+ttl+time.Second)) == 0 {
			t.Errorf("%s: nothing was taken from the frozen instance", r.name)
		}
	}
}

// An owner that hears no answers, while its commands are executed, does not go on extending what it cannot use: its
// sessions are another's within a TTL and one time-out of the fault's start, however long that lasts.
func TestStormUnheardOwnerLetsGo(t *testing.T) {
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
func TestStormFenceIsCarried(t *testing.T) {
	for seed := range uint64(20) {
		cfg := virtual.Config{Nodes: 1, Sessions: 3, Storm: 150 * time.Second, Calm: 60 * time.Second}
		r := play(t, cfg, fault.Plan{Faults: []fault.Fault{
			{At: 20 * time.Second, Kind: fault.RedisFailover, Ms: 20_000, Jitter: 3_600_000, For: 45 * time.Second},
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
