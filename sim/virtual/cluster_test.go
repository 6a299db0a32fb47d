package virtual

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// A slot that moves takes all keys along, in the replicas too; owners assert there what they hold, and no lease is without one.
func TestSlotMoves(t *testing.T) {
	w, events := clustered(t, 2, []fault.Fault{{At: 20 * time.Second, Kind: fault.SlotMoved, For: 20 * time.Second}}, nil)
	from, to := w.servers.all[0], w.servers.all[3]
	if w.servers.master != to || noted(events, "the slot has moved to server 4") != 1 {
		t.Fatalf("the master is %s", w.servers.master.name())
	}
	for _, s := range w.servers.all {
		mine := s.peer.shard == to.peer.shard
		if got := len(s.Keys(w.t)) > 0; got != mine {
			t.Errorf("%s has keys: %v", s.name(), got)
		}
		if mine && s != to && s.peer.offset() == to.peer.offset() && !redis.Same(&s.Data, &to.Data) {
			t.Errorf("%s holds other data than its master", s.name())
		}
	}
	if why := from.peer.redirectsKeys(nil); why != textMoved {
		t.Errorf("the old shard answers %q", why)
	}
	lost := 0
	for i := range events {
		if events[i].Kind == history.Lost {
			lost++
		}
	}
	if out := w.outcome(); out.Overlaps+out.Falls > 0 || out.Unowned+lost > 0 {
		t.Errorf("%d leases lost, %+v", lost, out)
	}
}

// A move ends with the process that it begins with: the slot stays, with the keys that had not gone, and who owned owns again.
func TestMoveComesToNothing(t *testing.T) {
	began := false
	w, events := clustered(t, 2, []fault.Fault{{At: 31 * time.Second, Kind: fault.SlotMoved, For: time.Second}}, func(w *world) {
		var watch func()
		watch = func() {
			if m := w.servers.sentinels.cluster.move; m != nil && len(m.to.s.Keys(w.t)) > 0 {
				began = true
				w.servers.sentinels.failOver(w.servers.sentinels.home)
				return
			}
			w.after(int64(time.Millisecond), watch)
		}
		watch()
	})
	if !began || noted(events, "the slot stays at") != 1 || w.servers.master.peer.shard != w.servers.sentinels.shards[0] || w.servers.sentinels.cluster.move != nil {
		t.Errorf("begun: %v, the master is %s", began, w.servers.master.name())
	}
	if out := w.outcome(); out.Overlaps+out.Falls > 0 || out.Unowned > 0 {
		t.Errorf("%+v", out)
	}
}

// A shard that is down as a whole comes back with its data.
func TestShardDown(t *testing.T) {
	w, _ := clustered(t, 2, []fault.Fault{{At: 20 * time.Second, Kind: fault.ShardDown, For: 3 * time.Second}}, func(w *world) {
		for _, p := range w.servers.sentinels.of(w.servers.sentinels.home) {
			if p.s.down || p.failed {
				t.Errorf("%s is down, or serves nobody", p.s.name())
			}
		}
	})
	if out := w.outcome(); out.Overlaps+out.Falls > 0 || out.Unowned > 0 {
		t.Errorf("%+v", out)
	}
}

// A master that is cut off serves its clients for the node time-out, then nobody; back among the others it is a replica and sends clients
// away. The slot has another master meanwhile.
func TestCutOffMasterServesNobody(t *testing.T) {
	var at, failed int64
	w, _ := clustered(t, 2, []fault.Fault{{At: 31 * time.Second, Kind: fault.MasterCut, For: 25 * time.Second}}, func(w *world) {
		old := w.servers.master.peer
		var watch func()
		watch = func() {
			switch {
			case at == 0 && old.alone:
				at = w.t
			case at != 0 && old.failed:
				failed = w.t - at
				if why := old.redirectsKeys(nil); why != textClusterDown {
					t.Errorf("it answers %q", why)
				}
				return
			}
			w.after(int64(time.Millisecond), watch)
		}
		watch()
	})
	timeout := w.servers.sentinels.timeout
	if failed < timeout-int64(time.Millisecond) || failed > timeout*3/2+clusterCron+int64(2*time.Millisecond) {
		t.Errorf("it served nobody %v after it was cut off, the time-out being %v", time.Duration(failed), time.Duration(timeout))
	}
	if old := w.servers.all[0].peer; w.servers.master == old.s || old.of == nil || old.redirectsKeys(nil) != textMoved {
		t.Errorf("the master is %s, the old one answers %q", w.servers.master.name(), old.redirectsKeys(nil))
	}
	if out := w.outcome(); out.Overlaps+out.Falls > 0 || out.Unowned > 0 {
		t.Errorf("%+v", out)
	}
}

// Where two of three masters are out of sight nobody is promoted.
func TestMinorityElectsNobody(t *testing.T) {
	clustered(t, 2, nil, func(w *world) {
		home, other := w.servers.sentinels.shards[0].master, w.servers.sentinels.shards[1].master
		home.zone, other.zone = 7, 8
		w.servers.sentinels.failOver(home.shard)
		if w.servers.master != home.s {
			t.Errorf("%s is promoted by one vote of three", w.servers.master.name())
		}
		other.zone = 0
		w.servers.sentinels.failOver(home.shard)
		if w.servers.master == home.s {
			t.Error("nobody is promoted by two votes of three")
		}
		home.zone = 0
	})
}
