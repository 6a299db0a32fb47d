package lease

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// refusals make a Redis answer reads and refuse writes, by the begin of its error.
var refusals = map[string]func(*redistest.Server){
	"OOM":        func(s *redistest.Server) { s.Do("CONFIG", "SET", "maxmemory", "1") },
	"NOREPLICAS": func(s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "1") },
	"READONLY":   (*redistest.Server).ReadOnly,
	"NOPERM":     func(s *redistest.Server) { s.Do("ACL", "SETUSER", "default", "resetkeys", "~lease:*") }, // not the fences
}

// Every caller gets a refusal in Redis' own words, not as "no answer".
func TestErrorsOfARedisThatRefuses(t *testing.T) {
	for words, refuse := range refusals {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			server, client := bootstrapped(t)
			k := startKeeper(t, client, quick("a"))
			refuse(server)
			_, err := k.TryAcquire(t.Context(), "job")
			refusedBecause(t, "TryAcquire", err, words)
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			_, err = k.Acquire(ctx, "job")
			refusedBecause(t, "Acquire", err, words)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Acquire: %v, want the end of its context too", err)
			}
		})
	}
}

func refusedBecause(t *testing.T, what string, err error, words string) {
	t.Helper()
	if !errors.Is(err, errRefused) || errors.Is(err, errUnknown) || !strings.Contains(err.Error(), words) ||
		strings.Contains(err.Error(), "no answer") || !strings.Contains(err.Error(), `"job"`) {
		t.Errorf("%s: %v, want errRefused alone, the lease, and %s", what, err, words)
	}
}

// An error of the connection reaches the caller unchanged.
func TestErrorsOfAConnection(t *testing.T) {
	stranger := httptest.NewTLSServer(nil)
	t.Cleanup(stranger.Close)
	for name, tt := range map[string]struct {
		opt  redis.Options
		want any
	}{
		"certificate": {redis.Options{Addr: stranger.Listener.Addr().String(), TLSConfig: &tls.Config{}}, new(x509.UnknownAuthorityError)},
		"nobody":      {redis.Options{Addr: "127.0.0.1:1"}, new(*net.OpError)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := redis.NewClient(&tt.opt)
			t.Cleanup(func() { _ = client.Close() })
			k := startKeeper(t, client, Config{InstanceID: "a", TTL: 20 * time.Second})
			_, err := k.TryAcquire(t.Context(), "job")
			if !errors.Is(err, errUnknown) || errors.Is(err, errRefused) || !errors.As(err, tt.want) {
				t.Errorf("TryAcquire: %v, want errUnknown and %T", err, tt.want)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			if _, err = k.Acquire(ctx, "job"); !errors.Is(err, errUnknown) || !errors.As(err, tt.want) {
				t.Errorf("Acquire: %v, want errUnknown and %T", err, tt.want)
			}
		})
	}
}

// If an ACL change denies a running instance something, the error, Health and the log name it, with the line that grants it, as at Start.
func TestDenialWhileRunningNamesTheRule(t *testing.T) {
	for name, tt := range map[string]struct {
		take []any
		rule string
	}{
		"a key":     {[]any{"resetkeys", "~lease:*"}, " ~{lease:name:*}:fence "},
		"a command": {[]any{"-set"}, " +set "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, client := bootstrapped(t)
			entries, logs := observer.New(zap.WarnLevel)
			cfg := quick("a")
			cfg.Logger = zap.New(entries)
			k := startKeeper(t, client, cfg)
			server.Do(append([]any{"ACL", "SETUSER", "default"}, tt.take...)...)
			says := func(what, text string) {
				if !strings.Contains(text, "grant it with: ACL SETUSER default ") || !strings.Contains(text, tt.rule) ||
					strings.Count(text, "grant it with") != 1 {
					t.Errorf("%s: %q, want the line with%s", what, text, tt.rule)
				}
			}
			_, err := k.TryAcquire(t.Context(), "job")
			if !errors.Is(err, errRefused) {
				t.Errorf("TryAcquire: %v", err)
			}
			says("TryAcquire", err.Error())
			redistest.Eventually(t, "Health says it", func() bool { return strings.Contains(k.Health().Reason, "grant it with") })
			says("Health", k.Health().Reason)
			logTaken(k.s)
			warnings := logs.FilterField(zap.String("event", "warning")).All()
			if len(warnings) != 1 {
				t.Fatalf("%d warnings, want 1", len(warnings))
			}
			says("the log", fmt.Sprint(warnings[0].ContextMap()["error"]))
			_, err = k.TryAcquire(t.Context(), "job")
			says("the second", err.Error())
		})
	}
}

