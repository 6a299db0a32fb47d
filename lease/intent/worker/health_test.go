package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
)

// Health says why a worker processes no starts, and is ok again when Redis recovers.
func TestWorkerHealth(t *testing.T) {
	r := newRig(t)
	cfg := r.config("w1", "1")
	cfg.Logger = zap.NewNop()
	w := r.run(cfg)
	r.eventually("it is fit", func() bool { return w.Health().OK() })
	r.client.ConfigSet(t.Context(), "maxmemory", "1")
	r.eventually("the refusal is told", func() bool {
		h := w.Health()
		return h.State == lease.HealthRefused && errors.Is(h.Error(), redisstore.ErrRefused) && strings.Contains(h.String(), "OOM")
	})
	r.client.ConfigSet(t.Context(), "maxmemory", "0")
	r.eventually("it is fit again", func() bool { return w.Health().OK() })
	r.must(w.Stop())
	if h := w.Health(); h.State != lease.HealthStopped {
		t.Errorf("stopped: %v", h)
	}
}

// If Redis denies a running worker the bus, Health says so although the worker's beats succeed.
func TestWorkerThatIsDeniedTheBus(t *testing.T) {
	r := newRig(t)
	cfg := r.config("w1", "1")
	cfg.Logger = zap.NewNop()
	w := r.run(cfg)
	r.eventually("it is fit", func() bool { return w.Health().OK() })
	r.server.Do("ACL", "SETUSER", "default", "-xreadgroup")
	r.eventually("the denial is told", func() bool {
		h := w.Health()
		return h.State == lease.HealthRefused && errors.Is(h.Error(), redisstore.ErrRefused) && strings.Contains(h.String(), "xreadgroup")
	})
	r.server.Do("ACL", "SETUSER", "default", "+xreadgroup")
	r.eventually("it is fit again", func() bool { return w.Health().OK() })
}

// newWaiting returns a worker whose Start waits because Redis refuses its writes.
func newWaiting(t *testing.T) (*rig, *Worker) {
	r := newRig(t)
	cfg := r.config("w1", "1")
	cfg.Logger = zap.NewNop()
	w, err := New(r.client, cfg)
	r.must(err)
	r.client.ConfigSet(t.Context(), "maxmemory", "1")
	return r, w
}

// Stop ends a Start that would wait as long as Redis refuses.
func TestStopEndsAStartThatWaits(t *testing.T) {
	r, w := newWaiting(t)
	started := make(chan error, 1)
	go func() { started <- w.Start(context.Background()) }()
	r.eventually("it waits", func() bool { return w.Health().State == lease.HealthRefused })
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop() }()
	select {
	case err := <-started:
		if !errors.Is(err, ErrStopped) {
			t.Errorf("Start: %v, want ErrStopped", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Start waits on")
	}
	r.must(<-stopped)
}

// If ctx ends a waiting Start, the error says what Start waited for. After a successful Start, ctx has no effect.
func TestWorkerStartIsBoundedByItsContext(t *testing.T) {
	r, w := newWaiting(t)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := w.Start(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Start: %v, want the end of its context and OOM", err)
	}
	r.client.ConfigSet(t.Context(), "maxmemory", "0")
	ctx, cancel = context.WithCancel(t.Context())
	r.must(w.Start(ctx))
	cancel()
	r.eventually("it is fit", func() bool { return w.Health().OK() })
	r.must(w.Stop())
}

// eventually waits for a condition that nothing announces.
func (r *rig) eventually(what string, is func() bool) {
	r.Helper()
	redistest.Eventually(r, what, is)
}
