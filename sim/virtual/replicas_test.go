package virtual

import (
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// replicated is a world of a master and two replicas, in which act happens in the middle of the storm, and the rest at the end.
func replicated(t *testing.T, replicas int, faults []fault.Fault, act func(w *world)) (*world, []history.Event) {
	t.Helper()
	var events []history.Event
	cfg := Config{
		Nodes: 3, Sessions: 6, TTL: 10 * time.Second, Storm: time.Minute, Calm: 30 * time.Second, Sentinel: true, Replicas: replicas,
	}.withDefaults()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(cfg, fault.Plan{Faults: faults}, 1, func(e history.Event) { events = append(events, e) })
	if act != nil {
		w.after(int64(cfg.Start+cfg.Storm/2), func() { act(w) })
	}
	w.run()
	return w, events
}

// noted counts the notes that begin so.
func noted(events []history.Event, text string) (n int) {
	for i := range events {
		if events[i].Kind == history.Note && strings.HasPrefix(events[i].Reason, text) {
			n++
		}
	}
	return n
}

// Replicas have what the master has, as soon as it has arrived, and the fleet owns all there is with acknowledgements that count.
func TestReplicasFollow(t *testing.T) {
	w, _ := replicated(t, 2, nil, nil)
	m := w.servers.master
	for _, x := range w.servers.all[1:] {
		if x.peer.of != m.peer || x.peer.offset() == 0 || m.peer.acks[x.number].offset < x.peer.offset() {
			t.Errorf("%s is at %d of %d, acknowledged %+v", x.name(), x.peer.offset(), m.peer.offset(), m.peer.acks[x.number])
		}
		if x.peer.offset() == m.peer.offset() && !redis.Same(&x.Data, &m.Data) {
			t.Errorf("%s holds other data than the master at the same offset", x.name())
		}
	}
	if out := w.outcome(); out.Unowned+out.Misowned > 0 || out.Renewals == 0 {
		t.Errorf("%+v", out)
	}
}

// A replica that was wiped copies everything and is counted, which begins an epoch; one that was cut off for a moment goes on where it was,
// and is counted too.
func TestAttachments(t *testing.T) {
	for kind, full := range map[fault.Kind]int{fault.ReplicaWipe: 1, fault.ReplicaCut: 0} {
		epochs := map[string]bool{}
		before := 0
		w, _ := replicated(t, 2, []fault.Fault{{At: 31 * time.Second, Kind: kind, For: 8 * time.Second}}, func(w *world) {
			before = w.servers.master.SyncFull
			epochs[w.servers.master.Epoch] = true
		})
		m := w.servers.master
		epochs[m.Epoch] = true
		if m.SyncFull != before+full || m.SyncPartial != 1-full || len(epochs) != 2 {
			t.Errorf("%s: %d copies, %d resumed, epochs %v; want %d and %d more, and two epochs", kind, m.SyncFull-before, m.SyncPartial,
				epochs, full, 1-full)
		}
		for _, x := range w.servers.all[1:] {
			if !x.peer.linked || x.peer.offset() == m.peer.offset() && !redis.Same(&x.Data, &m.Data) {
				t.Errorf("%s: %s is attached: %v, same data: %v", kind, x.name(), x.peer.linked, redis.Same(&x.Data, &m.Data))
			}
		}
	}
}

// confirmed has an op executed at a server and returns its answer, and how long that took.
func confirmed(w *world, s *server, kind core.OpKind, done func(a core.Answer, took int64)) {
	n := w.fleet.nodes[0]
	m := w.net.message()
	m.node, m.gen, m.to, m.refs = 0, n.gen+1, s.number, 2 // of no process that runs: what is seen is the message itself
	now := n.clock.MonoAt(w.t)
	m.op = core.Op{
		Kind: kind, Epoch: s.Epoch, Confirm: 1, Owner: "test", TTL: int64(w.cfg.TTL), Sent: now, Deadline: now + core.Time(w.cfg.OpTimeout),
		Items: []core.Item{{ID: "a lease of the test"}},
	}
	began := w.t
	s.peer.confirm(m)
	var look func()
	look = func() {
		if m.refs > 2 && len(s.peer.waits) > 0 && w.t-began < int64(w.cfg.TTL) { // it waits
			w.after(int64(time.Millisecond), look)
			return
		}
		done(m.ans, w.t-began)
	}
	look()
}

// WAIT ends with an acknowledgement, which takes a round trip; without any it ends a little before the op's time does, and says how many
// there were. The epoch is read again behind it.
func TestWait(t *testing.T) {
	for _, c := range []struct {
		name      string
		cut       bool
		acked     int64
		from, til time.Duration
	}{
		{"with replicas", false, 1, 0, 50 * time.Millisecond},
		{"without", true, 0, 870 * time.Millisecond, 900 * time.Millisecond},
	} {
		var got core.Answer
		var took int64
		replicated(t, 2, nil, func(w *world) {
			if c.cut {
				for _, x := range w.servers.all[1:] {
					x.peer.zone = 7
				}
			}
			confirmed(w, w.servers.master, core.OpAcquire, func(a core.Answer, d int64) { got, took = a, d })
		})
		if got.Acked < c.acked || c.cut && got.Acked != 0 || took < int64(c.from) || took > int64(c.til) {
			t.Errorf("%s: %d acknowledged after %v; want %d within %v to %v", c.name, got.Acked, time.Duration(took), c.acked, c.from, c.til)
		}
		if got.After == "" || got.After != got.Epoch {
			t.Errorf("%s: the epoch is %q, and behind WAIT %q", c.name, got.Epoch, got.After)
		}
	}
}

// A replica that attaches itself while WAIT is pending acknowledges, and shows in the epoch that is read behind it. So does a demotion,
// which ends WAIT with nothing.
func TestWaitSeesAttachmentAndDemotion(t *testing.T) {
	var attached, demoted core.Answer
	replicated(t, 2, nil, func(w *world) {
		for _, x := range w.servers.all[1:] {
			x.peer.zone = 7
			x.peer.unlink()
		}
		w.servers.master.peer.acks = make([]acknowledgement, 3) // it has noticed
		confirmed(w, w.servers.master, core.OpAcquire, func(a core.Answer, _ int64) { attached = a })
		w.after(int64(100*time.Millisecond), func() { w.servers.all[1].peer.zone = 0 })
	})
	if attached.Acked != 1 || attached.After == attached.Epoch || attached.After == "" {
		t.Errorf("a replica attached itself: %d acknowledged, epochs %q and %q", attached.Acked, attached.Epoch, attached.After)
	}
	replicated(t, 2, nil, func(w *world) {
		old := w.servers.master
		for _, x := range w.servers.all[1:] {
			x.peer.zone = 7
			x.peer.unlink()
		}
		old.peer.acks = make([]acknowledgement, 3)
		confirmed(w, old, core.OpAcquire, func(a core.Answer, took int64) {
			if demoted = a; took > int64(200*time.Millisecond) {
				t.Errorf("WAIT at a server that is a master no more ended after %v", time.Duration(took))
			}
		})
		w.after(int64(100*time.Millisecond), func() { old.peer.follow(w.servers.all[1].peer) })
	})
	if demoted.Acked != 0 {
		t.Errorf("a master that was demoted had %d acknowledged", demoted.Acked)
	}
}

// A promotion disconnects replicas and changes the stream; what only the old master had is gone once it follows, and everybody owns again
// what they owned.
func TestPromotion(t *testing.T) {
	w, events := replicated(t, 2, []fault.Fault{{At: 31 * time.Second, Kind: fault.Failover}}, nil)
	if w.servers.master == w.servers.all[0] || noted(events, w.servers.master.name()+" is promoted") != 1 {
		t.Fatalf("the master is %s, promoted %d times", w.servers.master.name(), noted(events, w.servers.master.name()+" is promoted"))
	}
	for _, x := range w.servers.all {
		if x != w.servers.master && (x.peer.of != w.servers.master.peer || !x.peer.linked || x.peer.id != w.servers.master.peer.id || x.Readonly != 1) {
			t.Errorf("%s: of the master %v, linked %v, stream %d of %d, readonly %d", x.name(), x.peer.of == w.servers.master.peer, x.peer.linked,
				x.peer.id, w.servers.master.peer.id, x.Readonly)
		}
	}
	for _, n := range w.fleet.nodes {
		if n.route.to != w.servers.master.number {
			t.Errorf("%s is connected to server %d", n.name, n.route.to+1)
		}
	}
	if out := w.outcome(); out.Overlaps+out.Falls > 0 || out.Unowned > 0 {
		t.Errorf("%+v", out)
	}
}

// A master that dies, or that the sentinels lose sight of, is replaced; as long as two act, history says that what Redis does is unknown.
func TestSentinelsReplaceAMaster(t *testing.T) {
	for _, f := range []fault.Fault{
		{Kind: fault.RedisOutage, For: 8 * time.Second}, {Kind: fault.RedisFreeze, For: 8 * time.Second},
		{Kind: fault.MasterCut, For: 25 * time.Second},
	} {
		f.At = 21 * time.Second
		w, events := replicated(t, 2, []fault.Fault{f}, nil)
		down, up := 0, 0
		for i := range events {
			switch events[i].Kind {
			case history.TapDown:
				down++
			case history.TapUp:
				up++
			}
		}
		if w.servers.master == w.servers.all[0] || down == 0 || !w.servers.master.peer.told {
			t.Errorf("%s: the master is %s; tap down %d times, up %d times", f.Kind, w.servers.master.name(), down, up)
		}
		if out := w.outcome(); out.Overlaps+out.Falls > 0 || out.Unowned > 0 {
			t.Errorf("%s: %+v", f.Kind, out)
		}
	}
}

// Where instances are told of no replicas an old master that lives on gives leases a second owner. Where they are, it does not.
func TestOldMasterLivesOn(t *testing.T) { // G1
	overlaps := [3]uint64{}
	for _, replicas := range []int{0, 2} {
		for seed := range uint64(20) {
			cfg := Config{Nodes: 4, Sessions: 20, TTL: 5 * time.Second, Storm: time.Minute, Calm: 15 * time.Second, Sentinel: true,
				Replicas: replicas}
			out, err := Run(cfg, fault.Plan{Faults: []fault.Fault{{At: 20 * time.Second, Kind: fault.MasterCut, For: 25 * time.Second}}},
				seed, nil)
			if err != nil || out.Unowned > 0 {
				t.Errorf("%d replicas, seed %d: %+v, %v", replicas, seed, out, err)
			}
			overlaps[replicas] += out.Overlaps
		}
	}
	if overlaps[0] == 0 || overlaps[2] > 0 {
		t.Errorf("%d overlaps without, %d with replicas that are waited for", overlaps[0], overlaps[2])
	}
}

// Where more servers acknowledge than the instances are told of, an old master and its successor can both have a majority.
func TestMoreServersThanToldOf(t *testing.T) { // G1
	overlaps := map[int]uint64{}
	for _, told := range []int{2, 3} {
		for seed := range uint64(20) {
			cfg := Config{Nodes: 4, Sessions: 20, TTL: 5 * time.Second, Storm: time.Minute, Calm: 15 * time.Second, Sentinel: true,
				Replicas: 3}.withDefaults()
			w := newWorld(cfg, fault.Plan{Faults: []fault.Fault{{At: 20 * time.Second, Kind: fault.MasterCut, For: 25 * time.Second}}}, seed, nil)
			w.cfg.Replicas = told
			for _, s := range w.servers.all {
				s.Config.Replicas = told
				s.Relive()
			}
			w.run()
			overlaps[told] += w.outcome().Overlaps
		}
	}
	if overlaps[2] == 0 || overlaps[3] > 0 {
		t.Errorf("of three replicas %d overlaps where instances are told of two, %d where of all", overlaps[2], overlaps[3])
	}
}

func TestSentinelConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Nodes: 1, Replicas: 1}, "needs Sentinel"},
		{Config{Nodes: 1, Replicas: -1, Sentinel: true}, "Replicas is -1"},
		{Config{Nodes: 1, Replicas: 10, Cluster: true}, "Replicas is 10"},
		{Config{Nodes: 1, Sentinel: true, Cluster: true}, "one of them"},
		{Config{Nodes: 1, Replicas: 10, Sentinel: true}, "Replicas is 10"},
		{Config{Nodes: 1, Cluster: true, Candidates: true, Poll: 1, Intents: &Intents{Tuners: 1}}, "no Cluster"},
	} {
		if err := c.cfg.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.cfg, err, c.want)
		}
	}
}

