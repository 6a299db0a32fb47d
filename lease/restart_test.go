package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// Only a server without an epoch is called new, with advice to run Bootstrap. After a restart with data, or a flush under an owner that
// trusts its lease, Bootstrap would be wrong.
func TestRestartIsNotCalledNewLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for seconds")
	}
	t.Parallel()
	server := redistest.Start(t, redistest.AppendOnly())
	client := server.Client()
	said := func(k *Keeper, logs *observer.ObservedLogs) []string {
		t.Helper()
		var told *observer.ObservedLogs
		redistest.Eventually(t, "the quarantine is seen and logged", func() bool {
			told = logs.FilterField(zap.String("event", "epoch")).FilterLevelExact(zap.WarnLevel)
			return k.Health().State == HealthQuarantine && told.Len() > 0
		})
		_, err := k.TryAcquire(t.Context(), "job")
		if !errors.Is(err, ErrQuarantine) {
			t.Fatalf("TryAcquire: %v", err)
		}
		return []string{k.Health().Reason, err.Error(), told.All()[told.Len()-1].Message}
	}
	begin := func(id string) (*Keeper, *observer.ObservedLogs) {
		core, logs := observer.New(zap.InfoLevel)
		cfg := quick(id)
		cfg.Logger, cfg.TTL = zap.New(core), 5*time.Second
		return startKeeper(t, client, cfg), logs
	}
	expect := func(when string, texts []string, unused bool) {
		t.Helper()
		for _, text := range texts {
			if strings.Contains(text, "Bootstrap") != unused || !unused && !strings.Contains(text, "was restarted or is new, and may have lost data") {
				t.Errorf("%s: %q", when, text)
			}
		}
	}
	first, logs := begin("first")
	expect("a new server", said(first, logs), true)
	h, err := first.Acquire(t.Context(), "held")
	if err != nil {
		t.Fatal(err)
	}
	logs.TakeAll() // only later entries count
	server.Restart(false)
	expect("restarted, to who knew it", said(first, logs), false)
	expect("restarted, to a newcomer", said(begin("second")), false)
	if !h.Valid() {
		redistest.Eventually(t, "what is held is asserted anew", h.Valid)
	}
	logs.TakeAll()
	server.Flush()
	expect("flushed, to who knew it", said(first, logs), false)
}

// An instance that waits in the quarantine of a new server has its lease soon after Bootstrap.
func TestBootstrapOfWhoWaits(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	core, logs := observer.New(zap.InfoLevel)
	cfg := quick("a")
	cfg.TTL, cfg.Logger = time.Minute, zap.New(core)
	k := startKeeper(t, client, cfg)
	got := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() { got <- k.Do(ctx, "job", func(context.Context, int64) error { return nil }) }()
	redistest.Eventually(t, "it waits", func() bool {
		return logs.FilterField(zap.String("event", "acquireFailed")).FilterField(zap.String("reason", "quarantine")).Len() > 0
	})
	if why := k.Health().Reason; !strings.Contains(why, "admin.Bootstrap with this instance's Config") {
		t.Errorf("Health says %q, which names no way to end the wait", why)
	}
	if err := storeOf(t, client, cfg).Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

// A new user's program works at once on a Redis that was never used. On one that has just started, it waits.
func TestFirstStartLong(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for a server to have run for two seconds")
	}
	t.Parallel()
	old, young := redistest.Start(t, redistest.Unused()), redistest.Start(t, redistest.Unused())
	old.Age()
	cfg := quick("a")
	cfg.TTL, cfg.OpTimeout = time.Second, 300*time.Millisecond
	if _, err := startKeeper(t, old.Client(), cfg).TryAcquire(t.Context(), "job"); err != nil {
		t.Errorf("on a Redis that was never used: %v", err)
	}
	cfg.TTL = time.Hour
	_, err := startKeeper(t, young.Client(), cfg).TryAcquire(t.Context(), "job")
	if !errors.Is(err, ErrQuarantine) || !strings.Contains(err.Error(), "it was started") || !strings.Contains(err.Error(), "Bootstrap") {
		t.Errorf("on a Redis that was started just now: %v", err)
	}
}
