package real

import (
	"fmt"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// load sums the host's stalls, which show whether the host can carry the storm. Safe for concurrent use.
type load struct {
	mu    sync.Mutex
	until int64 // the end of the last stall
	sum   time.Duration
	why   string // why the host cannot carry the storm, "" if it can
}

func (l *load) add(from, to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum += time.Duration(max(0, to-max(from, l.until)))
	l.until = max(l.until, to)
}

func (l *load) stalled() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sum
}

func (l *load) overload() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// weighed returns the length of the measurement at the start of the storm: enough to poll each session twice.
func weighed(t timing.Timings) time.Duration { return max(3*time.Second, 2*t.Poll) }

func (r *run) weigher(within time.Duration) func() {
	stalled, polls := r.load.stalled(), r.target.polls.Load()
	return func() {
		due := int64(0)
		if r.cfg.System == systemPolling {
			due = int64(r.cfg.Sessions) * int64(within/r.cfg.Poll)
		}
		why := tooMuch(r.cfg.Speed, within, r.load.stalled()-stalled, r.target.polls.Load()-polls, due)
		if why == "" {
			return
		}
		r.record(history.Event{Kind: history.Note, Reason: why})
		r.load.mu.Lock()
		defer r.load.mu.Unlock()
		r.load.why = why
	}
}

// A host that stalls for more than a quarter of the time is overloaded. It may carry six tenths of the current speed.
const (
	tooMuchShare = 4
	usableShare  = 0.6
)

// tooMuch returns why a host cannot carry the storm and which speed may fit; "" if it can. due is the number of polls due, 0 if unknown.
func tooMuch(speed float64, within, stalled time.Duration, polls, due int64) string {
	if stalled*tooMuchShare <= within {
		return ""
	}
	text := fmt.Sprintf("this host cannot carry the storm: it stalled for %.1f s of the first %.0f s", min(stalled, within).Seconds(),
		within.Seconds())
	fits := speed * usableShare
	if due > 0 {
		text += fmt.Sprintf(", in which %d of %d polls came", polls, due)
		fits *= min(1, float64(max(1, polls))/float64(due))
	}
	if speed > 0 {
		text += fmt.Sprintf("; --speed %.2g may fit", fits)
	}
	return text
}
