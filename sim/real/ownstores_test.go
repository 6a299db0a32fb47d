package real

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
)

// A store that the run starts is killed, restarted, frozen and emptied with Redis.
func TestOwnStoreSuffersOutages(t *testing.T) {
	r, ctx := provision(t), t.Context()
	binary, err := findServer()
	if err != nil {
		t.Skip(err)
	}
	run := &run{redis: r, cfg: Config{Logs: t.TempDir(), Stores: []Store{{Name: "other", Command: []string{
		"sh", "-c", `exec "$0" --bind 127.0.0.1 --port "$PORT" --dir "$DATA" --save "" --appendonly yes`, binary,
	}}}}}
	t.Cleanup(run.redis.closeStores)
	if err := run.redis.startStores(ctx, &run.cfg); err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(adminOptions(&redis.Options{Addr: run.cfg.Stores[0].Addr}))
	t.Cleanup(func() { _ = client.Close() })
	back := func() {
		t.Helper()
		if err := r.resume(ctx); err != nil {
			t.Fatal(err)
		}
		if err := redisfixture.Await(ctx, func(ctx context.Context) bool { return client.Ping(ctx).Err() == nil }); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(want int64) {
		t.Helper()
		if n, err := client.Exists(ctx, "key").Result(); err != nil || n != want {
			t.Errorf("the store has %d keys (%v), want %d", n, err, want)
		}
	}
	if err := client.Set(ctx, "key", "value", 0).Err(); err != nil {
		t.Fatal(err)
	}
	r.halt(ctx)
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("the store was not killed")
	}
	back()
	holds(1)
	r.halt(ctx)
	if err := r.erase(); err != nil {
		t.Fatal(err)
	}
	back()
	holds(0)
	for _, p := range r.programs() {
		if err := p.Freeze(); err != nil {
			t.Fatal(err)
		}
	}
	frozen, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if err := client.Ping(frozen).Err(); err == nil {
		t.Error("the store was not frozen")
	}
	for _, p := range r.programs() {
		if err := p.Thaw(); err != nil {
			t.Fatal(err)
		}
	}
	holds(0)
}

// A store that ends before it serves ends the run.
func TestOwnStoreMustServe(t *testing.T) {
	run := &run{redis: provision(t), cfg: Config{Logs: t.TempDir(), Stores: []Store{{Name: "other", Command: []string{"true"}}}}}
	t.Cleanup(run.redis.closeStores)
	if err := run.redis.startStores(t.Context(), &run.cfg); !errors.Is(err, errStoreEnded) {
		t.Error(err)
	}
}
