package virtual

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// A server that does not know a script any more costs one more round trip, once.
func TestForgottenScriptsCostARoundTrip(t *testing.T) {
	for kind, want := range map[fault.Kind]int{fault.ScriptFlush: 1, fault.ClientKill: 0} {
		cfg := Config{Nodes: 1, Sessions: 1, Storm: time.Minute, Net: Net{Delay: 50 * time.Millisecond}}
		slow := 0
		var sent int64
		const at = 25 * time.Second // the first of all renewals, before, loads the script
		_, err := Run(cfg, fault.Plan{Faults: []fault.Fault{{At: at, Kind: kind}}}, 1, func(e history.Event) {
			switch e.Kind {
			case history.RenewStart:
				sent = e.T
			case history.Renewed:
				if time.Duration(e.T-sent) >= 200*time.Millisecond && e.T > int64(at) {
					slow++
				}
			}
		})
		if err != nil || slow != want {
			t.Errorf("%s: %d renewals took two round trips, %v; want %d", kind, slow, err, want)
		}
	}
}

// What was there all through a SCAN is shown, what came or went in its course is shown or not.
func TestScanIsWeak(t *testing.T) {
	look := func(ids ...string) *core.Look {
		l := &core.Look{Sessions: core.NewSessions(ids)}
		for _, id := range l.Sessions.IDs {
			l.Owners = append(l.Owners, "owner of "+id)
		}
		return l
	}
	ss := &servers{timeline: &timeline{netRand: rand.New(rand.NewPCG(1, 2))}}
	seen := map[string]int{}
	for range 200 {
		sessions, owners := ss.scanned(look("a", "b", "c", "e"), look("b", "c", "d", "f"))
		seen[strings.Join(sessions.IDs, "")]++
		for i, id := range sessions.IDs {
			if owners[i] != "owner of "+id {
				t.Fatalf("%s has the %s", id, owners[i])
			}
		}
	}
	if len(seen) != 16 {
		t.Errorf("%d of 16 ways to see it were seen: %v", len(seen), seen)
	}
	for ids := range seen {
		if !strings.Contains(ids, "b") || !strings.Contains(ids, "c") {
			t.Errorf("%q lacks what was there all the time", ids)
		}
	}
}

// A heartbeat that is new in the course of a look is shown or not; one that was there is.
func TestLookMayMissAHeartbeat(t *testing.T) {
	shown := map[int]int{}
	for seed := range uint64(50) {
		w := newWorld(Config{Nodes: 1}.withDefaults(), fault.Plan{}, seed, nil)
		r := w.servers.master.Server
		look := core.Op{Kind: core.OpLook}
		beat := func(t int64, id string) {
			var a core.Answer
			r.Do(t, &core.Op{Kind: core.OpBeat, Owner: id, TTL: int64(time.Minute), Epoch: r.Epoch}, &a)
		}
		m := message{op: look, since: 2000}
		beat(1000, "old")
		r.Glance(2000, &look, &m.ans)
		first := m.ans
		beat(3000, "new")
		r.Do(4000, &look, &m.ans)
		w.servers.join(&first, &m)
		shown[len(m.ans.Look.Nodes)]++
		if !slices.ContainsFunc(m.ans.Look.Nodes, func(n core.Seen) bool { return n.ID == "old" }) {
			t.Fatal("a heartbeat that was there is not shown")
		}
	}
	if shown[1] == 0 || shown[2] == 0 {
		t.Errorf("numbers of heartbeats shown: %v; want both 1 and 2", shown)
	}
}

// A look in whose course Redis lost its data fails, and was no look.
func TestLookAcrossALossFails(t *testing.T) {
	w := newWorld(Config{Nodes: 1, Sessions: 3}.withDefaults(), fault.Plan{}, 1, nil)
	m := message{op: core.Op{Kind: core.OpLook}}
	w.servers.master.Glance(1000, &m.op, &m.ans)
	first := m.ans
	w.servers.master.Start(1500)
	w.servers.master.Do(2000, &m.op, &m.ans)
	w.servers.join(&first, &m)
	if m.ans.Look != nil || m.ans.Failure != core.FailUnknown {
		t.Errorf("answered %+v", m.ans)
	}
}

// Behind a limit of bandwidth bytes arrive at its rate. What waits when it is lifted goes on then, as behind a real one.
func TestWhatWaitsGoesOnWhenTheLimitIsLifted(t *testing.T) {
	const kB, second = 1000, int64(1e9)
	l := link{narrow: []narrow{{kbps: 50, until: 4 * second}, {kbps: 2, until: 10 * second}}}
	for _, c := range []struct{ at, kB, takes int64 }{
		{at: 1, kB: 4, takes: 2},
		{at: 1, kB: 100, takes: 9},
		{at: 9, kB: 4, takes: 1},
		{at: 10, kB: 4, takes: 0},
	} {
		if takes := l.narrowed(c.at*second, int(c.kB*kB)); takes != c.takes*second {
			t.Errorf("%d kB at %d s take %d ns, want %d s", c.kB, c.at, takes, c.takes)
		}
	}
}
