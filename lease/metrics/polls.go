package metrics

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasestorm/leasestorm/lease/poll"
)

// Results of polls.
const (
	pollDone        = "done"
	pollFailed      = "failed"
	pollTimeout     = "timeout"     // poll.Config.Timeout ended its context before it returned an error
	pollInterrupted = "interrupted" // its lease or a stop ended its context
	pollFenced      = "fenced"
	pollPanicked    = "panicked"
)

// Poll registers the collectors of a poll function and returns a counted
// version of it, for poll.Config.Poll. A panic passes through. The error is the
// registry's.
func Poll(r prometheus.Registerer, f func(context.Context, poll.Session) error) (func(context.Context, poll.Session) error, error) {
	polls := counters("polls_total", "Polls of sessions.", "result")
	took := histogram("poll_seconds", "How long a poll took.", windows)
	for _, result := range []string{pollDone, pollFailed, pollTimeout, pollInterrupted, pollFenced, pollPanicked} {
		polls.WithLabelValues(result)
	}
	for i, c := range []prometheus.Collector{polls, took} {
		if err := r.Register(c); err != nil {
			if i > 0 {
				r.Unregister(polls)
			}
			return nil, err
		}
	}
	return func(ctx context.Context, s poll.Session) error {
		began, result := time.Now(), pollPanicked
		defer func() {
			took.Observe(time.Since(began).Seconds())
			polls.WithLabelValues(result).Inc()
		}()
		err := f(ctx, s)
		result = resultOf(ctx, err)
		return err
	}, nil
}

func resultOf(ctx context.Context, err error) string {
	switch {
	case err == nil:
		return pollDone
	case errors.Is(err, poll.ErrFenced):
		return pollFenced
	case ctx.Err() == nil:
		return pollFailed
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return pollTimeout
	}
	return pollInterrupted
}
