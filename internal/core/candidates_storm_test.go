package core_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// Leases on demand, as elections and workers have them: nothing is placed, everybody wants every lease and waits.
func candidates(nodes, leases int) virtual.Config {
	cfg := calmFleet(nodes, leases)
	cfg.Candidates = true
	return cfg
}

// Whatever breaks, candidates keep the guarantees of a lease; and after the calm each lease is held.
func TestStormCandidatesSwarm(t *testing.T) {
	for seed := range uint64(100) {
		cfg, plan := virtualtest.Swarm(seed)
		cfg.Candidates = true
		cfg.Sessions = min(cfg.Sessions, 5)
		plan.Faults = slices.DeleteFunc(plan.Faults, func(f fault.Fault) bool {
			return f.Kind.Scope() == fault.ScopeSession && f.Kind != fault.KeyDelete // whose sessions come and go, placement sees
		})
		if seed%2 == 1 {
			cfg.New = shorter
		}
		r := play(t, cfg, plan, seed)
		if r.out.Alive > 0 && r.out.Unowned > 0 {
			t.Errorf("%s: after the calm %d leases are held by nobody\n%s", r.name, r.out.Unowned, planText(plan))
		}
	}
}

// ofTTLs wants terms of different TTLs.
type ofTTLs struct {
	*core.Core
	ttl   int64
	wants int
}

func shorter(c core.Config) virtual.Machine {
	return &ofTTLs{core.New(c), c.WithDefaults().TTL / 4, int(c.Instance[len("node-")])}
}

func (m *ofTTLs) Step(ev core.Event) core.Effects {
	if ev.Kind == core.EvWant {
		m.wants++
		ev.TTL = int64(m.wants%4) * m.ttl // 0: the longest
	}
	return m.Core.Step(ev)
}

// The next candidate leads within TTL + 100 ms of a crash and 250 ms of a clean stop.
func TestStormCandidatesTakeOver(t *testing.T) {
	for _, kind := range []fault.Kind{fault.Crash, fault.Leave} {
		limit := 250 * time.Millisecond
		if kind == fault.Crash {
			limit = ttl + failoverAim
		}
		for seed := range uint64(20) {
			at := 20*time.Second + time.Duration(seed)*613*time.Millisecond
			cfg := candidates(5, 1)
			quiet := play(t, cfg, fault.Plan{}, seed)
			_, leader := quiet.at(history.Acquired, 0)
			slot := fault.Fault{At: at, Kind: kind, Target: leader[:len("node-1")]}
			r := play(t, cfg, fault.Plan{Faults: []fault.Fault{slot}}, seed)
			gone, _ := r.at(history.Exited, start+at)
			next, who := r.at(history.Acquired, gone)
			if next-gone > limit || who == leader {
				t.Errorf("%s: %v after the %s of %s, %s leads; limit %v", r.name, next-gone, kind, leader, who, limit)
			}
		}
	}
}

// A hundred candidates for one lease sleep: what each sends in three seconds can be counted on two hands.
func TestStormManyWaitersAreQuiet(t *testing.T) {
	const waiters, each = 100, 10
	cfg := virtual.Config{Nodes: waiters, Sessions: 1, Candidates: true, Start: 2 * time.Second, Storm: time.Second}
	ops := 0
	cfg.New = func(c core.Config) virtual.Machine { return &counted{core.New(c), &ops} }
	play(t, cfg, fault.Plan{}, 1)
	if ops > waiters*each {
		t.Errorf("%d ops of %d waiters in 3s, want at most %d each", ops, waiters, each)
	}
	if ops < waiters {
		t.Errorf("%d ops of %d waiters: not all took part", ops, waiters)
	}
}

// Two workers that pass leases on all the time wait for each other's work, not for a TTL: whatever a release crosses on
// its way, who waits for it hears of it.
func TestStormHandoversAreNotLost(t *testing.T) {
	const hold, rest, wait = 5 * time.Millisecond, 4 * time.Second, 2 * time.Second
	for seed := range uint64(20) {
		var plan fault.Plan
		if seed >= 10 { // connections break, so that notices are lost and the channel is subscribed to anew
			for at := time.Second; at < 400*time.Second; at += 700 * time.Millisecond {
				plan.Faults = append(plan.Faults, fault.Fault{At: at, Kind: fault.ClientKill})
			}
		}
		r := play(t, virtual.Config{
			Nodes: 2, Sessions: 20, Candidates: true, Hold: hold, Rest: rest, Storm: 400 * time.Second,
			Net: virtual.Net{Jitter: time.Duration(1+seed) * 3 * time.Millisecond},
		}, plan, seed)
		released := map[term]time.Duration{}
		handovers := 0
		for i := range r.events {
			e := &r.events[i]
			at, k := time.Duration(e.T), term{e.Instance, e.Session}
			switch e.Kind {
			case history.Released:
				released[k] = at
			case history.Acquired:
				handovers++
				if since, ok := released[k]; ok && at-since > rest+wait {
					t.Fatalf("%s: at %v %s had waited for %v", r.name, at, e.Instance, at-since-rest)
				}
			}
		}
		if handovers < 300 {
			t.Errorf("%s: %d handovers", r.name, handovers)
		}
	}
}

// A release names its term: one that comes seconds late, when its owner holds the lease again, leaves that later term
// alone. Else others are granted what its owner believes in. The scripts themselves run here, not their twins.
func TestStormLateReleaseEndsNoLaterTerm(t *testing.T) { // G1
	for seed := range uint64(3) {
		cfg := virtual.Config{
			Nodes: 3, Sessions: 5, Candidates: true, Lua: true, TTL: 3 * time.Second, Storm: 25 * time.Second,
			Hold: 20 * time.Millisecond, Rest: 10 * time.Millisecond, Net: virtual.Net{Spike: 3 * time.Second},
		}
		if r := play(t, cfg, fault.Plan{}, seed); r.out.Acquires < 400 {
			t.Errorf("%s: only %d terms", r.name, r.out.Acquires)
		}
	}
}

// A late attempt to acquire a lease for a shorter term does not shorten the key of a later term (I1).
func TestStormLateAttemptShortensNoKey(t *testing.T) { // G1
	const ttl = 3 * time.Second
	acquired := uint64(0)
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		cfg := virtual.Config{
			Nodes: 2 + r.IntN(3), Sessions: 1 + r.IntN(6), Candidates: true, TTL: ttl, New: shorter,
			Hold: 2 * time.Second, Rest: 10 * time.Millisecond, Storm: 60 * ttl, Calm: 5 * ttl,
			Net: virtual.Net{
				Jitter: []time.Duration{ttl / 60, ttl / 30, ttl / 10, ttl / 5}[seed%4], Spike: time.Duration(seed%3) * ttl,
				Late: 300_000, Double: 300_000, Lost: r.Int64N(200_000), Mute: 300_000,
			},
		}
		acquired += play(t, cfg, fault.Plan{}, seed).out.Acquires
	}
	if acquired < 1000 {
		t.Errorf("only %d terms", acquired)
	}
}
