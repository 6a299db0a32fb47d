package worker

import (
	"context"
	"errors"
	"sync"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/callback"
	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/lease"
)

// task is what the worker runs for a session. The loop owns it.
type task struct {
	pipeline Pipeline
	started  bool // RUNNING was written
	over     bool
}

type (
	job  = membership.Job[*lease.Lease, task]
	jobs = membership.Jobs[*lease.Lease, task]
)

// newJobs returns the jobs, which execute the machine's effects. An effect that
// waits runs in a goroutine of its own and answers with an event.
// Config.Starting bounds the number of these goroutines; during a stop, the
// number of sessions does.
func (w *Worker) newJobs() jobs {
	return jobs{
		Member: w.member, Names: w.cfg.Store.Names, All: map[string]*job{},
		Go:      func(f func(context.Context)) { w.tasks.Go(func() { f(context.WithoutCancel(w.ctx)) }) },
		Acquire: func(e *core.Effect) { w.tasks.Go(func() { w.acquire(e) }) },
		Release: func(session string, holds []*lease.Lease) { w.tasks.Go(func() { w.release(session, holds) }) },
		Abandon: func(e *core.Effect, _ *job, holds []*lease.Lease) {
			for _, h := range holds {
				inner.OfLease(h).Abandon()
			}
			w.log.Error("a pipeline does not stop; its leases will expire", w.fields(e)...)
		},
		Wrote: func(e *core.Effect, ev core.Event, err error) {
			w.unwritten.Store(&err)
			w.loop.inbox.put(message{event: ev, f: func() { w.count(e, ev.Wrote) }})
		},
		Launch: w.launch,
		Halt: func(e *core.Effect, j *job) {
			p := j.Work.pipeline
			w.tasks.Go(func() { _ = w.call(w.log.Calls, e.Session, "Stop", func() error { p.Stop(); return nil }) })
		},
		Forget: func(e *core.Effect, j *job, stuck []*lease.Lease) {
			for _, h := range stuck {
				inner.OfLease(h).Recovered()
			}
			if j.Work.started && !j.Work.over {
				w.log.Warn("session ended here; its record is gone, or is another's", zap.String("session", e.Session),
					zap.String("worker", w.cfg.InstanceID))
			}
		},
		Drained: func(e *core.Effect) { w.drained <- *e },
	}
}

// Methods that package lease exposes only to its siblings.
type (
	adopter interface {
		Adopt(ctx context.Context, name, owner string) (*lease.Lease, error)
	}
	joint interface {
		With(ctx context.Context, others ...*lease.Lease) (_ context.Context, end context.CancelFunc)
	}
)

func (w *Worker) acquire(e *core.Effect) {
	var h *lease.Lease
	var err error
	if e.From != "" {
		h, err = inner.Of(w.keeper).(adopter).Adopt(w.ctx, e.Lease, e.From)
	} else {
		h, err = w.keeper.TryAcquire(w.ctx, e.Lease)
	}
	ev := core.Event{Kind: core.EvLease, Session: e.Session, Lease: e.Lease}
	var failed *lease.OpError
	_ = errors.As(err, &failed)
	switch {
	case err == nil:
		ev.Outcome, ev.Fence, ev.Until = core.Granted, h.Fence(), w.loop.at(inner.OfLease(h).WindowEnd())
	case errors.Is(err, lease.ErrHeld):
		ev.Outcome, ev.Owner = core.Held, failed.Owner
		if !failed.Until.IsZero() {
			ev.Wait = max(0, int64(w.loop.at(failed.Until)-w.loop.now()))
		}
	case errors.Is(err, lease.ErrQuarantine):
		ev.Outcome, ev.Wait = core.NotNow, int64(w.loop.at(failed.Until)-w.loop.now())
	case errors.Is(err, lease.ErrInvalidConfig):
		ev.Outcome, ev.Text = core.Refused, err.Error()
	default:
		ev.Outcome = core.NoAnswer
	}
	w.loop.inbox.put(message{event: w.member.Attempted(ev), f: func() { w.keep(e.Session, h) }})
}

func (w *Worker) keep(session string, h *lease.Lease) {
	if h != nil && !w.jobs.Keep(session, h) {
		h.Drop()
	}
}

// release releases all leases and waits for Redis' answers, for at most
// OpTimeout.
func (w *Worker) release(session string, holds []*lease.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(w.ctx), w.store.Options().OpTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, h := range holds {
		wg.Go(func() {
			if err := h.Release(ctx); err != nil {
				w.log.Info("release not confirmed; retrying until the lease expires", zap.String("session", session),
					zap.String("lease", h.Name()), zap.Error(err))
			}
		})
	}
	wg.Wait()
	w.loop.post(core.Event{Kind: core.EvReleased, Session: session})
}

var startOutcomes = map[core.Reason]string{
	core.LeaseBusy: "rejected_busy", core.NoSlot: "rejected_no_slot", core.LeaseLost: "failed", core.Stopped: "stopped",
	core.PipelineFailed: "failed",
}

