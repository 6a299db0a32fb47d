package real

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// weighed returns the length of the measurement at the start of the storm: enough to poll each session twice.
func weighed(t timing.Timings) time.Duration { return max(3*time.Second, 2*t.Poll) }

func (r *run) weigher(within time.Duration) func() {
	stalled, polls := r.load.Stalled(), r.target.Polls.Load()
	return func() {
		due := int64(0)
		if r.cfg.System == systemPolling {
			due = int64(r.cfg.Sessions) * int64(within/r.cfg.Poll)
		}
		if why := r.load.Judge(r.cfg.Speed, within, stalled, r.target.Polls.Load()-polls, due); why != "" {
			r.record(history.Event{Kind: history.Note, Reason: why})
		}
	}
}
