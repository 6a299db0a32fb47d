package worker

import (
	"sync/atomic"
	"testing"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// rude is an observer that panics.
type rude struct{ intent.Observer }

func (rude) WorkerStart(string) { panic("an observer") }

// If NewPipeline panics, its session fails. A listener that panics affects only itself.
func TestPipelineThatCannotBeMade(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	cfg := r.config("w1", "1")
	cfg.Observer, cfg.Notify = rude{}, func(lease.Event) { panic("a listener") }
	whole := cfg.NewPipeline
	var broken atomic.Bool
	broken.Store(true)
	cfg.NewPipeline = func(j Job) Pipeline {
		if broken.Swap(false) {
			panic("no pipeline")
		}
		return whole(j)
	}
	w := r.run(cfg)
	a := r.start("a", "hd")
	r.wait(a, intent.StateEnded, intent.ReasonPipelineFailed)
	b := r.start("a", "hd")
	r.wait(b, intent.StateRunning, "")
	r.must(r.client.Del(t.Context(), "intent:lease:slot:1").Err())
	<-r.work(b).quit // the loss was reported
	r.wait(b, intent.StateEnded, intent.ReasonLeaseLost)
	r.must(w.Stop())
	r.idle()
}
