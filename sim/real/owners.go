package real

import (
	"maps"
	"slices"
	"sync"

	"github.com/leasestorm/leasestorm/sim/history"
)

// owners tracks each lease's holder, as Redis shows it or else as instances report it. The zero value is empty. Safe for concurrent use.
type owners struct {
	mu    sync.Mutex
	shown map[string]string // lease → value of its key
	said  map[string]string // lease → instance that last reported it as its own
}

func (o *owners) see(e *history.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.shown == nil {
		o.shown, o.said = map[string]string{}, map[string]string{}
	}
	switch e.Kind {
	case history.RedisGranted:
		o.shown[e.Session] = e.Instance
	case history.RedisDeleted:
		delete(o.shown, e.Session)
	case history.RedisFlushed, history.TapUp: // after TapUp a snapshot follows
		clear(o.shown)
	case history.Acquired, history.Renewed:
		o.said[e.Session] = e.Instance
	case history.Lost, history.Released:
		if o.said[e.Session] == e.Instance {
			delete(o.said, e.Session)
		}
	}
}

// slots returns the slot number of each lease's holder; 0: none. The leases of the sessions come first, in their order. slot maps running
// instances to slot numbers.
func (o *owners) slots(sessions []string, slot map[string]int) []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	more := maps.Clone(o.shown)
	maps.Copy(more, o.said)
	for _, id := range sessions {
		delete(more, id)
	}
	var out []int
	for _, id := range slices.Concat(sessions, slices.Sorted(maps.Keys(more))) {
		by := slot[o.shown[id]]
		if by == 0 {
			by = slot[o.said[id]]
		}
		out = append(out, by)
	}
	return out
}
