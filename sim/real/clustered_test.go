package real

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// The slot takes all keys along, and all of its shard hear. A move that is given up leaves nothing at the other shard that a later one
// would find there.
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
		for mv == nil && ctx.Err() == nil { // what was set at one server the others hear of a moment later
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
	behind := &Redis{kind: kindServer, replicated: &replicated{}}
	of := &Redis{kind: kindServer, replicated: &replicated{cluster: &cluster{}}}
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

// Where fences begin as leases do they are told by their ends.
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
