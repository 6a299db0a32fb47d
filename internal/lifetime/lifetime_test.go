package lifetime

import (
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
	for _, says := range []error{errFailed, nil, errFailed} { // the last is not asked
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
