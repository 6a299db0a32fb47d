package worker

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// stalled is what a log is written to, and nobody reads until it is closed.
type stalled chan struct{}

func (s stalled) Write(b []byte) (int, error) { <-s; return len(b), nil }
func (stalled) Sync() error                   { return nil }

// A log that has stalled for good holds up no session and no lease, and a clean stop ends, and says so.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	log := make(stalled)
	defer close(log)
	cfg := r.config("w1", "1", "2")
	cfg.Logger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.Lock(log), zapcore.DebugLevel))
	w := r.run(cfg)
	for range 3 {
		a := r.start("a", "hd")
		r.wait(a, intent.StateRunning, "")
		r.stop(a)
		r.wait(a, intent.StateEnded, intent.ReasonStopped)
	}
	b := r.start("b", "hd")
	r.wait(b, intent.StateRunning, "")
	stopped := make(chan error, 1)
	go func() { stopped <- w.Stop() }()
	select {
	case err := <-stopped:
		if !errors.Is(err, lease.ErrStuck) {
			t.Errorf("stopped: %v; want that the log is stuck", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for the log")
	}
	r.idle()
}
