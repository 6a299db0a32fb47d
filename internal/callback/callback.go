// Package callback calls what a user gave. A function that panics or ends its goroutine harms nobody else.
package callback

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Exited is what a listener is said to have panicked with that ended its goroutine, as the FailNow of a test does.
const Exited = "it ended its goroutine (runtime.Goexit)"

// Tell calls f, the function of that name, with each of what, in order, unless f is nil, and waits until it has returned. A function that
// panics, or ends its goroutine, misses that one item. f runs in a goroutine of its own, because nothing keeps it from ending that.
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

// guarded calls f, and failed if f does not return: with what it panicked, or Exited.
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

// Panic is the error of a function that panicked.
type Panic struct {
	text  string
	stack []byte
}

// Error implements error.
func (p *Panic) Error() string { return p.text }

// Call calls f, of that name, and returns its error, or a *Panic. An f that ends its goroutine ends the caller's.
func Call(name string, f func() error) (err error) {
	guarded(func() { err = f() }, func(with any) { err = &Panic{fmt.Sprintf("%s panicked: %v", name, with), debug.Stack()} })
	return err
}

// Stack returns where the function panicked that err is of, nil if it did not.
func Stack(err error) []byte {
	var p *Panic
	if errors.As(err, &p) {
		return p.stack
	}
	return nil
}
