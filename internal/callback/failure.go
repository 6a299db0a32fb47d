package callback

import (
	"cmp"
	"errors"
	"runtime/debug"

	"github.com/leasestorm/leasestorm/internal/plain"
)

// Failure is what a caller's function failed with. Its own error may panic when it is asked, as a nil pointer in an error does, or say
// megabytes; this one may be asked at any time. What it says was asked for once and is cut, and where the caller's error panics,
// errors.Is and errors.As find nothing in it. Safe for concurrent use if that is.
type Failure struct {
	text  string
	err   error  // that the function returned; nil: it did not return
	stack []byte // where it panicked
}

// Error implements error.
func (f *Failure) Error() string { return f.text }

// Is asks the caller's error what errors.Is does.
func (f *Failure) Is(target error) bool {
	return finds(func() bool { return errors.Is(f.err, target) })
}

// As asks the caller's error what errors.As does. What it finds is the caller's own.
func (f *Failure) As(target any) bool { return finds(func() bool { return errors.As(f.err, target) }) }

func finds(ask func() bool) (found bool) {
	defer func() { _ = recover() }()
	return ask()
}

// Stack returns where the function panicked that err is of, nil if it did not.
func Stack(err error) []byte {
	var f *Failure
	if errors.As(err, &f) {
		return f.stack
	}
	return nil
}

// Call calls f, of that name, and returns nil or a *Failure, also where f panics.
func Call(name string, f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &Failure{text: name + " panicked: " + plain.Said(r), stack: debug.Stack()}
		}
	}()
	if err := f(); err != nil {
		return &Failure{text: words(err), err: err}
	}
	return nil
}

// Apart is Call in a goroutine of its own: f may end that, as the FailNow of a test does, and has failed then.
func Apart(name string, f func() error) error {
	var err error = &Failure{text: name + " ended its goroutine"}
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = Call(name, f)
	}()
	<-done
	return err
}

func words(err error) (text string) {
	defer func() {
		if recover() != nil {
			text = plain.Said(err) + ", which panicked when it was asked"
		}
	}()
	return cmp.Or(plain.Cut(err.Error(), plain.SaidMax), "its error says nothing")
}
