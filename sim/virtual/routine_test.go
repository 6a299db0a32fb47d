package virtual

import (
	"testing"
)

// A coroutine serves one routine after another. Who still wants to wake the one before wakes nobody, and the end of the run
// leaves none behind.
func TestCoroutineServesManyRoutines(t *testing.T) {
	rs := &routines{}
	var first, second *routine
	rs.begin(nil, func(r *routine) { first = r })
	woken := 0
	rs.begin(nil, func(r *routine) {
		for second = r; r.park(); woken++ {
		}
	})
	if second.on != first.on {
		t.Error("the second routine has a coroutine of its own")
	}
	first.wake()
	if woken != 0 {
		t.Error("what was for the first routine woke the second")
	}
	second.wake()
	if woken != 1 {
		t.Errorf("the second routine was woken %d times, want once", woken)
	}
	on := second.on
	rs.end()
	if _, more := on.resume(); more || !second.dead || len(rs.all)+len(rs.idle) != 0 {
		t.Error("something is left of the run")
	}
}