// If Redis is away at Start, it is checked when it answers.
func TestDeniedAfterAnOutage(t *testing.T) {
	t.Parallel()
	server, client := bootstrapped(t, redistest.AppendOnly())
	server.Do("ACL", "SETUSER", "poor", "on", ">pw", "~lease:*", "+@all", "&*")
	opt := *client.Options()
	opt.Username, opt.Password = "poor", "pw"
	poor := redis.NewClient(&opt)
	t.Cleanup(func() { _ = poor.Close() })
	server.Freeze()
	k := startKeeper(t, poor, quick("a"))
	if h := k.Health(); h.OK() || h.State != HealthSilent {
		t.Errorf("Redis is away: %v", h)
	}
	server.Thaw()
	redistest.Eventually(t, "the denial is told", func() bool {
		h := k.Health()
		return h.State == HealthRefused && strings.Contains(h.String(), "~{lease:name:*}:fence")
	})
	server.Do("ACL", "SETUSER", "poor", "~{lease:name:*}:fence")
	redistest.Eventually(t, "the permission is seen", func() bool { return k.Health().OK() })
}

// A jump of Redis' clock has an error of its own, for new calls and for waiting ones.
func TestErrorOfAClockThatJumped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		r.clock(time.Hour)
		g := newRig(t, r, "a", true, nil)
		k := g.keeperOf()
		if _, err := k.TryAcquire(t.Context(), "first"); err != nil {
			t.Fatal(err)
		}
		r.clock(2 * time.Hour)
		if _, err := k.TryAcquire(t.Context(), "second"); err != nil {
			t.Fatal(err) // reads the clock
		}
		_, err := k.TryAcquire(t.Context(), "job")
		if !errors.Is(err, ErrQuarantine) || errors.Is(err, errUnknown) || strings.Contains(err.Error(), "failed") {
			t.Errorf("TryAcquire: %v, want ErrQuarantine alone", err)
		}
		if h := k.Health(); h.State != HealthClock || h.OK() || time.Until(h.Until) <= 0 {
			t.Errorf("Health: %v", h)
		}
	})
}

// Health names an epoch that is not trusted until a later request is answered in the current one, and again when that epoch returns.
func TestHealthOfAnEpochThatIsNotBelieved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		g := newRig(t, r, "a", false, nil)
		pass(time.Second)
		r.forget(g.cfg.TTL)
		pass(3 * g.cfg.TTL)
		for _, what := range []string{"an old master answers", "it answers again"} {
			g.fake.set(mute)
			g.fake.looked.Store(&core.Answer{Epoch: "run 0", Look: &core.Look{Sessions: core.NewSessions(nil)}})
			pass(g.cfg.DiscoveryInterval + time.Second)
			if h := g.managerOf().Health(); h.State != HealthSuperseded || !strings.Contains(h.Reason, `"run 0"`) {
				t.Errorf("%s: %v", what, h)
			}
			g.fake.looked.Store(nil)
			g.fake.set(nil)
			pass(2 * g.cfg.RenewInterval)
			if h := g.managerOf().Health(); !h.OK() {
				t.Errorf("%s, and the present one later: %v", what, h)
			}
		}
	})
}
