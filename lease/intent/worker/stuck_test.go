package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// A pipeline that is stuck when its leases are lost already keeps its worker from a second one of the same service (I1).
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

// What is left to expire with a stuck pipeline is not freed by a single writer that begins meanwhile: the pipeline may still work.
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
