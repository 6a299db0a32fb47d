package real

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

// watch lets faults wait for events of nodes. Safe for concurrent use.
type watch struct {
	count atomic.Int32 // number of waiters; usually 0, which spares an event the lock
	mu    sync.Mutex
	wait  map[int]waiter
	next  int
}

type waiter struct {
	match func(*history.Event) bool
	found chan history.Event
}

// await returns a channel that receives the next event that match accepts. The caller must call cancel.
func (w *watch) await(match func(*history.Event) bool) (found <-chan history.Event, cancel func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wait == nil {
		w.wait = map[int]waiter{}
	}
	id := w.next
	w.next++
	c := make(chan history.Event, 1)
	w.wait[id] = waiter{match, c}
	w.count.Add(1)
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, ok := w.wait[id]; ok {
			delete(w.wait, id)
			w.count.Add(-1)
		}
	}
}

// tell passes an event to its waiters and reports whether there were any.
func (w *watch) tell(e *history.Event) (found bool) {
	if w.count.Load() == 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, one := range w.wait {
		if one.match(e) {
			one.found <- *e
			delete(w.wait, id)
			w.count.Add(-1)
			found = true
		}
	}
	return found
}

// watchLost ends a run when a server or a container dies outside the plan. The judge judges the history so far, as for any
// interrupted run. If Redis itself is gone (ErrGone), nothing is judged, because nodes may have noticed that before the harness
// did.
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
