package worker

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// exits is a pipeline whose Wait ends its goroutine instead of returning.
type exits struct{ *work }

func (p exits) Wait() error {
	p.rig.leave(p.work)
	runtime.Goexit()
	return nil
}

// change sets the defect of the next pipelines.
func (r *rig) change(shape func(*work)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shape = shape
}

// Whatever a pipeline's error is, and even if Wait does not return one, the session ends with a readable detail.
func TestErrorsOfPipelinesAreTold(t *testing.T) { // I3
	t.Parallel()
	r := newRig(t)
	cfg := r.config("w1", "1")
	whole := cfg.NewPipeline
	cfg.NewPipeline = func(j Job) Pipeline {
		if j.Profile == "exits" {
			return exits{whole(j).(*work)}
		}
		return whole(j)
	}
	r.run(cfg)
	ends := func(id, want string) {
		t.Helper()
		if s := r.wait(id, intent.StateEnded, intent.ReasonPipelineFailed); !strings.HasPrefix(s.Detail, want) || len(s.Detail) > 2*wordsMax {
			t.Errorf("a detail of %d bytes, %.100q; want %q and at most %d", len(s.Detail), s.Detail, want, 2*wordsMax)
		}
	}
	long := errors.New("failed:\n" + strings.Repeat("x", 20_000))
	for _, c := range []struct {
		err  error
		want string
	}{{errors.New("short"), "short"}, {long, `failed:\u000axx`}} {
		r.change(func(p *work) { p.fail = c.err })
		ends(r.start("a", "hd"), c.want)
		r.change(nil)
		b := r.start("a", "hd")
		r.wait(b, intent.StateRunning, "")
		r.work(b).ret <- c.err
		ends(b, c.want)
	}
	ends(r.start("a", "exits"), errExited.Error())
	r.idle()
}

// If NewPipeline does not return, only its own session is affected. A stop of this session ends like that of a stuck pipeline.
func TestPipelineThatIsNeverMade(t *testing.T) { // I3
	t.Parallel()
	r := newRig(t)
	cfg := r.config("w1", "1", "2")
	cfg.StopTimeout = 50 * time.Millisecond
	whole := cfg.NewPipeline
	hung := make(chan struct{})
	cfg.NewPipeline = func(j Job) Pipeline {
		if j.Resource == "hangs" {
			<-hung
		}
		return whole(j)
	}
	w := r.run(cfg)
	a := r.start("a", "hd")
	r.wait(a, intent.StateRunning, "")
	b := r.start("hangs", "hd")
	r.wait(b, intent.StateStarting, "")
	r.stop(a)
	r.wait(a, intent.StateEnded, intent.ReasonStopped)
	r.stop(b)
	r.wait(b, intent.StateEnded, intent.ReasonPipelineFailed)
	if r.client.Exists(t.Context(), "intent:lease:resource:hangs").Val() != 1 {
		t.Error("the leases of a pipeline that may still begin were given back")
	}
	r.wait(r.start("c", "hd"), intent.StateRunning, "")
	close(hung) // the pipeline is made at last, but must not start without leases
	r.eventually("its service is free", func() bool { return r.client.Exists(t.Context(), "intent:lease:resource:hangs").Val() == 0 })
	r.wait(r.start("hangs", "hd"), intent.StateRunning, "")
	if r.work(b) != nil {
		t.Error("a pipeline was started without its leases")
	}
	r.must(w.Stop())
}

// If NewPipeline or Start does not return and the leases are lost, the session ends like one with a stuck pipeline. Others get its place,
// but its service stays busy here until the call returns.
func TestStartThatHangsWithoutItsLeases(t *testing.T) { // I1, I3
	t.Parallel()
	for _, where := range []string{"NewPipeline", "Start"} {
		r := newRig(t)
		cfg := r.config("w1", "1", "2")
		cfg.StopTimeout, cfg.Starting = 50*time.Millisecond, 1
		whole := cfg.NewPipeline
		hung := make(chan struct{})
		cfg.NewPipeline = func(j Job) Pipeline {
			switch p := whole(j); {
			case j.Resource != "a":
				return p
			case where == "Start":
				return hangs{p, hung}
			default:
				<-hung
				return p
			}
		}
		w := r.run(cfg)
		a := r.start("a", "hd")
		r.wait(a, intent.StateStarting, "")
		b := r.start("b", "hd")
		r.must(r.client.Del(t.Context(), "intent:lease:resource:a", "intent:lease:slot:1").Err())
		r.wait(a, intent.StateEnded, intent.ReasonPipelineFailed)
		r.wait(b, intent.StateRunning, "")
		r.wait(r.start("a", "hd"), intent.StateEnded, intent.ReasonLeaseBusy)
		close(hung)
		r.must(w.Stop())
	}
}

// hangs is a pipeline whose Start returns when hung is closed.
type hangs struct {
	Pipeline
	hung chan struct{}
}

func (p hangs) Start(ctx context.Context, fence int64) error {
	<-p.hung
	return p.Pipeline.Start(ctx, fence)
}
