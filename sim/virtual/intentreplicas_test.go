package virtual

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// intentsBehindSentinel is the configuration of two workers whose Redis has two replicas.
func intentsBehindSentinel() Config {
	return Config{
		Nodes: 2, Sessions: 8, Candidates: true, TTL: 10 * time.Second, Poll: time.Second, Storm: time.Minute, Calm: 30 * time.Second,
		Sentinel: true, Replicas: 2,
		Intents: &Intents{Tuners: 4, Role: func(int) string { return "both" }},
	}.withDefaults()
}

// In a storm in which the master dies, hangs, is cut off and replaced, all servers of a shard come to hold what their master does.
func TestReplicasOfIntentsFollow(t *testing.T) {
	accepted := 0
	for seed := range uint64(5) {
		var faults []fault.Fault
		for i, k := range []fault.Kind{fault.MasterCut, fault.ReplicaWipe, fault.RedisFreeze, fault.RedisOutage} {
			faults = append(faults, fault.Fault{At: time.Duration(5+13*i) * time.Second, Kind: k, For: 8 * time.Second})
		}
		faults = append(faults, fault.Fault{At: 40 * time.Second, Kind: fault.Failover})
		w := newWorld(intentsBehindSentinel(), fault.Plan{Faults: faults}, seed, func(e history.Event) {
			if e.Kind == history.Answered && e.Reason == "202" {
				accepted++
			}
		})
		w.run()
		m, followed := w.servers.master, 0
		for _, x := range w.servers.all {
			if x == m || !x.peer.linked || x.peer.offset() != m.peer.offset() {
				continue
			}
			followed++
			if !redis.Same(&x.Data, &m.Data) {
				t.Errorf("seed %d: %s holds other data than its master at the same offset", seed, x.name())
			}
		}
		if keys := len(m.Keys(w.t)); followed == 0 || keys == 0 {
			t.Errorf("seed %d: %d replicas are where their master is, which has %d keys", seed, followed, keys)
		}
	}
	if accepted == 0 {
		t.Error("no start was accepted")
	}
}

// Who waits at a master for an entry of the bus is told when that becomes a replica, and waits nowhere.
func TestDemotedMasterUnblocks(t *testing.T) {
	cfg := intentsBehindSentinel()
	w := newWorld(cfg, fault.Plan{}, 1, nil)
	waited, told := 0, 0
	w.after(int64(cfg.Start+cfg.Storm/2), func() {
		old := w.servers.master
		for _, b := range old.blocked {
			waited++
			done := b.m.done
			b.m.done = func(v redis.Reply, err error) {
				if v == redis.Refusal(textUnblocked) {
					told++
				}
				done(v, err)
			}
		}
		w.servers.all[1].peer.promote()
		old.peer.follow(w.servers.all[1].peer)
		w.after(int64(time.Second), func() {
			if len(old.blocked) > 0 {
				t.Errorf("%d wait at a replica", len(old.blocked))
			}
		})
	})
	w.run()
	if waited == 0 || told != waited {
		t.Errorf("%d waited, %d were told", waited, told)
	}
}

// That is what a server says.
func TestRedisUnblocksWhenItFollows(t *testing.T) {
	s := redistest.Start(t)
	s.Do("XGROUP", "CREATE", "x", "g", "0", "MKSTREAM")
	said := make(chan error, 1)
	c := s.Client()
	defer c.Close()
	go func() {
		said <- c.Do(context.Background(), "XREADGROUP", "GROUP", "g", "c", "BLOCK", "9000", "STREAMS", "x", ">").Err()
	}()
	for !strings.Contains(s.Do("INFO", "clients").(string), "blocked_clients:1\r") {
		select {
		case err := <-said:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
	}
	s.ReadOnly()
	if err := <-said; err == nil || err.Error() != textUnblocked {
		t.Errorf("Redis says %v, the model %q", err, textUnblocked)
	}
}
