// Package callback calls functions of the user. A function that panics or ends its goroutine harms no other code.
package callback

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"
)

// Exited replaces the panic value of a function that ended its goroutine, as FailNow of a test does.
const Exited = "it ended its goroutine (runtime.Goexit)"

// Tell calls f with each item of what, in order, and waits until all calls have returned; a nil f is not called. A call that panics or ends
// its goroutine goes to c.Panicked with name, and Tell continues with the next item. f runs in a goroutine of its own, which it may end.
func Tell[T any](c *Calls, name string, f func(T), what ...T) {
	for f != nil && len(what) > 0 {
		told, over := 0, make(chan struct{})
		running := c.Begin(name, 0)
		go func() {
			defer close(over)
			for told < len(what) {
				told++
				guarded(func() { f(what[told-1]) }, func(with any) { c.Panicked(name, with) })
			}
		}()
		<-over
		running.End()
		what = what[told:]
	}
}

// guarded calls f. If f does not return normally, guarded calls failed with the panic value, or with Exited.
func guarded(f func(), failed func(with any)) {
	returned := false
	defer func() {
		if returned {
			return
		}
		with := recover()
		if with == nil {
			with = Exited
		}
		failed(with)
	}()
	f()
	returned = true
}

// panicError is the error of a function that panicked.
type panicError struct {
	text  string
	stack []byte
}

// Error implements error.
func (p *panicError) Error() string { return p.text }

// Call calls f and returns its error, or if f panics, an error with name and a stack (Stack). f runs in the caller's goroutine: if f ends
// it, Call does not return.
func Call(name string, f func() error) (err error) {
	guarded(func() { err = f() }, func(with any) { err = &panicError{fmt.Sprintf("%s panicked: %v", name, with), debug.Stack()} })
	return err
}

// Call is like the function Call and records f, which may take as long as patience.
func (c *Calls) Call(name string, patience time.Duration, f func() error) error {
	if c == nil {
		return Call(name, f)
	}
	defer c.Begin(name, patience).End()
	return Call(name, f)
}

// Stack returns the stack trace of a panic in err, nil if there is none.
func Stack(err error) []byte {
	var p *panicError
	if errors.As(err, &p) {
		return p.stack
	}
	return nil
}
