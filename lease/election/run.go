package election

import (
	"context"
	"errors"

	rules "github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/lease"
)

// Run makes this member take part in the election and calls f whenever the
// member leads, one call at a time, each with a higher fence. The context of f
// ends when ctx ends, when the trust window ends, or on Stop; context.Cause
// says which. f must send fence with every write. The member releases the
// leadership only after f has returned or panicked. After a loss of leadership,
// the member makes no attempt until f has returned. Run calls Start if nobody
// has, and Stop before it returns.
//
//	f returned while it led         Run returns f's error
//	the leadership was lost         Run waits for the next leadership and
//	                                calls f again; an error of f that is not
//	                                about its context is returned instead,
//	                                joined with lease.ErrLost
//	ctx ended, or Stop was called   Run returns nil once f has returned, or
//	                                an error of f that is not about its
//	                                context
//
// After ctx has ended, IsLeader stays true and the lease is renewed until f
// returns, so that nobody else does the work before. While f runs, only Stop
// and the trust window end the leadership.
//
// Run joins an error of Stop with each of these results. Other errors:
// ErrRunning if another Run is running; lease.ErrStopped if the member has
// stopped, in which case make another; lease.ErrInvalidConfig if f is nil. If
// Start fails with any other error, Run returns that error and may be called
// again.
func (e *Election) Run(ctx context.Context, f func(ctx context.Context, fence int64) error) (err error) {
	if f == nil {
		return configError("Run has no function to call")
	}
	terms := make(chan *lease.Lease, 1)
	e.g.mu.Lock()
	if e.terms != nil {
		e.g.mu.Unlock()
		return ErrRunning
	}
	e.terms = terms
	if e.m.Leads() {
		e.take()
	}
	e.g.mu.Unlock()
	started := false
	defer func() {
		e.g.mu.Lock()
		e.terms = nil
		e.g.step(e, rules.Input{Kind: rules.Done, Now: e.g.now()}) // for a leadership that no call of f began
		e.g.mu.Unlock()
		if started {
			err = errors.Join(err, e.Stop())
		}
	}()
	if err := e.Start(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	started = true
	for {
		select {
		case h := <-terms:
			if again, err := e.reign(ctx, h, f); !again {
				return err
			}
		case <-ctx.Done():
			return nil
		case <-e.life.Done():
			return nil
		}
	}
}

// reign calls f for one leadership. It reports whether another may follow.
func (e *Election) reign(ctx context.Context, h *lease.Lease, f func(context.Context, int64) error) (again bool, err error) {
	defer func() {
		e.g.mu.Lock()
		defer e.g.mu.Unlock()
		e.g.step(e, rules.Input{Kind: rules.Done, Now: e.g.now()})
	}()
	if h.Context().Err() != nil {
		return true, nil // ended before f began
	}
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, c := range []context.Context{h.Context(), e.life} {
		defer context.AfterFunc(c, func() { cancel(context.Cause(c)) })()
	}
	err = f(work, h.Fence())
	cause := context.Cause(work)
	if cause == nil { // another goroutine is about to end it
		cause = context.Cause(h.Context())
	}
	if cause == nil { // still leading: f decided to end
		return false, err
	}
	if err != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, cause)) {
		err = nil
	}
	if ctx.Err() != nil || e.life.Err() != nil {
		return false, err
	}
	if err != nil {
		return false, errors.Join(err, cause)
	}
	return true, nil
}
