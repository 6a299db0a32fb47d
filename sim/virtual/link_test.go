package virtual

import "testing"

// Behind a limit of bandwidth bytes arrive at its rate. What waits when it is lifted goes on then, as behind a real one.
func TestWhatWaitsGoesOnWhenTheLimitIsLifted(t *testing.T) {
	const kB, second = 1000, int64(1e9)
	l := link{narrow: []narrow{{kbps: 50, until: 4 * second}, {kbps: 2, until: 10 * second}}}
	for _, c := range []struct{ at, kB, takes int64 }{
		{at: 1, kB: 4, takes: 2},
		{at: 1, kB: 100, takes: 9},
		{at: 9, kB: 4, takes: 1},
		{at: 10, kB: 4, takes: 0},
	} {
		if takes := l.narrowed(c.at*second, int(c.kB*kB)); takes != c.takes*second {
			t.Errorf("%d kB at %d s take %d ns, want %d s", c.kB, c.at, takes, c.takes)
		}
	}
}
