package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// A stop while Redis refuses or is away blames Redis, not the pipeline that returned at once. It does not wait for answers that will not
// come.
func TestStopWithoutRedis(t *testing.T) {
	for words, begin := range map[string]func(*redistest.Server){
		"NOREPLICAS":         func(s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "1") },
		"connection refused": (*redistest.Server).Kill,
	} {
		t.Run(words, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			cfg := r.config("w1", "1")
			cfg.Logger = zap.NewNop()
			cfg.Store.OpTimeout = 500 * time.Millisecond
			w := r.run(cfg)
			a := r.start("a", "hd")
			r.wait(a, intent.StateRunning, "")
			begin(r.server)
			at := time.Now()
			err := w.Stop()
			if errors.Is(err, ErrStuck) || !errors.Is(err, inner.ErrUnknown) || !strings.Contains(err.Error(), words) ||
				errors.Is(err, redisstore.ErrRefused) != (words == "NOREPLICAS") {
				t.Errorf("Stop: %v", err)
			}
			if d := time.Since(at); d >= options.Leases.TTL {
				t.Errorf("Stop took %v, want some time-outs of %v and not StopTimeout, %v", d, cfg.Store.OpTimeout, options.Leases.TTL)
			}
		})
	}
}

// lingering is a pipeline that reports a requested stop and keeps running.
type lingering struct {
	*work
	stop chan struct{}
}

func (p lingering) Stop() { close(p.stop) }

// While a worker waits for a pipeline to end, other workers begin the new starts.
func TestWorkerThatStopsTakesNothing(t *testing.T) {
	r := newRig(t)
	cfg := r.config("w1", "1", "2", "3", "4")
	stop, plain := make(chan struct{}), cfg.NewPipeline
	cfg.NewPipeline = func(j Job) Pipeline { return lingering{plain(j).(*work), stop} }
	first := r.run(cfg)
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	second := r.run(r.config("w2", "1", "2", "3", "4"))
	stopped := make(chan error, 1)
	go func() { stopped <- first.Stop() }()
	<-stop
	for _, ref := range []string{"b", "c", "d"} {
		if s := r.wait(r.start(ref, "hd"), intent.StateRunning, ""); s.Worker != second.InstanceID() {
			t.Errorf("%+v", s)
		}
	}
	select {
	case err := <-stopped:
		t.Errorf("the first had stopped by then: %v", err)
	default:
	}
	r.work(a).ret <- nil
	r.must(<-stopped)
}

// The worker's own write shows it that Redis grants leases again.
func TestWorkerHealthHearsOfItsBeat(t *testing.T) {
	r := newRig(t)
	cfg := r.config("w1", "1")
	cfg.Logger = zap.NewNop()
	w := r.run(cfg)
	r.client.ConfigSet(t.Context(), "min-replicas-to-write", "1")
	_, err := w.keeper.TryAcquire(t.Context(), "job")
	at := time.Now()
	if !errors.Is(err, redisstore.ErrRefused) || w.Health().State != lease.HealthRefused {
		t.Fatalf("%v; %v", err, w.Health())
	}
	r.client.ConfigSet(t.Context(), "min-replicas-to-write", "0")
	r.eventually("it is fit", func() bool { return w.Health().OK() })
	if d := time.Since(at); d > 2*time.Second { // beats come every tenth of the TTL; without one, Health forgets the refusal after 3.6 s
		t.Errorf("fit %v after the refusal, want at the next beat", d)
	}
}

// beatHeld is a hook that delays the first heartbeat of a worker after it was armed.
type beatHeld struct {
	armed        atomic.Bool
	begun, going chan struct{}
}

func (*beatHeld) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *beatHeld) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.Contains(fmt.Sprint(cmd.Args()...), `{"name":"w1"`) && h.armed.CompareAndSwap(true, false) {
			close(h.begun)
			<-h.going
		}
		return next(ctx, cmd)
	}
}

func (*beatHeld) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A heartbeat without an answer does not delay the release of leases.
func TestBeatDoesNotHoldUpTheLeases(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	h := &beatHeld{begun: make(chan struct{}), going: make(chan struct{})}
	cfg := r.config("w1", "1")
	cfg.Store.Leases.Hooks = []redis.Hook{h}
	w := r.run(cfg)
	h.armed.Store(true)
	<-h.begun
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop() }()
	r.eventually("the leases are given back", func() bool { return inner.Of(w.keeper).(interface{ Stopped() bool }).Stopped() })
	close(h.going)
	r.must(<-stopped)
}

// Run returns nil if a stop comes while the worker runs, or while it waits for a Redis that refuses.
func TestRunReturnsNilAfterARequestedStop(t *testing.T) {
	for _, state := range []string{lease.HealthRefused, lease.HealthOK} {
		r, w := newWaiting(t)
		if state == lease.HealthOK {
			r.client.ConfigSet(t.Context(), "maxmemory", "0")
		}
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		r.eventually(state, func() bool { return w.Health().State == state })
		cancel()
		if err := <-ran; err != nil {
			t.Errorf("Run while %v: %v", state, err)
		}
	}
}