func (w *Worker) count(e *core.Effect, wrote core.Wrote) {
	j := w.jobs.All[e.Session]
	if j == nil {
		return
	}
	if e.State == core.Ended && j.Work.started && wrote != core.WroteFailed {
		j.Work.over = true
		if wrote != core.WroteOK {
			w.log.Warn("session ended; its record had been ended, or is another's", w.fields(e)...)
		}
	}
	if wrote != core.WroteOK && wrote != core.WroteStop {
		return
	}
	switch {
	case e.State == core.Running && !j.Work.started:
		j.Work.started = true
		w.observe("started")
		w.log.Info("session runs", w.fields(e)...)
	case e.State == core.Ended:
		if !j.Work.started {
			w.observe(startOutcomes[e.Reason])
		}
		w.log.Info("session ended", w.fields(e)...)
	}
}

func (w *Worker) observe(outcome string) {
	if w.cfg.Observer != nil {
		callback.Tell(w.log.Calls, "Config.Observer", w.cfg.Observer.WorkerStart, outcome)
	}
}

func (w *Worker) fields(e *core.Effect) []zap.Field {
	return []zap.Field{
		zap.String("session", e.Session), zap.String("worker", w.cfg.InstanceID), zap.String("slot", e.Slot),
		zap.Int64("fence", e.Fence), zap.String("detail", e.Text),
		zap.String("reason", w.cfg.Store.Names.Table().Reason(string(e.Reason))),
	}
}

func (w *Worker) launch(e *core.Effect, j *job, resource, slot *lease.Lease) {
	told := core.Event{Kind: core.EvLaunched, Session: e.Session}
	what := Job{
		SessionID: e.Session, Request: j.Entry.Request, Worker: w.cfg.InstanceID, Slot: e.Slot, ResourceFence: e.Fence, SlotFence: e.SlotFence,
	}
	w.tasks.Go(func() {
		ctx, end := inner.Of(resource).(joint).With(context.Background(), slot)
		var p Pipeline
		failed := errExited // unless both return
		defer func() { w.launched(told, j, p, failed, end) }()
		calls := w.log.Calls
		err := w.call(calls, e.Session, "NewPipeline", func() error { p = w.cfg.NewPipeline(what); return nil })
		if err == nil && !(resource.Valid() && slot.Valid()) { // NewPipeline may have taken long
			err, told.Launch = errDoubt, core.LaunchDoubt
		}
		if err == nil {
			err = w.call(calls, e.Session, "Start", func() error { return p.Start(ctx, e.Fence) })
		}
		failed = err
	})
}

// launched reports the outcome of a pipeline's start, and waits for the end of
// a running one.
func (w *Worker) launched(told core.Event, j *job, p Pipeline, failed error, end func()) {
	session := told.Session
	if failed != nil {
		end()
		if told.Launch != core.LaunchDoubt {
			told.Launch, told.Text = core.LaunchFail, words(failed)
		}
		w.loop.inbox.put(message{event: told})
		return
	}
	told.Launch = core.LaunchOK
	w.loop.inbox.put(message{event: told, f: func() { j.Work.pipeline = p }})
	// A new goroutine, because this one's grown stack would never shrink while
	// the session runs.
	w.tasks.Go(func() { w.await(session, p, end) })
}

var errDoubt = errors.New("a lease is uncertain")

// errExited is the error of a pipeline's method that called runtime.Goexit, as
// FailNow in a test does.
var errExited = errors.New("the pipeline ended its goroutine")

func (w *Worker) await(session string, p Pipeline, end func()) {
	err := errExited // unless Wait returns
	defer func() {
		end()
		w.ended(session, err)
	}()
	err = w.call(nil, session, "Wait", p.Wait)
}

// ended is separate from await, as panicked is from call, to keep its variables
// off the 2 KiB stack of each running session.
//
//go:noinline
func (w *Worker) ended(session string, err error) {
	back := core.Event{Kind: core.EvReturned, Session: session}
	if err != nil {
		back.Text = words(err)
	}
	w.loop.inbox.put(message{event: back})
}

// wordsMax is how many bytes of a pipeline's error the session's detail keeps.
// Some errors quote all output of a program.
const wordsMax = 1 << 10

func words(err error) string { return plain.Text(plain.Cut(err.Error(), wordsMax)) }

// call calls a method of a pipeline, and logs a panic with its stack. calls is
// nil for a method that runs as long as the work.
func (w *Worker) call(calls *callback.Calls, session, method string, f func() error) error {
	err := calls.Call(method, w.cfg.StopTimeout, f)
	if callback.Stack(err) != nil {
		w.panicked(session, method, err)
	}
	return err
}

//go:noinline
func (w *Worker) panicked(session, method string, err error) {
	w.log.Error("a pipeline panicked", zap.String("session", session), zap.String("method", method), zap.NamedError("panic", err),
		zaplog.Stack(err))
}
