// Package lifetime is about what is started once and stopped once, whoever asks for it and how often.
package lifetime

import (
	"context"
	"errors"
	"sync"
)

// Lifetime is that of one thing. It is made with New, and safe for concurrent use.
type Lifetime struct {
	mu      sync.Mutex // held while it is being started
	started bool
	stopped bool // or is being stopped
	err     error
	done    chan struct{}
}

// New returns the lifetime of something that is not started.
func New() *Lifetime { return &Lifetime{done: make(chan struct{})} }

// Start calls start, unless a call of it has returned nil before. Once Stop was called it returns over instead.
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

// State reports whether it was started, and whether Stop was called. It waits for a start under way.
func (l *Lifetime) State() (started, stopped bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started, l.stopped
}

// Stop calls stop, which is told whether there was a start, the first time only. Every call waits for its end and returns its error. It
// waits for a start under way first.
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

// Run calls start, waits until ctx ends or Stop was called, and returns the error of stop. It returns an error of start, unless that is the
// end of ctx: a requested stop is no error.
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

// Done is closed when everything has ended.
func (l *Lifetime) Done() <-chan struct{} { return l.done }
