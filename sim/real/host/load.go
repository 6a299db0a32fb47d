package host

import (
	"fmt"
	"sync"
	"time"
)

// Load sums the host's stalls, which show whether the host can carry the storm. Safe for concurrent use.
type Load struct {
	mu    sync.Mutex
	until int64 // the end of the last stall
	sum   time.Duration
	why   string // why the host cannot carry the storm, "" if it can
}

// Add counts a stall, which may overlap others.
func (l *Load) Add(from, to int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sum += time.Duration(max(0, to-max(from, l.until)))
	l.until = max(l.until, to)
}

// Stalled returns the sum of all stalls. The time in which stalls overlap
// counts once.
func (l *Load) Stalled() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sum
}

// Overload returns why the host cannot carry the storm; "" if it can.
func (l *Load) Overload() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

// Judge sets and returns the reason why the host cannot carry the storm, as tooMuch does. stalled is Stalled at the measurement's begin.
func (l *Load) Judge(speed float64, within, stalled time.Duration, polls, due int64) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = tooMuch(speed, within, l.sum-stalled, polls, due)
	return l.why
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

// StallMin is the shortest stall that counts.
const StallMin = 5 * time.Millisecond

// MeterStalls reports the times in which this process was not scheduled. A loaded host delays the nodes as much as this process.
func MeterStalls(every time.Duration, now func() int64, stop <-chan struct{}, tell func(from, to int64)) {
	tick := time.NewTimer(every)
	defer tick.Stop()
	for {
		due := now() + int64(every)
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if t := now(); t-due > int64(StallMin) {
			tell(due, t)
		}
		tick.Reset(every)
	}
}
