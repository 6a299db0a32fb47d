package callback

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/plain"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// moody is an error that can be asked once, and whose Unwrap, Is and As cannot at all.
type moody struct{ asked bool }

func (m *moody) Error() string {
	if m.asked {
		panic("again")
	}
	m.asked = true
	return "moody"
}
func (*moody) Unwrap() error { panic("unwrap") }
func (*moody) Is(error) bool { panic("is") }
func (*moody) As(any) bool   { panic("as") }

// Whatever a caller's function fails with, and however: its failure can be asked by anybody, any number of times, and says something
// that is short.
func TestFailuresCanBeAsked(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func() error
		want string
	}{
		{"an error", func() error { return fmt.Errorf("read: %w", io.EOF) }, "read: EOF"},
		{"nothing to say", func() error { return errors.New("") }, "its error says nothing"},
		{"a nil pointer", func() error { return (*fs.PathError)(nil) }, "<nil>, which panicked when it was asked"},
		{"one that can be asked once", func() error { return &moody{} }, "moody"},
		{"one that cannot be asked", func() error { return &moody{asked: true} }, "panicked when it was asked"},
		{"megabytes", func() error { return errors.New("long" + strings.Repeat("x", 10<<20)) }, "longxx"},
		{"a panic", func() error { panic("boom") }, "F panicked: boom"},
		{"a panic with megabytes", func() error { panic(strings.Repeat("x", 10<<20)) }, "F panicked: xx"},
		{"a panic with what panics", func() error { panic(&moody{asked: true}) }, "F panicked: "},
		{"the end of its goroutine", func() error { runtime.Goexit(); return nil }, "F ended its goroutine"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Apart("F", c.f)
			for range 2 {
				if said := err.Error(); !strings.Contains(said, c.want) || len(said) > plain.SaidMax+100 {
					t.Errorf("%d bytes, %.100q; want %q", len(said), said, c.want)
				}
				var path *fs.PathError
				if errors.Is(err, context.Canceled) || errors.As(err, &path) && path != nil {
					t.Error("it is what it is not")
				}
			}
			if got := errors.Is(err, io.EOF); got != (c.name == "an error") {
				t.Errorf("it is io.EOF: %v", got)
			}
			if got := Stack(err) != nil; got != strings.HasPrefix(c.name, "a panic") {
				t.Errorf("it has a stack: %v", got)
			}
		})
	}
	if err := Apart("F", func() error { return nil }); err != nil || Stack(err) != nil {
		t.Errorf("%v of a function that does not fail", err)
	}
}
