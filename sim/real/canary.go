package real

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

const (
	canaryEvery     = time.Millisecond
	canaryHostEvery = 5 * time.Millisecond // there are as many as nodes
	canaryStall     = 5 * time.Millisecond
)

// watchStalls has the run told of every stall of the harness.
func (r *run) watchStalls(stop <-chan struct{}) { canary(canaryEvery, r.clock.now, stop, r.stalled) }

// canary measures how long this process was not scheduled, and tells of it: what a loaded host does to it, it does to the nodes.
func canary(every time.Duration, now func() int64, stop <-chan struct{}, tell func(from, to int64)) {
	tick := time.NewTimer(every)
	defer tick.Stop()
	for {
		due := now() + int64(every)
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if t := now(); t-due > int64(canaryStall) {
			tell(due, t)
		}
		tick.Reset(every)
	}
}

// stalled records a time in which the host did not run who should have. None is left out, for who is judged was not run either: what bounds
// the history bounds stalls too (ErrStarved).
func (r *run) stalled(from, to int64) {
	r.rec.Add(history.Event{T: max(0, from), Kind: history.Stall, Until: to})
}

// hear records what the canary of a host of containers says. Containers have a share of the machine of their own: they may wait while
// this process does not.
func (r *run) hear(said *io.PipeReader) {
	defer func() { _ = said.Close() }()
	for lines := bufio.NewScanner(said); lines.Scan(); {
		var from, to int64
		if _, err := fmt.Sscan(lines.Text(), &from, &to); err != nil {
			return
		}
		r.stalled(r.clock.fromMono(from), r.clock.fromMono(to))
	}
}
