package callback

import (
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Whatever a call does, the later calls are made, in order, and the caller continues.
func TestAllAreTold(t *testing.T) {
	var heard []int
	var with []any
	calls := &Calls{Panicked: func(_ string, r any) { with = append(with, r) }}
	Tell(calls, "F", func(n int) {
		heard = append(heard, n)
		switch n {
		case 1, 5:
			runtime.Goexit()
		case 3:
			panic("three")
		}
	}, 0, 1, 2, 3, 4, 5)
	if !slices.Equal(heard, []int{0, 1, 2, 3, 4, 5}) || !slices.Equal(with, []any{Exited, "three", Exited}) {
		t.Errorf("heard %v; panicked with %v", heard, with)
	}
	Tell(calls, "F", nil, 1)
}

// An error is the function's own. A panic becomes an error with its stack.
func TestCall(t *testing.T) {
	if err := Call("F", func() error { return io.EOF }); !errors.Is(err, io.EOF) || Stack(err) != nil {
		t.Errorf("%v", err)
	}
	err := Call("F", func() error { panic("boom") })
	if err == nil || err.Error() != "F panicked: boom" || !strings.Contains(string(Stack(err)), "callback_test.go") {
		t.Errorf("%v at %s", err, Stack(err))
	}
}
