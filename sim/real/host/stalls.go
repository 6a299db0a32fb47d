package host

import "time"

// StallMin is the shortest stall that counts.
const StallMin = 5 * time.Millisecond

// MeterStalls reports when this process was not scheduled: a loaded host delays the nodes as much.
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
