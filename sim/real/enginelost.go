package real

import (
	"context"
	"errors"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// watchEngine ends a run of which a container died of something that no plan has and no guarantee is about: what happened until then is
// judged, as that of any run that was interrupted, unless Redis itself is gone (ErrGone), which nodes may have met before it is told.
func (r *run) watchEngine(stop <-chan struct{}) {
	select {
	case err := <-r.redis.lost:
		if errors.Is(err, ErrGone) {
			r.record(history.Event{Kind: history.RedisDown, Reason: brief(err)})
		}
		r.notef("%v", err)
		r.end(err)
	case <-stop:
	}
}

// engineLost reports whether a Redis that does not answer is lost, of which its engine may tell a moment later.
func (r *run) engineLost(ctx context.Context) bool {
	if r.redis.boxes == nil {
		return false
	}
	select {
	case <-ctx.Done():
		return true
	case <-time.After(lostWithin):
		return false
	}
}

const lostWithin = 2 * time.Second
