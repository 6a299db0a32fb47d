package lease

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/sessionid"
)

func TestConfigDefaultsAreTheSeeds(t *testing.T) { // FR-004, FR-006
	c := Config{}.withDefaults()
	if err := c.validate(); err != nil {
		t.Fatal(err)
	}
	if c.TTL != 30*time.Second || c.RenewInterval != 10*time.Second || c.DiscoveryInterval != 10*time.Second {
		t.Errorf("TTL %v, renew %v, discovery %v", c.TTL, c.RenewInterval, c.DiscoveryInterval)
	}
	cc := c.core()
	if cc.TTL != int64(c.TTL) || cc.Renew != int64(c.RenewInterval) || cc.Discovery != int64(c.DiscoveryInterval) ||
		cc.OpTimeout != int64(c.OpTimeout) || cc.Place {
		t.Errorf("the core is told %+v", cc)
	}
}

func TestConfigRefusesContradictions(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    Config
		want string // part of the message
	}{
		{"renew = TTL", Config{TTL: time.Second, RenewInterval: time.Second}, "RenewInterval"},
		{"renew > TTL", Config{RenewInterval: time.Minute}, "RenewInterval"},
		{"no time for an answer", Config{TTL: time.Second, RenewInterval: 900 * time.Millisecond}, "OpTimeout"},
		{"negative TTL", Config{TTL: -time.Second}, "TTL"},
		{"negative renew", Config{RenewInterval: -1}, "RenewInterval"},
		{"tiny TTL", Config{TTL: 10 * time.Millisecond}, "TTL"},
		{"huge TTL", Config{TTL: 1000 * time.Hour}, "TTL"},
		{"TTL of one and a half milliseconds", Config{TTL: 1500 * time.Microsecond}, ": TTL is 1.5ms"},
		{"TTL of half a millisecond more", Config{TTL: time.Second + 500*time.Microsecond}, "TTL"},
		{"short quarantine", Config{Quarantine: time.Second}, "Quarantine"},
		{"negative drain", Config{DrainTimeout: -1}, "DrainTimeout"},
		{"instance with a space", Config{InstanceID: "a b"}, "InstanceID"},
		{"instance with a newline", Config{InstanceID: "a\n"}, "InstanceID"},
		{"instance that means nobody", Config{InstanceID: "-"}, "InstanceID"},
		{"long instance", Config{InstanceID: strings.Repeat("x", 513)}, "InstanceID"},
		{"huge instance", Config{InstanceID: "é" + strings.Repeat("xé", 1<<18)}, "éxéx\"… (786434 bytes) has 786434 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := NewKeeper(unused(t), tt.c)
			if !errors.Is(err, ErrInvalidConfig) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("NewKeeper = %v, %v; want ErrInvalidConfig that names %s", m, err, tt.want)
			}
			if err != nil && len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
	if m, err := NewManager(nil, ManagerConfig{}); !errors.Is(err, ErrInvalidConfig) || !errors.Is(err, redisstore.ErrUnsupportedClient) {
		t.Errorf("NewManager without a client = %v, %v", m, err)
	}
}

// unused returns a client that is never used.
func unused(t *testing.T) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestNamesAndSessionIDs(t *testing.T) {
	k, err := NewKeeper(unused(t), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Stop() })
	nameError := k.s.nameError
	for _, name := range []string{"a", "jobs/clean-up:2", "ü", strings.Repeat("x", 512)} {
		if err := nameError(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", " ", "a b", "a\tb", "a\x00", "a\u2028b", "\xff", strings.Repeat("x", 513)} {
		if err := nameError(name); !errors.Is(err, errName) {
			t.Errorf("%q: %v, want errName", name, err)
		}
	}
	tagged, err := NewKeeper(unused(t), Config{LeasePrefix: "{x}:lease:", NodePrefix: "{x}:node:", EpochKey: "{x}:epoch"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tagged.Stop() })
	if _, err := tagged.TryAcquire(t.Context(), "job:fence"); !errors.Is(err, errName) {
		t.Errorf("a lease named like a fence key: %v, want errName", err)
	}
	if _, err := k.TryAcquire(t.Context(), "job:fence"); !errors.Is(err, errNotStarted) {
		t.Errorf("where it cannot be mistaken for one: %v, want errNotStarted", err)
	}
	if err := (&ManagerConfig{}).checkSession(session); err != nil {
		t.Error(err)
	}
	for _, id := range []string{"", "x", session + " ", "{" + session + "}", "urn:uuid:" + session,
		strings.ToUpper(session), strings.ReplaceAll(session, "-", "")} {
		if err := (&ManagerConfig{}).checkSession(id); !errors.Is(err, sessionid.ErrInvalid) || !strings.Contains(err.Error(), id) {
			t.Errorf("%q: %v, want ErrInvalid that names it", id, err)
		}
	}
}

func TestBeforeStart(t *testing.T) {
	m, err := NewManager(unused(t), ManagerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.TryAcquire(t.Context(), session); !errors.Is(err, errNotStarted) {
		t.Errorf("TryAcquire: %v", err)
	}
	if err := m.Release(t.Context(), session); !errors.Is(err, errNotStarted) {
		t.Errorf("Release: %v", err)
	}
	if _, err := m.PreferredOwner(t.Context(), session); !errors.Is(err, errNotStarted) {
		t.Errorf("PreferredOwner: %v", err)
	}
	if m.IsOwned(session) || state(m.s.state.Load()) != stateStarting {
		t.Errorf("owned %v, state %v", m.IsOwned(session), state(m.s.state.Load()))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := m.Start(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Start with an ended context: %v", err)
	}
	if err := m.Stop(); err != nil {
		t.Errorf("Stop: %v", err)
	}
	if err := m.Start(t.Context()); !errors.Is(err, ErrStopped) {
		t.Errorf("Start after Stop: %v", err)
	}
}

func TestInstanceIDsDiffer(t *testing.T) { // FR-005
	a, b := GenerateInstanceID(), GenerateInstanceID()
	if a == b {
		t.Errorf("twice %q", a)
	}
	if parts := strings.Split(a, "-"); len(parts) < 3 || len(parts[len(parts)-1]) != 8 || checkName(a) != nil {
		t.Errorf("%q is not hostname-bootTimestamp-randomSuffix", a)
	}
}
