package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/inner"
)

// The context of Start bounds only the start.
func TestStartsContextDoesNotEndTheInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startShell(&fakeStore{r: newFakeRedis()}, ManagerConfig{Config: Config{InstanceID: "a"}}.withDefaults(), true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.start(ctx); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Second)
		k := &Keeper{s}
		h, err := k.TryAcquire(t.Context(), "job")
		if err != nil || state(k.s.state.Load()) >= stateDraining {
			t.Fatalf("after the time-out of Start: %v, state %v", err, state(k.s.state.Load()))
		}
		h.Drop()
		if err := k.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// Run ends with its context, or when somebody else stops the instance.
func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, stop := range []bool{false, true} {
			k := &Manager{startShell(&fakeStore{r: newFakeRedis()}, ManagerConfig{Config: Config{InstanceID: "a"}}.withDefaults(), false)}
			ctx, cancel := context.WithCancel(t.Context())
			ran := make(chan error, 1)
			go func() { ran <- k.Run(ctx) }()
			pass(time.Second)
			if h := k.Health(); !h.OK() || h.Error() != nil {
				t.Errorf("Health: %v", h)
			}
			if stop {
				if err := k.Stop(); err != nil {
					t.Error(err)
				}
			} else {
				cancel()
			}
			if err := <-ran; err != nil || state(k.s.state.Load()) != stateStopped || k.Health().State != HealthStopped {
				t.Errorf("Run: %v; %v; %v", err, state(k.s.state.Load()), k.Health())
			}
			cancel()
		}
	})
}

func TestDoInsideDoIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		k, other := newRig(t, r, "a", true, nil).keeperOf(), newRig(t, newFakeRedis(), "b", true, nil).keeperOf()
		never := func(context.Context, int64) error { t.Error("called"); return nil }
		err := k.Do(t.Context(), "job", func(ctx context.Context, _ int64) error {
			if err := k.Do(ctx, "job", never); !errors.Is(err, errNested) || !strings.Contains(err.Error(), `"job"`) {
				t.Errorf("the same: %v, want errNested", err)
			}
			return k.Do(ctx, "more", func(ctx context.Context, _ int64) error {
				if err := k.Do(ctx, "job", never); !errors.Is(err, errNested) {
					t.Errorf("two up: %v, want errNested", err)
				}
				return other.Do(ctx, "job", func(context.Context, int64) error { return nil })
			})
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// A start without a wait has no entry. A start that waits says until when, and names Bootstrap.
func TestWhatAStartSaysOfItsQuarantine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, wait := range []time.Duration{0, time.Minute} {
			r := newFakeRedis()
			r.quiet = time.Now().Add(wait)
			g := newRig(t, r, "a", true, nil)
			pass(10 * time.Millisecond)
			entries := g.log.FilterField(zapString("event", "epoch")).All()
			if len(entries) != 1 {
				t.Fatalf("%d entries", len(entries))
			}
			e := entries[0]
			if waits := strings.Contains(e.Message, "grants nothing") && strings.Contains(e.Message, "Bootstrap"); waits != (wait > 0) {
				t.Errorf("wait %v: %q", wait, e.Message)
			}
			until := e.ContextMap()["until"]
			if wait == 0 && until != nil || wait > 0 && !strings.Contains(fmt.Sprint(until), r.quiet.Format("15:04:0")) {
				t.Errorf("wait %v: until %v", wait, until)
			}
			h := g.keeperOf().Health()
			if wait > 0 && (h.State != HealthQuarantine || h.OK() || h.Until.Sub(r.quiet).Abs() > time.Second) {
				t.Errorf("Health: %v", h)
			}
			if wait == 0 && !h.OK() {
				t.Errorf("Health: %v", h)
			}
			if err := g.stop(); err != nil {
				t.Error(err)
			}
		}
	})
}

func zapString(key, value string) zapcore.Field {
	return zapcore.Field{Key: key, Type: zapcore.StringType, String: value}
}

// Malformed sessions are counted, and some are named. An instance without a valid session is neither settled nor ok.
func TestHealthOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var ids []string
		var err error
		found := func(now []string, wrong error) {
			mu.Lock()
			ids, err = now, wrong
			mu.Unlock()
			pass(20 * time.Second)
		}
		g := newRig(t, newFakeRedis(), "a", false, func(c *ManagerConfig) {
			c.DiscoveryInterval = time.Second
			c.Sessions = func(context.Context) ([]string, error) {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(ids), err
			}
		})
		m := g.managerOf()
		pass(20 * time.Second)
		if h := m.Health(); h.State != HealthNoSessions || !h.OK() || state(m.s.state.Load()) != stateSettled {
			t.Errorf("no sessions: %v, %v", h, state(m.s.state.Load()))
		}
		found([]string{"one", "two", "three", "four", "five", "six"}, nil)
		h := m.Health()
		if h.State != HealthSessionsRefused || h.OK() || state(m.s.state.Load()) == stateSettled || h.Skipped != 6 || len(h.SkippedNames) != 5 ||
			!strings.Contains(h.String(), `"one"`) || !strings.Contains(h.Error().Error(), "6 malformed") {
			t.Errorf("none good: %v, %v", h, state(m.s.state.Load()))
		}
		found([]string{session}, &inner.Skipped{Count: 7, Names: []string{"x: empty"}})
		if h := m.Health(); !h.OK() || h.Skipped != 7 || state(m.s.state.Load()) != stateSettled || !m.IsOwned(session) {
			t.Errorf("one good: %v, %v", h, state(m.s.state.Load()))
		}
		found(nil, errors.New("who knows"))
		if h := m.Health(); !h.OK() || !m.IsOwned(session) {
			t.Errorf("the last known stand: %v", h)
		}
	})
}

func TestNamedSessions(t *testing.T) {
	named := ManagerConfig{NamedSessions: true}
	for id, good := range map[string]bool{
		session: true, "north-1": true, strings.Repeat("x", 128): true, "a.b_c~!|": true,
		"": false, strings.Repeat("x", 129): false, "a b": false, "a:b": false, "a/b": false, "{a}": false, "é": false, "a\n": false,
	} {
		if err := named.checkSession(id); (err == nil) != good || err != nil && !errors.Is(err, ErrInvalidConfig) {
			t.Errorf("%q: %v", id, err)
		}
	}
}
