package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// sizes are fleets and sessions, even and uneven, more instances than sessions too.
var sizes = []struct{ nodes, sessions int }{{2, 1}, {3, 9}, {3, 10}, {5, 23}, {10, 7}, {10, 100}}

// calmFleet is a fleet at the seeds' timings, cold for ten seconds before the plan begins.
func calmFleet(nodes, sessions int) virtual.Config {
	return virtual.Config{Nodes: nodes, Sessions: sessions, Storm: 120 * time.Second, Calm: 60 * time.Second,
		Loaded: true}
}

const (
	start    = 10 * time.Second // of the plan, in calmFleet
	interval = 10 * time.Second // discovery
)

// A fleet that starts at once acquires each lease once, and is in balance within 1.2 discovery intervals (G6).
func TestStormColdStart(t *testing.T) {
	for _, size := range sizes {
		for seed := range uint64(8) {
			r := play(t, calmFleet(size.nodes, size.sessions), fault.Plan{}, seed)
			settled := interval * 12 / 10
			if counts := r.holders(settled); !balanced(counts, size.sessions) {
				t.Errorf("%s: after %v instances hold %v", r.name, settled, counts)
			}
			if moves := r.moves(0, time.Hour); len(moves) != size.sessions {
				t.Errorf("%s: %d acquisitions", r.name, len(moves))
			}
		}
	}
}

// An undeclared Redis grants nothing for one TTL; then the fleet starts as any other.
func TestStormUndeclaredRedisWaitsATTL(t *testing.T) {
	cfg := calmFleet(3, 9)
	cfg.Unannounced = true
	r := play(t, cfg, fault.Plan{}, 1)
	first, _ := r.at(history.Acquired, 0)
	if first < 30*time.Second || first > 31*time.Second {
		t.Errorf("the first lease was granted after %v, want one TTL of 30s", first)
	}
	if counts := r.holders(45 * time.Second); !balanced(counts, 9) {
		t.Errorf("instances hold %v", counts)
	}
}

// A join moves only what the newcomer needs, a leave only what the leaver held (G7), at once, and exactly that.
func TestStormJoinAndLeaveMoveTheLeast(t *testing.T) {
	const join, leave = start + 40*time.Second, start + 80*time.Second
	for _, size := range sizes {
		for seed := range uint64(8) {
			r := play(t, calmFleet(size.nodes, size.sessions), fault.Plan{Faults: []fault.Fault{
				{At: join - start, Kind: fault.Join},
				{At: leave - start, Kind: fault.Leave, Target: fault.NodeTarget(1)},
			}}, seed)
			_, newcomer := r.at(history.Ready, join)
			needs := size.sessions / (size.nodes + 1)
			moved := r.moves(join, leave)
			for _, m := range moved {
				if m.to != newcomer {
					t.Errorf("%s: a join moved %+v, which is not to the newcomer", r.name, m)
				}
			}
			if len(moved) != needs {
				t.Errorf("%s: a join moved %d sessions, the newcomer needs %d", r.name, len(moved), needs)
			}
			at, leaver := r.at(history.Exited, leave)
			if at > leave+250*time.Millisecond {
				t.Errorf("%s: a clean stop took %v (G13)", r.name, at-leave)
			}
			for _, m := range r.moves(leave, time.Hour) {
				if m.from != leaver || m.at > leave+250*time.Millisecond {
					t.Errorf("%s: a leave of %s at %v moved %+v", r.name, leaver, leave, m)
				}
			}
			for _, when := range []time.Duration{join + 12*time.Second, leave + 12*time.Second} {
				if counts := r.holders(when); !balanced(counts, size.sessions) {
					t.Errorf("%s: at %v instances hold %v", r.name, when, counts)
				}
			}
		}
	}
}