// A replica that is back out of an old dump goes on from there, or copies everything, is counted either way, and has what the master has
// before it acknowledges.
func TestOldDumps(t *testing.T) {
	seen := map[string]int{}
	for i := range 8 {
		old := fault.Fault{At: 30*time.Second + time.Duration(i)*time.Second, Kind: fault.ReplicaDump, For: 8 * time.Second}
		full, partial := 0, 0
		w, _ := replicated(t, 2, []fault.Fault{old}, func(w *world) { full, partial = w.servers.master.SyncFull, w.servers.master.SyncPartial })
		m := w.servers.master
		full, partial = m.SyncFull-full, m.SyncPartial-partial
		if full+partial != 1 {
			t.Errorf("at %v: %d copies, %d resumed; want one of both", old.At, full, partial)
		}
		seen["full"] += full
		seen["partial"] += partial
		for _, x := range w.servers.all[1:] {
			if !x.peer.linked || x.peer.offset() == m.peer.offset() && !redis.Same(&x.Data, &m.Data) {
				t.Errorf("at %v: %s is attached: %v, same data: %v", old.At, x.name(), x.peer.linked, redis.Same(&x.Data, &m.Data))
			}
		}
	}
	if seen["full"] == 0 || seen["partial"] == 0 {
		t.Errorf("of eight %v", seen)
	}
}
