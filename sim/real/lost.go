package real

import (
	"errors"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

// watchLost ends a run when a server or a container dies outside the plan. The history so far is judged, as for any interrupted run. It
// is not judged if Redis itself is gone (ErrGone), because nodes may have noticed that first.
func (r *run) watchLost(stop <-chan struct{}) {
	select {
	case err := <-r.redis.lost:
		if errors.Is(err, ErrGone) {
			r.record(history.Event{Kind: history.RedisDown, Reason: stream.Brief(err)})
		}
		r.notef("%v", err)
		r.end(err)
	case <-stop:
	}
}