// Sessions that come are owned within an interval and a second, sessions that go or are paused are let go within two, and
// what else moves is at most what balance needs.
func TestStormSessionsComeAndGo(t *testing.T) {
	for seed := range uint64(12) {
		cfg := calmFleet(5, 23)
		r := play(t, cfg, fault.Plan{Faults: []fault.Fault{
			{At: 20 * time.Second, Kind: fault.SessionAdd, Ms: 7},
			{At: 50 * time.Second, Kind: fault.SessionRemove, Target: fault.SessionTarget(3)},
			{At: 50 * time.Second, Kind: fault.SessionRemove, Target: fault.SessionTarget(4)},
			{At: 80 * time.Second, Kind: fault.SessionPause, Target: fault.SessionTarget(5), For: 30 * time.Second},
		}}, seed)
		if counts := r.holders(start + 20*time.Second + 11*time.Second); !balanced(counts, 30) {
			t.Errorf("%s: 11s after 7 sessions came, instances hold %v", r.name, counts)
		}
		if n := len(r.moves(start+20*time.Second, start+50*time.Second)); n < 7 || n > 9 { // not all see them at the same time
			t.Errorf("%s: 7 sessions that came made %d moves", r.name, n)
		}
		if counts := r.holders(start + 50*time.Second + 2*interval + time.Second); !balanced(counts, 28) {
			t.Errorf("%s: two intervals after 2 of 30 sessions went, instances hold %v", r.name, counts)
		}
		if n := len(r.moves(start+50*time.Second, start+80*time.Second)); n > 2 {
			t.Errorf("%s: 2 sessions that went made %d moves", r.name, n)
		}
		if r.out.Unowned > 0 || r.out.Misowned > 0 {
			t.Errorf("%s: at the end %d unowned, %d owned that should not be", r.name, r.out.Unowned, r.out.Misowned)
		}
	}
}

// With every tenth notice lost and looks that are torn and old by hundreds of milliseconds, balance comes all the same, and
// instances that saw different states do not swing around it.
func TestStormOldSnapshotsConverge(t *testing.T) {
	const join = start + 40*time.Second
	for _, size := range sizes {
		for seed := range uint64(4) {
			cfg := calmFleet(size.nodes, size.sessions)
			cfg.Net = virtual.Net{Jitter: 200 * time.Millisecond, Mute: 100_000}
			r := play(t, cfg, fault.Plan{Faults: []fault.Fault{{At: join - start, Kind: fault.Join}}}, seed)
			if counts := r.holders(join + 6*interval); !balanced(counts, size.sessions) {
				t.Errorf("%s: hard of hearing, instances hold %v", r.name, counts)
			}
			if n := len(r.moves(join+6*interval, time.Hour)); n > 0 {
				t.Errorf("%s: hard of hearing, %d moves six intervals after a join", r.name, n)
			}
		}
	}
}

// An instance that beats and asks but is refused every acquire costs the others nothing: what is offered to it goes to
// somebody else, and it leaves the registry, so that the rest is balanced without it.
func TestStormInstanceThatNeverTakes(t *testing.T) {
	for seed := range uint64(12) {
		cfg := calmFleet(4, 30)
		cfg.Poll = 5 * time.Second
		cfg.New = func(c core.Config) virtual.Machine {
			m := core.New(c)
			if !strings.HasPrefix(c.Instance, "node-5-") {
				return m
			}
			return &neverTakes{Core: m}
		}
		r := play(t, cfg, fault.Plan{Faults: []fault.Fault{{At: 20 * time.Second, Kind: fault.Join}}}, seed)
		_, newcomer := r.at(history.Ready, start+20*time.Second)
		// It tries again after each TTL: that may move what it asks for, and no more.
		later := r.moves(start+60*time.Second, start+90*time.Second)
		if len(later) > 2 {
			t.Errorf("%s: %d moves in a TTL around an instance that cannot take, the first %+v", r.name, len(later), later[0])
		}
		if r.out.Owned[4] != 0 {
			t.Fatalf("%s: %s holds leases; the test is broken", r.name, newcomer)
		}
		// Between two tries the others are balanced without it.
		if counts := r.holders(start + 40*time.Second); len(counts) != 5 || !balanced(counts[1:], 30) {
			t.Errorf("%s: around an instance that never takes, instances hold %v", r.name, counts)
		}
	}
}

// neverTakes is an instance whose Redis user may do everything but acquire.
type neverTakes struct {
	*core.Core
	refused map[uint64]bool
}

func (m *neverTakes) Step(ev core.Event) core.Effects {
	if ev.Kind == core.EvAnswer && m.refused[ev.Answer.Seq] && ev.Answer.Failure == core.FailNone {
		ev.Answer = core.Answer{Seq: ev.Answer.Seq, Failure: core.FailRefused, Text: "NOPERM"}
	}
	eff := m.Core.Step(ev)
	for i := range eff.Ops {
		if op := &eff.Ops[i]; op.Kind == core.OpAcquire {
			if m.refused == nil {
				m.refused = map[uint64]bool{}
			}
			m.refused[op.Seq] = true
			op.Items = nil
		}
	}
	return eff
}
