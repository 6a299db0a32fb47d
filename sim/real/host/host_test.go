package host

import (
	"errors"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// failing is a listener whose accepts fail.
type failing struct {
	net.Listener
	err error
}

func (f failing) Accept() (net.Conn, error) { return nil, f.err }

func TestOutOfFilesIsTheHarness(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "accept", Err: syscall.EMFILE}, true}, {syscall.ENFILE, true}, {syscall.ECONNABORTED, false}, {net.ErrClosed, false},
	} {
		var told error
		l := Listener{failing{err: tt.err}, func(err error) { told = err }}
		if _, err := l.Accept(); !errors.Is(err, tt.err) {
			t.Errorf("%v: accept says %v", tt.err, err)
		}
		if errors.Is(told, ErrNoVerdict) != tt.want {
			t.Errorf("%v: told %v", tt.err, told)
		}
	}
}

func TestAHostThatCannotCarryTheStormIsNamedWithASpeedThatFits(t *testing.T) {
	const s = time.Second
	for name, tt := range map[string]struct {
		speed      float64
		stalled    time.Duration
		polls, due int64
		want       string
	}{
		"an idle host":             {10, 100 * time.Millisecond, 14_000, 15_000, ""},
		"a storm that works":       {10, 3 * s / 4, 15_000, 15_000, ""},
		"busy, and keeps up":       {10, s, 15_000, 15_000, "--speed 6 may fit"},
		"carries a fifth":          {10, 3 * s, 3_000, 15_000, "3000 of 15000 polls came; --speed 1.2 may fit"},
		"an election has no polls": {10, 2 * s, 0, 0, "stalled for 2.0 s of the first 3 s; --speed 6 may fit"},
		"the speed is not known":   {0, 2 * s, 0, 0, "stalled for 2.0 s of the first 3 s"},
	} {
		got := tooMuch(tt.speed, 3*s, tt.stalled, tt.polls, tt.due)
		if !strings.HasSuffix(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestStallsOfTwoMetersCountOnce(t *testing.T) {
	var l Load
	for _, stall := range [][2]int64{{0, 10}, {2, 8}, {5, 20}, {30, 31}} {
		l.Add(stall[0], stall[1])
	}
	if got := l.Stalled(); got != 21 {
		t.Errorf("stalled for %d ns, want 21", got)
	}
}
