package redis

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// A pattern that was matched before gives what it gave.
func TestRememberedMatch(t *testing.T) {
	in := newInterpreter(New(Config{Options: redisstore.Options{Quarantine: 30 * time.Second}, Wrote: deaf}, nil))
	const text = `local run, rest = string.match(ARGV[1], '^(%w+) (%d+)$')
return {run or 'none', rest or 'none', string.match(ARGV[1], '%w+') or 'none'}`
	for range 2 {
		for arg, want := range map[string]string{"run1 20": "run1 20 run1", "run1": "none none run1", "": "none none none"} {
			got, err := in.eval(text, nil, []string{arg})
			list, ok := got.([]Reply)
			if err != nil || !ok || len(list) != 3 || list[0].(string)+" "+list[1].(string)+" "+list[2].(string) != want {
				t.Errorf("%q gives %v, %v; want %s", arg, got, err, want)
			}
		}
	}
}
