package leasetest_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
	"github.com/leasestorm/leasestorm/lease/leasetest"
	"github.com/leasestorm/leasestorm/lease/poll"
)

const good = session

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

// TestCallbackThatNeverReturns: Stop still ends and names the callback, and Health says that the current sessions are unknown.
func TestCallbackThatNeverReturns(t *testing.T) {
	for name, cfg := range map[string]func(never <-chan struct{}) lease.ManagerConfig{
		"Config.Sessions": func(never <-chan struct{}) lease.ManagerConfig {
			return lease.ManagerConfig{Sessions: func(context.Context) ([]string, error) { <-never; return nil, nil }}
		},
		"Config.Notify": func(never <-chan struct{}) lease.ManagerConfig {
			return lease.ManagerConfig{Config: lease.Config{Notify: func(lease.Event) { <-never }},
				Sessions: func(context.Context) ([]string, error) { return []string{good}, nil }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, never := leasetest.New(t), make(chan struct{})
				c := cfg(never)
				c.InstanceID, c.Logger = "a", zap.NewNop()
				m, err := lease.NewManager(r.Client(), c)
				must(t, err, func() error { return m.Start(t.Context()) })
				pass(2 * lease.DefaultTTL)
				h := m.Health()
				if h.State != lease.HealthBlocked || !strings.Contains(h.Reason, name+" has not returned") {
					t.Errorf("Health: %v", h)
				}
				began := time.Now()
				err = m.Stop()
				if took := time.Since(began); took > lease.DefaultRenewInterval+2*time.Second || !errors.Is(err, inner.ErrStuck) ||
					!strings.Contains(err.Error(), name) {
					t.Errorf("stopped after %v: %v", took, err)
				}
				close(never)
			})
		})
	}
}

// TestEveryFunctionThatBlocks: if a function of the user blocks, Health stops being ok within three TTLs, the log names the function once,
// and Health is ok again afterwards.
func TestEveryFunctionThatBlocks(t *testing.T) {
	for name, tt := range blocking {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, b := leasetest.New(t), &block{}
				core, logs := observer.New(zap.InfoLevel)
				if name == "the Logger" {
					core = zapcore.RegisterHooks(core, func(zapcore.Entry) error { b.call(); return nil })
				}
				cfg := lease.Config{InstanceID: "a", Logger: zap.New(core)}
				i := tt(t, r, cfg, b)
				must(t, i.Start(t.Context()))
				pass(lease.DefaultTTL)
				if h := i.Health(); !h.OK() {
					t.Fatalf("before: %v", h)
				}
				b.begin()
				began := time.Now()
				for i.Health().State != lease.HealthBlocked && time.Since(began) < 3*lease.DefaultTTL {
					pass(time.Second)
				}
				for range 3 {
					if h := i.Health(); h.State != lease.HealthBlocked || !strings.Contains(h.Reason, name+" has not returned since ") {
						t.Errorf("%v after it began to block: %v", time.Since(began), h)
					}
					pass(lease.DefaultTTL)
				}
				b.end()
				pass(2 * lease.DefaultTTL)
				if h := i.Health(); !h.OK() {
					t.Errorf("afterwards: %v", h)
				}
				must(t, i.Stop())
				warned := logs.FilterField(zap.String("event", "blocked")).All()
				if len(warned) != 1 || !strings.Contains(fmt.Sprint(warned[0].ContextMap()["error"]), name+" has not returned") {
					t.Errorf("%d warnings: %+v", len(warned), warned)
				}
			})
		})
	}
}

// block makes a function wait from begin to end.
type block struct{ until atomic.Pointer[chan struct{}] }

func (b *block) begin() { until := make(chan struct{}); b.until.Store(&until) }
func (b *block) end()   { close(*b.until.Swap(nil)) }

func (b *block) call() {
	if until := b.until.Load(); until != nil {
		<-*until
	}
}

type instance interface {
	Start(context.Context) error
	Stop() error
	Health() lease.Health
}

