package real

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
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

// aim resolves the target of a fault that hits an owner, and counts a node's fault at its slot. It returns false if there is no such
// owner.
func (inj *injection) aim() bool {
	if inj.Kind.Scope() != fault.ScopeNode {
		return true
	}
	instances, stay := inj.running()
	holders := inj.owners.slots(inj.work.ids(), instances)
	inj.mu.Lock()
	defer inj.mu.Unlock()
	switch {
	case inj.Target == fault.Same:
		slot := inj.struck[fault.Lead(inj.cfg.Plan.Faults, inj.n)]
		if slot == "" {
			return false
		}
		inj.Target = slot
	case inj.Aims():
		i, ok := fault.Resolve(inj.Target, holders, func(i int) bool { return stay[i] && inj.inHand[fault.NodeTarget(i)] == 0 })
		if !ok {
			return false
		}
		inj.Target = fault.NodeTarget(i)
		inj.struck[inj.n] = inj.Target
	}
	inj.held = inj.Target
	inj.inHand[inj.held]++
	return true
}

func (r *run) running() (instances map[string]int, stay map[int]bool) {
	instances, stay = map[string]int{}, map[int]bool{}
	for _, s := range r.allSlots() {
		i, _ := fault.NodeIndex(s.name)
		s.mu.Lock()
		if n := s.node; n != nil && n.alive() {
			instances[n.instanceID()], stay[i] = i, !s.left
		}
		s.mu.Unlock()
	}
	delete(instances, "") // not ready yet
	return instances, stay
}

func (inj *injection) aimed(found bool, due time.Time) bool {
	retry := time.NewTicker(fault.Retry(inj.cfg.Renew))
	defer retry.Stop()
	for last := false; !found; found = inj.aim() {
		if last {
			inj.skip("nobody that no other fault has in hand owned it within a renewal interval")
			return false
		}
		select {
		case <-retry.C:
			last = time.Since(due) > inj.cfg.Renew
		case <-inj.storm.Done():
			inj.skip("the storm ended before anybody owned it")
			return false
		}
	}
	return true
}
