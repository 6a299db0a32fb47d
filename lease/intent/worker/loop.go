package worker

import (
	"context"
	"sync"
	"time"

	leasecore "github.com/leasestorm/leasestorm/internal/core"
	core "github.com/leasestorm/leasestorm/internal/core/intent"
)

// signal wakes one goroutine. Several signals that it has not received yet
// count as one.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// loop gives the machine one event after the other.
type loop struct {
	machine *core.Machine
	carry   func(core.Effect)
	base    time.Time // zero of the machine's clock
	idle    signal    // the machine can accept more starts
	inbox   inbox
}

func newLoop(cfg core.Config, carry func(core.Effect)) *loop {
	return &loop{
		machine: core.New(cfg), carry: carry, base: time.Now().Add(-1), idle: newSignal(), inbox: inbox{wake: newSignal()},
	}
}

func (l *loop) now() leasecore.Time { return l.at(time.Now()) }

func (l *loop) at(t time.Time) leasecore.Time { return leasecore.Time(t.Sub(l.base)) }

func (l *loop) post(e core.Event) { l.inbox.put(message{event: e}) }

// query runs f in the loop and waits for it. It returns false if ctx ends
// before, and f may run later.
func (l *loop) query(ctx context.Context, f func(*core.Machine)) bool {
	done := make(chan struct{})
	l.inbox.put(message{f: func() {
		f(l.machine)
		close(done)
	}})
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// run returns when the inbox is closed.
func (l *loop) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-l.inbox.wake:
		case <-timer.C:
			l.step(core.Event{Kind: core.EvTick})
		}
		if closed := l.drain(); closed {
			return
		}
		if l.machine.Idle() {
			l.idle.raise()
		}
		if next := l.machine.Next(); next != 0 {
			timer.Reset(max(0, time.Duration(next-l.now())))
		} else {
			timer.Reset(time.Hour)
		}
	}
}

// drain handles messages until there are none, and reports whether the inbox is
// closed.
func (l *loop) drain() (closed bool) {
	for {
		batch, closed := l.inbox.take()
		for i := range batch {
			if batch[i].f != nil {
				batch[i].f()
			}
			if batch[i].event.Kind != 0 {
				l.step(batch[i].event)
			}
		}
		if closed || len(batch) == 0 {
			return closed
		}
	}
}

func (l *loop) step(e core.Event) {
	e.Now = l.now()
	effects := l.machine.Step(e)
	for i := range effects {
		l.carry(effects[i])
	}
}

// inbox passes events and functions to the loop and never blocks the sender.
type inbox struct {
	mu     sync.Mutex
	items  []message
	closed bool
	wake   signal
}

// message is one item for the loop: f runs before the machine gets event.
type message struct {
	f     func()
	event core.Event
}

func (b *inbox) put(m message) {
	b.mu.Lock()
	if !b.closed {
		b.items = append(b.items, m)
	}
	b.mu.Unlock()
	b.wake.raise()
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.wake.raise()
}

// take frees the queue's memory, which would otherwise keep the size of the
// largest burst.
func (b *inbox) take() (items []message, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, b.items = b.items, nil
	return items, b.closed
}
