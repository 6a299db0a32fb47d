package core_test

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Fifty instances with 5,000 sessions do what ten with a hundred do: a join and a leave move exactly what they must, and
// a crash is made up for within TTL + 100 ms.
func TestStormLargeFleet(t *testing.T) {
	const nodes, sessions = 50, 5000
	const join, leave, crash = start + 20*time.Second, start + 40*time.Second, start + 63*time.Second
	cfg := virtual.Config{Nodes: nodes, Sessions: sessions, Storm: 100 * time.Second, Calm: 20 * time.Second}
	r := play(t, cfg, fault.Plan{Faults: []fault.Fault{
		{At: join - start, Kind: fault.Join},
		{At: leave - start, Kind: fault.Leave, Target: fault.NodeTarget(1)},
		{At: crash - start, Kind: fault.Crash, Target: fault.NodeTarget(2)},
	}}, 1)
	if counts := r.holders(start); !balanced(counts, sessions) {
		t.Errorf("%s: after the cold start instances hold %v", r.name, counts)
	}
	_, newcomer := r.at(history.Ready, join)
	joined := r.moves(join, leave)
	for _, m := range joined {
		if m.to != newcomer {
			t.Errorf("%s: the join moved %+v", r.name, m)
		}
	}
	if len(joined) != sessions/(nodes+1) {
		t.Errorf("%s: the join moved %d sessions, want %d", r.name, len(joined), sessions/(nodes+1))
	}
	_, leaver := r.at(history.Exited, leave)
	for _, m := range r.moves(leave, crash) {
		if m.from != leaver || m.at > leave+250*time.Millisecond {
			t.Errorf("%s: the leave of %s at %v moved %+v", r.name, leaver, leave, m)
		}
	}
	gaps := r.takeovers(crash)
	for _, gap := range gaps {
		if gap < 0 || gap > ttl+failoverAim {
			t.Errorf("%s: a session of the dead was owned again after %v", r.name, gap)
		}
	}
	if len(gaps) < sessions/nodes-1 {
		t.Errorf("%s: the dead owned %d sessions", r.name, len(gaps))
	}
	if counts := r.holders(crash + ttl + 12*time.Second); !balanced(counts, sessions) {
		t.Errorf("%s: after the crash instances hold %v", r.name, counts)
	}
}