// blocking makes an instance that calls this function again and again.
var blocking = map[string]func(*testing.T, *leasetest.Redis, lease.Config, *block) instance{
	"Config.Notify": func(t *testing.T, r *leasetest.Redis, cfg lease.Config, b *block) instance {
		cfg.Notify = func(e lease.Event) {
			if b.call(); e.Kind == lease.EventYield {
				e.Lease.Drop()
			}
		}
		return shared(t, r.Client(), cfg)
	},
	"Config.Sessions": func(t *testing.T, r *leasetest.Redis, cfg lease.Config, b *block) instance {
		m, err := lease.NewManager(r.Client(), lease.ManagerConfig{Config: cfg,
			Sessions: func(context.Context) ([]string, error) { b.call(); return []string{good}, nil }})
		must(t, err)
		return m
	},
	"a function given to Subscribe": func(t *testing.T, r *leasetest.Redis, cfg lease.Config, b *block) instance {
		m := shared(t, r.Client(), cfg)
		m.Subscribe(func(lease.Event) { b.call() })
		return m
	},
	"the Logger": func(t *testing.T, r *leasetest.Redis, cfg lease.Config, _ *block) instance {
		return shared(t, r.Client(), cfg)
	},
	"the leasetest_test.slow of Config.Hooks": func(t *testing.T, r *leasetest.Redis, cfg lease.Config, b *block) instance {
		cfg.Hooks = []redis.Hook{slow{b}, around{}}
		return shared(t, r.Client(), cfg)
	},
	"the client's Dialer": func(t *testing.T, r *leasetest.Redis, cfg lease.Config, b *block) instance {
		opt := *r.Client().Options()
		dial := opt.Dialer
		opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
			b.call()
			return dial(ctx, network, addr)
		}
		opt.ConnMaxLifetime = lease.DefaultRenewInterval / 2 // so that it dials again
		client := redis.NewClient(&opt)
		t.Cleanup(func() { _ = client.Close() })
		return shared(t, client, cfg)
	},
	"a function given to Election.Subscribe": func(t *testing.T, r *leasetest.Redis, cfg lease.Config, b *block) instance {
		e := candidate(t, r, cfg, election.Config{})
		e.Subscribe(func(election.Event) { b.call() })
		time.AfterFunc(lease.DefaultTTL+time.Second, func() {
			r.Client().Set(context.Background(), e.Key(), "another", time.Second)
		})
		return e
	},
	"Config.Decode": func(t *testing.T, r *leasetest.Redis, cfg lease.Config, b *block) instance {
		write(t, r)
		m, err := poll.New(r.Client(), cfg, poll.Config{Poll: func(context.Context, poll.Session) error { return nil },
			Decode: func(string, []byte) (bool, error) { b.call(); return false, nil }})
		must(t, err)
		time.AfterFunc(lease.DefaultTTL+time.Second, func() {
			r.Client().Set(context.Background(), "session:"+session, "another", 0)
		})
		return m
	},
}

func shared(t *testing.T, client *redis.Client, cfg lease.Config) *lease.Manager {
	t.Helper()
	m, err := lease.NewManager(client, lease.ManagerConfig{Config: cfg,
		Sessions: func(context.Context) ([]string, error) { return []string{good}, nil }})
	must(t, err)
	return m
}

func candidate(t *testing.T, r *leasetest.Redis, l lease.Config, cfg election.Config) *election.Election {
	t.Helper()
	cfg.InstanceID, cfg.Logger, cfg.LeaderTTL = l.InstanceID, l.Logger, lease.DefaultTTL
	must(t, admin.Bootstrap(t.Context(), r.Client(), cfg))
	e, err := election.New(r.Client(), cfg)
	must(t, err)
	return e
}

// slow is a hook that blocks before a command; around is one that a slow client blocks.
type (
	slow   struct{ *block }
	around struct{}
)

func (slow) DialHook(next redis.DialHook) redis.DialHook { return next }
func (s slow) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { s.call(); return next(ctx, cmd) }
}
func (slow) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (around) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (around) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (around) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
