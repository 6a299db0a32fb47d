package policy

import (
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

var timings = Polls{Interval: 100, Timeout: 50, Stuck: 30}

// until is a window that every poll fits into.
const until = 100_000

// polling is a poller whose first poll runs from 1000 to 1050.
func polling(t *testing.T) *Poller {
	t.Helper()
	p := &Poller{}
	if s := p.Acquired(1000); s != (Step{Wake: 1000}) {
		t.Fatalf("acquired: %+v", s)
	}
	if s := p.Due(1000, until, true, &timings); s != (Step{Begin: true, Wake: 1080}) || p.Ends != 1050 {
		t.Fatalf("due: %+v, ends %d", s, p.Ends)
	}
	return p
}

func TestPollsKeepTheirPhase(t *testing.T) {
	p := polling(t)
	if s := p.Returned(Polled); s != (Step{Wake: 1100}) {
		t.Errorf("returned: %+v", s)
	}
	if s := p.Due(1090, until, true, &timings); s != (Step{Wake: 1100}) {
		t.Errorf("early: %+v", s)
	}
	if s := p.Due(1350, until, true, &timings); !s.Begin || p.Next != 1400 {
		t.Errorf("late: %+v, next %d; what was missed is not made up for", s, p.Next)
	}
	if s := p.Returned(Unbegun); s != (Step{Wake: 1100}) {
		t.Errorf("its turn came too late: %+v; it is made up for", s)
	}
}

func TestPollsFitTheWindow(t *testing.T) { // G4
	for _, c := range []struct {
		name     string
		now, end core.Time
		believed bool
		long     bool
		begins   bool
	}{
		{"just", 1000, 1050, true, false, true},
		{"not quite", 1001, 1050, true, false, false},
		{"long polls may outlast it", 1049, 1050, true, true, true},
		{"not believed", 1000, 2000, false, false, false},
		{"not believed, long", 1000, 2000, false, true, false},
	} {
		p, cfg := &Poller{}, timings
		cfg.Long = c.long
		p.Acquired(1000)
		if s := p.Due(c.now, c.end, c.believed, &cfg); s.Begin != c.begins {
			t.Errorf("%s: %+v", c.name, s)
		}
		want := Step{}
		if !c.begins {
			want.Wake = 1000
		}
		if s := p.Renewed(); s != want {
			t.Errorf("%s: renewed: %+v, want %+v", c.name, s, want)
		}
	}
	if !Turn(true, false) || Turn(false, false) || Turn(true, true) {
		t.Error("a poll is sent if and only if its term is believed and its context has not ended when its turn comes")
	}
}

// The term ends when the poll has returned (G2).
func TestYieldWaitsForThePoll(t *testing.T) {
	p := polling(t)
	if s := p.Yield(); s != (Step{}) {
		t.Errorf("while it runs: %+v", s)
	}
	if s := p.Returned(Polled); s != (Step{Yield: true}) {
		t.Errorf("it returned: %+v", s)
	}
	idle := &Poller{}
	idle.Acquired(1000)
	if s := idle.Yield(); s != (Step{Yield: true}) {
		t.Errorf("none runs: %+v", s)
	}
	if s := idle.Due(1000, until, true, &timings); s != (Step{}) {
		t.Errorf("a poll begins under a term that is asked for: %+v", s)
	}
	if s := idle.Kept(); s != (Step{Wake: 1000}) {
		t.Errorf("taken back, none runs: %+v", s)
	}
	if s := idle.Due(1000, until, true, &timings); !s.Begin {
		t.Errorf("taken back, none runs, and it is due: %+v", s)
	}
	kept := polling(t)
	kept.Yield()
	if s := kept.Kept(); s != (Step{}) {
		t.Errorf("taken back while it runs: %+v", s)
	}
	if s := kept.Returned(Polled); s != (Step{Wake: 1100}) {
		t.Errorf("taken back: %+v", s)
	}
}

func TestFencedTermIsDroppedWhenTheNextPollWouldBegin(t *testing.T) {
	p := polling(t)
	if s := p.Returned(Fenced); s != (Step{Wake: 1100}) {
		t.Errorf("returned: %+v", s)
	}
	if s := p.Due(1100, until, true, &timings); s != (Step{Drop: true}) {
		t.Errorf("due: %+v", s)
	}
	p = polling(t)
	p.Over(1010, &timings)
	p.Acquired(1020)
	p.Returned(Fenced)
	if s := p.Due(1020, until, true, &timings); !s.Begin {
		t.Errorf("what was said of an earlier term counts for this one: %+v", s)
	}
}

func TestPollThatIsStuck(t *testing.T) { // G8
	p := polling(t)
	if s := p.Uncertain(1010, &timings); s != (Step{Cancel: true, Wake: 1040}) {
		t.Errorf("uncertain: %+v", s)
	}
	if s := p.Uncertain(1020, &timings); s != (Step{Cancel: true}) {
		t.Errorf("a context that has ended has no new patience: %+v", s)
	}
	if s := p.Due(1039, until, true, &timings); s != (Step{Wake: 1040}) {
		t.Errorf("early: %+v", s)
	}
	if s := p.Due(1040, until, true, &timings); s != (Step{Abandon: true}) {
		t.Errorf("stuck: %+v", s)
	}
	if s := p.Due(1041, until, true, &timings); s != (Step{}) {
		t.Errorf("stuck already: %+v", s)
	}
	if s := p.Over(1042, &timings); s != (Step{Cancel: true}) {
		t.Errorf("lost: %+v", s)
	}
	if s := p.Acquired(2000); s != (Step{Abandon: true}) {
		t.Errorf("acquired while it is stuck: %+v", s)
	}
	if s := p.Over(2001, &timings); s != (Step{Cancel: true}) || p.Held() {
		t.Errorf("lost again: %+v", s)
	}
	if s := p.Returned(Polled); s != (Step{Recover: true, Forget: true}) || p.Running() {
		t.Errorf("returned: %+v", s)
	}
}

func TestPollerOfNothingIsForgotten(t *testing.T) {
	p := &Poller{}
	p.Acquired(1000)
	if s := p.Stop(1001, &timings); s != (Step{}) {
		t.Errorf("stop without a poll: %+v", s)
	}
	if s := p.Over(1002, &timings); s != (Step{Forget: true}) {
		t.Errorf("lost: %+v", s)
	}
	if s := p.Due(1002, until, true, &timings); s != (Step{}) {
		t.Errorf("due without a term: %+v", s)
	}
}
