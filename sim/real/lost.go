package real

import (
	"errors"

	"github.com/leasestorm/leasestorm/sim/history"
)

// watchLost ends a run when a server or a container died of something that no plan has and no guarantee is about. What happened until
// then is judged, as that of any run that was interrupted, unless Redis itself is gone (ErrGone), which nodes may have met before that is
// known.
func (r *run) watchLost(stop <-chan struct{}) {
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
