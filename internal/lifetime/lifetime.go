// Package lifetime makes Start and Stop of a service idempotent and safe for concurrent use.
package lifetime

import (
	"context"
	"errors"
	"sync"
)

// Lifetime is the lifetime of one service. Use New to create one. Safe for concurrent use.
type Lifetime struct {
	mu      sync.Mutex // held during Start
	started bool
	stopped bool // Stop was called
	err     error
	done    chan struct{}
}

// New returns the Lifetime of a service that has not started.
func New() *Lifetime { return &Lifetime{done: make(chan struct{})} }

// Start calls start and returns its error, unless an earlier start has succeeded. After Stop was called, it returns over instead.
func (l *Lifetime) Start(over error, start func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.stopped:
		return over
	case l.started:
		return nil
	}
	err := start()
	l.started = err == nil
	return err
}

// State reports whether the service was started, and whether Stop was called. It waits for a Start under way.
func (l *Lifetime) State() (started, stopped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started, l.stopped
}

// Stop waits for a Start under way and then calls stop, only the first time. started is whether the service was started. Every call of
// Stop waits until stop has returned, and returns its error.
func (l *Lifetime) Stop(stop func(started bool) error) error {
	l.mu.Lock()
	first, started := !l.stopped, l.started
	l.stopped = true
	l.mu.Unlock()
	if first {
		defer close(l.done)
		l.err = stop(started)
		return l.err
	}
	<-l.done
	return l.err
}

// Run calls start, waits until ctx ends or the service has stopped, then calls stop and returns its error. If start fails, Run returns
// that error without calling stop. If start fails because ctx has ended, Run calls stop: a requested stop is not an error.
func (l *Lifetime) Run(ctx context.Context, start func(context.Context) error, stop func() error) error {
	err := start(ctx)
	switch {
	case err == nil:
		select {
		case <-ctx.Done():
		case <-l.done:
		}
	case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx))):
	default:
		return err
	}
	return stop()
}

// Done returns a channel that is closed when the stop function has returned.
func (l *Lifetime) Done() <-chan struct{} { return l.done }
