package leasetest_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/leasetest"
	"github.com/leasestorm/leasestorm/lease/poll"
)

// stalled is what a log is written to, and nobody reads until it is closed.
type stalled chan struct{}

func (s stalled) Write(b []byte) (int, error) { <-s; return len(b), nil }
func (stalled) Sync() error                   { return nil }

// IDs of sessions: one whose polls end, one whose polls are cut off, and one whose poll does not return.
const (
	good   = session
	cutOff = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d5f"
	deaf   = "0190a8c2-8f5e-4c2a-9d7e-3b1f6a2c4d60"
)

// stuckSystem is one that takes part already: whether it holds what it should, and how it is stopped.
type stuckSystem struct {
	holds func() bool
	stop  func() error
}

func panics(e lease.Event) {
	if e.Kind%2 == 0 {
		runtime.Goexit()
	}
	panic("a listener")
}

// stuckSystems are all that hold leases, each with listeners that panic, or end their goroutines, so that there is something to log everywhere.
var stuckSystems = map[string]func(t *testing.T, r *leasetest.Redis, log *zap.Logger, end <-chan struct{}) stuckSystem{
	"keeper": func(t *testing.T, r *leasetest.Redis, log *zap.Logger, _ <-chan struct{}) stuckSystem {
		k, err := lease.NewKeeper(r.Client(), lease.Config{InstanceID: "a", Logger: log, Notify: panics})
		must(t, err, func() error { return k.Start(t.Context()) })
		h := acquired(t, k)
		return stuckSystem{h.Valid, func() error { h.Drop(); return k.Stop() }}
	},
	"manager": func(t *testing.T, r *leasetest.Redis, log *zap.Logger, _ <-chan struct{}) stuckSystem {
		m, err := lease.New(r.Client(), lease.Config{InstanceID: "a", Logger: log, Sessions: func(context.Context) ([]string, error) {
			return []string{good, "malformed"}, nil
		}})
		must(t, err, func() error { return m.Start(t.Context()) })
		m.Subscribe(panics)
		return stuckSystem{func() bool { return m.IsOwned(good) }, m.Stop}
	},
	"poller": func(t *testing.T, r *leasetest.Redis, log *zap.Logger, end <-chan struct{}) stuckSystem {
		for _, id := range []string{good, cutOff, deaf} {
			must(t, r.Client().Set(t.Context(), "session:"+id, `{"id":"`+id+`"}`, 0).Err())
		}
		var polls atomic.Int64
		m, err := poll.New(r.Client(), lease.Config{InstanceID: "a", Logger: log}, poll.Config{Notify: panics,
			Poll: func(ctx context.Context, s poll.Session) error {
				switch s.ID {
				case cutOff:
					<-ctx.Done()
				case deaf:
					<-end
				default:
					polls.Add(1)
				}
				return ctx.Err()
			}})
		must(t, err, func() error { return m.Start(t.Context()) })
		return stuckSystem{func() bool {
			before := polls.Load()
			pass(time.Minute)
			return polls.Load() > before && m.Leases().IsOwned(good)
		}, m.Stop}
	},
	"member": func(t *testing.T, r *leasetest.Redis, log *zap.Logger, _ <-chan struct{}) stuckSystem {
		e, err := election.New(r.Client(), election.Config{InstanceID: "a", Logger: log, Notify: panics,
			Observe: func(e election.Event) { panics(lease.Event{Kind: lease.EventKind(e.Kind)}) }})
		must(t, err, func() error { return e.Start(t.Context()) })
		return stuckSystem{e.IsLeader, e.Stop}
	},
}

func must(t *testing.T, err error, then ...func() error) {
	t.Helper()
	for _, f := range then {
		if err == nil {
			err = f()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestLogThatNobodyReads: a log that has stalled for good holds up no lease, and a clean stop ends, gives back, and says so.
func TestLogThatNobodyReads(t *testing.T) {
	for name, begin := range stuckSystems {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := bootstrapped(t)
				must(t, election.Bootstrap(t.Context(), r.Client(), election.Config{}))
				log, end := make(stalled), make(chan struct{})
				logger := zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(log), zapcore.DebugLevel))
				s := begin(t, r, logger, end)
				pass(5 * lease.TTLDefault)
				if !s.holds() {
					t.Error("it holds its lease no more")
				}
				began := time.Now()
				err := s.stop()
				if took := time.Since(began); took > lease.TTLDefault || !errors.Is(err, lease.ErrStuck) || !strings.Contains(err.Error(), "log") {
					t.Errorf("stopped after %v: %v", took, err)
				}
				if left := r.Client().Exists(t.Context(), job, "poll:lease:"+good, election.LeaderKeyDefault).Val(); left > 0 {
					t.Errorf("%d leases are left", left)
				}
				close(end)
				close(log)
			})
		})
	}
}

// TestCallbackThatNeverReturns: a Stop ends all the same and names it, and Health says that it is not known any more which sessions there are.
func TestCallbackThatNeverReturns(t *testing.T) {
	for name, cfg := range map[string]func(never <-chan struct{}) lease.Config{
		"Config.Sessions": func(never <-chan struct{}) lease.Config {
			return lease.Config{Sessions: func(context.Context) ([]string, error) { <-never; return nil, nil }}
		},
		"Config.Notify": func(never <-chan struct{}) lease.Config {
			return lease.Config{Notify: func(lease.Event) { <-never }, Sessions: func(context.Context) ([]string, error) { return []string{good}, nil }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, never := bootstrapped(t), make(chan struct{})
				c := cfg(never)
				c.InstanceID, c.Logger = "a", zap.NewNop()
				m, err := lease.New(r.Client(), c)
				must(t, err, func() error { return m.Start(t.Context()) })
				pass(lease.TTLDefault)
				h := m.Health()
				if name == "Config.Sessions" && (h.State != lease.HealthSessionsRefused || !strings.Contains(h.Reason, "has not returned")) {
					t.Errorf("Health: %v", h)
				}
				began := time.Now()
				err = m.Stop()
				if took := time.Since(began); took > lease.RenewIntervalDefault+2*time.Second || !errors.Is(err, lease.ErrStuck) ||
					!strings.Contains(err.Error(), name) {
					t.Errorf("stopped after %v: %v", took, err)
				}
				close(never)
			})
		})
	}
}
