package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// A pipeline that is already stuck when its leases are lost keeps its worker from starting another one on the same service.
func TestStuckPipelineWhoseLeasesAreGone(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config("w1", "1", "2")
	cfg.StopTimeout = 50 * time.Millisecond
	r.run(cfg)
	r.shape = func(p *work) { p.deaf = true }
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	p := r.work(a)
	defer func() { p.ret <- nil }()
	r.client.Del(t.Context(), "intent:lease:resource:a", "intent:lease:slot:1", "intent:lease:slot:2")
	r.wait(a, intent.StateEnded, intent.ReasonPipelineFailed)
	r.wait(r.start("a", "hd"), intent.StateEnded, intent.ReasonLeaseBusy)
}

// A stuck pipeline may still work, so a single writer that begins meanwhile waits until its leases expire.
func TestSingleWriterWaitsForAStuckPipeline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.shape = func(p *work) { p.deaf = true }
	cfg := r.config("w1", "1")
	cfg.StopTimeout = 50 * time.Millisecond
	w := r.run(cfg)
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	p := r.work(a)
	defer func() { p.ret <- nil }()
	if err := w.Stop(); !errors.Is(err, ErrStuck) {
		t.Fatalf("stopped: %v, want that a pipeline is stuck", err)
	}
	left, stopped := r.client.PTTL(t.Context(), "intent:lease:resource:a").Val(), time.Now()
	single := r.config("w2", "1")
	single.SingleWriter = true
	r.run(single)
	if after := time.Since(stopped); left <= 0 || after < left {
		t.Errorf("the leases of a pipeline that may still work were freed after %v, want %v", after, left)
	}
}
