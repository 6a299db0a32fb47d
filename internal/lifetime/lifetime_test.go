package lifetime

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var (
	errFailed = errors.New("failed")
	errOver   = errors.New("over")
)

func TestStartsOnce(t *testing.T) {
	l, calls := New(), 0
	for _, says := range []error{errFailed, nil, errFailed} { // nobody calls the last one
		if err := l.Start(errOver, func() error { calls++; return says }); calls == 1 != (err != nil) || err != nil && !errors.Is(err, errFailed) {
			t.Errorf("after %d calls: %v", calls, err)
		}
		if started, stopped := l.State(); started != (calls == 2) || stopped {
			t.Errorf("after %d calls: started %v, stopped %v", calls, started, stopped)
		}
	}
	if calls != 2 {
		t.Errorf("started by %d calls, want one that fails and one that does not", calls)
	}
}

func TestStopsOnce(t *testing.T) {
	for _, wasStarted := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l, calls, ended := New(), 0, false
			if wasStarted {
				if err := l.Start(errOver, func() error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			all := make(chan error, 3)
			for range cap(all) {
				go func() {
					all <- l.Stop(func(started bool) error {
						calls++
						if started != wasStarted {
							t.Errorf("started %v, want %v", started, wasStarted)
						}
						<-time.After(time.Second)
						ended = true
						return errFailed
					})
				}()
			}
			synctest.Wait()
			if err := l.Start(errOver, func() error { return nil }); !errors.Is(err, errOver) {
				t.Errorf("a start after it: %v", err)
			}
			select {
			case <-l.Done():
				t.Error("done before it has ended")
			default:
			}
			for range cap(all) {
				if err := <-all; !errors.Is(err, errFailed) || !ended {
					t.Errorf("%v, ended: %v", err, ended)
				}
			}
			if <-l.Done(); calls != 1 {
				t.Errorf("stopped %d times", calls)
			}
		})
	}
}

// Run stops what it started when its ctx ends or somebody else stops it. It does not stop what did not start.
func TestRuns(t *testing.T) {
	for name, tt := range map[string]struct {
		started, want error
	}{"stopped by ctx": {nil, errOver}, "stopped by another": {nil, errOver}, "not started": {errFailed, errFailed}} {
		synctest.Test(t, func(t *testing.T) {
			l, stops := New(), 0
			stop := func() error { return l.Stop(func(bool) error { stops++; return errOver }) }
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ran := make(chan error, 1)
			go func() {
				ran <- l.Run(ctx, func(context.Context) error { return l.Start(errOver, func() error { return tt.started }) }, stop)
			}()
			synctest.Wait()
			switch {
			case stops > 0:
				t.Errorf("%s: stopped while it ran", name)
			case name == "stopped by ctx":
				cancel()
			case name == "stopped by another":
				_ = stop()
			}
			if err := <-ran; !errors.Is(err, tt.want) || (stops == 1) != (tt.started == nil) {
				t.Errorf("%s: %v, want %v; stopped %d times", name, err, tt.want, stops)
			}
		})
	}
}
