package policy

import "github.com/leasestorm/leasestorm/internal/core"

// MergeDrops merges the first event of todo with the drops that directly follow it, if all are drops with the same cause. It returns how
// many events it merged, at least 1. Leases that are released one after another then need few requests.
func MergeDrops(todo []core.Event) (n int) {
	first := &todo[0]
	for n = 1; first.Kind == core.EvDrop && n < len(todo) && todo[n].Kind == core.EvDrop && todo[n].Cause == first.Cause; n++ {
		first.IDs = append(first.IDs, todo[n].ID)
	}
	return n
}
