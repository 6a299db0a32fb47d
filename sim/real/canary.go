package real

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

const (
	canaryEvery = time.Millisecond
	canaryStall = 5 * time.Millisecond
	canaryMax   = 20_000 // events
)

// canary measures how long the harness itself was not scheduled: what a loaded host does to it, it does to the nodes.
func (r *run) canary(stop <-chan struct{}) {
	tick := time.NewTimer(canaryEvery)
	defer tick.Stop()
	recorded := 0
	for {
		due := r.clock.now() + int64(canaryEvery)
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		now := r.clock.now()
		if now-due > int64(canaryStall) && recorded < canaryMax {
			recorded++
			r.rec.Add(history.Event{T: due, Kind: history.Stall, Until: now})
		}
		tick.Reset(canaryEvery)
	}
}
