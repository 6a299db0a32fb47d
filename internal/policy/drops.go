package policy

import "github.com/leasestorm/leasestorm/internal/core"

// MergeDrops puts the drops that follow the first event of todo into it if it is a drop for the same reason, and returns how many
// events that makes, at least 1: leases that are given back one after the other leave in few requests.
func MergeDrops(todo []core.Event) (n int) {
	first := &todo[0]
	for n = 1; first.Kind == core.EvDrop && n < len(todo) && todo[n].Kind == core.EvDrop && todo[n].Cause == first.Cause; n++ {
		first.IDs = append(first.IDs, todo[n].ID)
	}
	return n
}
