package virtual

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// A coroutine serves one routine after another. Who still wants to wake the one before wakes nobody, and the end of the run
// leaves none behind.
func TestCoroutineServesManyRoutines(t *testing.T) {
	w := &world{}
	var first, second *routine
	w.goes(nil, func(r *routine) { first = r })
	woken := 0
	w.goes(nil, func(r *routine) {
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
	w.endRoutines()
	if _, more := on.resume(); more || !second.dead || len(w.routines)+len(w.idle) != 0 {
		t.Error("something is left of the run")
	}
}

// A pattern that was matched before gives what it gave.
func TestRememberedMatch(t *testing.T) {
	in := newInterpreter(newRedis(redisConfig{Options: redisstore.Options{Quarantine: 30 * time.Second}, Wrote: deaf}))
	const text = `local run, rest = string.match(ARGV[1], '^(%w+) (%d+)$')
return {run or 'none', rest or 'none', string.match(ARGV[1], '%w+') or 'none'}`
	for range 2 {
		for arg, want := range map[string]string{"run1 20": "run1 20 run1", "run1": "none none run1", "": "none none none"} {
			got, err := in.eval(text, nil, []string{arg})
			list, ok := got.([]reply)
			if err != nil || !ok || len(list) != 3 || list[0].(string)+" "+list[1].(string)+" "+list[2].(string) != want {
				t.Errorf("%q gives %v, %v; want %s", arg, got, err, want)
			}
		}
	}
}
