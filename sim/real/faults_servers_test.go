package real

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// The slot moves with all its keys, and all servers of its shard learn of it. An abandoned move leaves no keys at the other shard, where a
// later move would find them.
func TestSlotMovesLong(t *testing.T) {
	if testing.Short() {
		t.Skip("several servers")
	}
	p := provisionChoice(t, RedisChoice{Servers: 2, Cluster: true}).replicated
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	moving := func(do func(mv *move)) {
		t.Helper()
		for _, key := range []string{"a", "b"} {
			if err := p.present().client.Load().Set(ctx, clusterTag+key, "kept", time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
		}
		mv := p.beginMove(ctx)
		for mv == nil && ctx.Err() == nil { // the other servers learn of a setting a moment later
			mv = p.beginMove(ctx)
		}
		if mv == nil {
			t.Fatal("no move begins")
		}
		defer unlockAll(mv.held)
		do(mv)
	}
	moving(func(mv *move) {
		if err := errors.Join(mv.migrate(ctx, []string{clusterTag + "a"}), mv.giveUp(ctx)); err != nil {
			t.Fatal(err)
		}
		there, err := mv.keys(ctx, mv.to, 10)
		here, err2 := mv.keys(ctx, mv.from, 10)
		if len(there) > 0 || len(here) != 1 || here[0] != clusterTag+"b" || p.present() != mv.from {
			t.Errorf("given up, %q and %q are there and here, %v, %v", there, here, err, err2)
		}
	})
	moving(func(mv *move) {
		if err := errors.Join(mv.carry(ctx, func() int { return 1 }, func() {}), mv.settle(ctx)); err != nil {
			t.Fatal(err)
		}
		for _, m := range append(mv.held, p.voter()) {
			if at := p.owner(m); at != mv.to {
				t.Errorf("%s takes %v for the master", m.name, at)
			}
		}
		for _, key := range []string{"a", "b"} {
			c := mv.to.client.Load()
			text, err := c.Get(ctx, clusterTag+key).Result()
			if left := c.PTTL(ctx, clusterTag+key).Val(); text != "kept" || left < 50*time.Minute {
				t.Errorf("%s is %q for %v, %v", key, text, left, err)
			}
		}
	})
}

func TestFaultsOfAClusterNeedOne(t *testing.T) {
	behind := &Redis{Info: Info{Kind: kindServer}, replicated: &replicated{}}
	of := &Redis{Info: Info{Kind: kindServer}, replicated: &replicated{cluster: &cluster{}}}
	for kind, want := range map[fault.Kind][2]string{
		fault.SlotMoved: {"use --topology cluster", ""}, fault.ShardDown: {"use --topology cluster", ""},
		fault.MasterCut: {"", ""},
	} {
		for i, r := range []*Redis{behind, of} {
			err := r.Supports(kind)
			if (err == nil) != (want[i] == "") || err != nil && (!errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), want[i])) {
				t.Errorf("%s of a cluster %v: %v, want %q", kind, i == 1, err, want[i])
			}
		}
	}
}

// If fence keys begin like lease keys, the ACL distinguishes them by their ends.
func TestFencesOfAClusterAreDenied(t *testing.T) {
	r := provision(t)
	nodes := redis.NewClient(&redis.Options{Addr: r.url.Addr, DisableIdentity: true, MaxRetries: -1})
	defer func() { _ = nodes.Close() }()
	begin, end := refusing(fault.Fault{Kind: fault.RedisNoPerm, Deny: fault.DenyFences}, clusteredPolling)
	for _, c := range []struct {
		change []any
		denied bool
	}{{begin, true}, {end, false}} {
		if err := r.client.Load().Do(t.Context(), c.change...).Err(); err != nil {
			t.Fatal(err)
		}
		for key, fence := range map[string]bool{
			"{poll}:lease:x:fence": true, "{poll}:lease:x": false, "{poll}:lease:fence-": false, "fence": false, "e": false,
			"{poll}:node:pence": false, "{poll}:epoch": false,
		} {
			if err := nodes.Set(t.Context(), key, "1", 0).Err(); (err != nil) != (c.denied && fence) {
				t.Errorf("%s, denied %v: %v", key, c.denied, err)
			}
		}
	}
}

// Wiping a replica deletes the file in the replica's own folder, and not one of that name in the simulator's folder.
func TestReplicaIsWipedInItsFolderLong(t *testing.T) {
	if testing.Short() {
		t.Skip("several servers")
	}
	r := provisionChoice(t, RedisChoice{Servers: 3})
	t.Chdir(t.TempDir())
	if err := os.WriteFile("dump.rdb", []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	m := r.replicated.members[1]
	m.kill()
	if err := m.erase(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile("dump.rdb"); string(text) != "somebody's" {
		t.Errorf("a file of the user: %q, %v", text, err)
	}
	if left, err := filepath.Glob(filepath.Join(m.dir, "appendonly*")); err != nil || len(left) > 0 {
		t.Errorf("left of the replica's data: %q, %v", left, err)
	}
}

// A replica that restarts from an old dump resumes its master's stream and keeps the later data.
func TestReplicaIsBackOutOfADump(t *testing.T) {
	for name, c := range map[string]RedisChoice{"behind Sentinel": {Servers: 3}, "on a cluster": {Servers: 3, Cluster: true}} {
		t.Run(name, func(t *testing.T) {
			p := provisionChoice(t, c).replicated
			master, m := p.members[0], p.members[1]
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			set := func(value string) {
				t.Helper()
				if err := master.client.Load().Set(ctx, clusterTag+"key", value, 0).Err(); err != nil {
					t.Fatal(err)
				}
				if n, err := master.client.Load().Wait(ctx, 2, time.Minute).Result(); n != 2 || err != nil {
					t.Fatalf("acknowledged by %d, %v", n, err)
				}
			}
			attached := func() (full, partial string) {
				f := infoFields(master.client.Load().Info(ctx, "stats").Val())
				return f["sync_full"], f["sync_partial_ok"]
			}
			set("old")
			full, partial := attached()
			if err := m.save(ctx); err != nil {
				t.Fatal(err)
			}
			set("new")
			m.kill()
			if err := m.reload(ctx); err != nil {
				t.Fatal(err)
			}
			p.renew(m.server)
			if err := m.appendAgain(ctx); err != nil {
				t.Fatal(err)
			}
			set("newest")
			if full2, partial2 := attached(); full2 != full || partial2 == partial {
				t.Errorf("the master counts %s full and %s partial synchronizations, before it %s and %s", full2, partial2, full, partial)
			}
			m.kill()
			for _, other := range p.members { // so that nobody sends it data
				if other != m {
					other.kill()
				}
			}
			if err := m.start(ctx); err != nil {
				t.Fatal(err)
			}
			p.renew(m.server)
			if p.cluster != nil { // alone, it refuses requests
				return
			}
			if text, err := m.client.Load().Get(ctx, clusterTag+"key").Result(); text != "newest" {
				t.Errorf("it keeps %q, %v", text, err)
			}
		})
	}
}
