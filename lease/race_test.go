package lease

import (
	"testing"
	"testing/synctest"
	"time"
)

// A release during the refusal of an acquisition must not be missed.
func TestReleaseOvertakesTheRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFakeRedis()
		a := newRig(t, r, "a", true, nil).keeperOf()
		b := newRig(t, r, "b", true, nil).keeperOf()
		h, err := a.Acquire(t.Context(), "job")
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		go func() {
			<-time.After(500 * time.Microsecond)
			h.Drop()
		}()
		if _, err := b.Acquire(t.Context(), "job"); err != nil {
			t.Fatal(err)
		}
		if wait := time.Since(start); wait > 100*time.Millisecond {
			t.Errorf("acquired %v after the release", wait)
		}
	})
}
