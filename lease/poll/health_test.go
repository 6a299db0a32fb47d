package poll

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
)

// Malformed sessions are counted and named. An instance without a valid session is not settled.
func TestHealthNamesMalformedSessions(t *testing.T) {
	b := newBench(t)
	b.client.Del(t.Context(), "session:"+id)
	b.client.Set(t.Context(), "session:north-1", `{"id":"north-1"}`, 0)
	b.client.Set(t.Context(), "session:broken", "no JSON", 0)
	m := b.start(Config{Interval: time.Hour, Poll: nothing})
	b.until("the sessions are read", func() bool { return m.Health().Skipped == 2 })
	h := m.Health()
	if h.State != lease.HealthSessionsRefused || h.OK() || !strings.Contains(h.String(), "session:north-1") ||
		!strings.Contains(h.String(), "NamedSessions") || h.Settled {
		t.Errorf("%v, %v", h, h.Settled)
	}
	b.session(id, false)
	b.until("the good one is polled", func() bool { return m.Health().OK() && m.Leases().IsOwned(id) })
	if h := m.Health(); h.Skipped != 2 {
		t.Errorf("%v", h)
	}
}

// With NamedSessions, names are sessions.
func TestNamedSessionsArePolled(t *testing.T) {
	b := newBench(t)
	b.client.Set(t.Context(), "session:north-1", `{"id":"north-1"}`, 0)
	m, err := New(b.client, lease.Config{TTL: ttl, OpTimeout: ttl / 2, DiscoveryInterval: 100 * time.Millisecond},
		Config{NamedSessions: true, Interval: time.Hour, Poll: nothing})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	b.until("it is polled", func() bool { return m.Leases().IsOwned("north-1") })
}

// If an ACL denies the sessions, Start says so, with the rule to add.
func TestStartNamesDeniedSessions(t *testing.T) {
	b := newBench(t)
	b.server.Do("ACL", "SETUSER", "default", "resetkeys", "~poll:*", "~{poll:lease:*")
	m, err := New(b.client, lease.Config{TTL: ttl, OpTimeout: ttl / 2}, Config{Poll: nothing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	if err := m.Start(t.Context()); !errors.Is(err, redisstore.ErrRefused) || !strings.Contains(fmt.Sprint(err), "~session:*") {
		t.Errorf("Start: %v", err)
	}
}

// If an ACL change denies the sessions during polling, the log says so once, with the rule to add.
func TestDenialOfSessionsNamesTheRule(t *testing.T) {
	b := newBench(t)
	m, err := New(b.client, lease.Config{TTL: ttl, OpTimeout: ttl / 2, Logger: zap.New(b.core)}, Config{Poll: nothing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Stop() })
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.server.Do("ACL", "SETUSER", "default", "resetkeys", "~poll:*", "~{poll:lease:*")
	failed := func() []observer.LoggedEntry { return b.log.FilterField(zap.String("event", "sessionsFailed")).All() }
	b.until("it is told", func() bool { return len(failed()) > 0 })
	if said := fmt.Sprint(failed()[0].ContextMap()["error"]); !strings.Contains(said, "grant it with: ACL SETUSER default ~session:* ") {
		t.Errorf("the log: %s", said)
	}
}

func nothing(context.Context, Session) error { return nil }

// until waits for a condition that nothing announces.
func (b *bench) until(what string, is func() bool) {
	b.t.Helper()
	redistest.Eventually(b.t, what, is)
}
