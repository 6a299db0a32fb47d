package fault

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Targets of faults of nodes that are known only when they hit. Nodes that come or go for good are named.
const (
	// Owner is whoever holds most leases when the fault hits. With ":" and a session it is who holds that one's; with ":" and
	// a node it is that node, which was the owner when a saved run hit it.
	Owner = "owner"
	// Leader is another word for "owner:session-1": who holds the one lease of an election.
	Leader = "leader"
	// Same is the node that the last fault of an owner before it in the plan hits, also while that one lasts.
	Same = "same"
)

// AimTries is how often a fault that finds no owner is tried again, within a renewal interval: then somebody has one again, or is not
// to be expected soon. What finds nobody by then hits nothing.
const AimTries = 10

// OwnerTarget is the target of a fault of the owner of a session (SessionTarget), or of the node (NodeTarget) that was hit
// as an owner.
func OwnerTarget(of string) string { return Owner + ":" + of }

// Aims reports whether the fault hits an owner, whoever that is.
func (f Fault) Aims() bool {
	_, ok := aimOf(f.Target)
	return ok && f.Kind.Scope() == ScopeNode && f.Kind != Join && f.Kind != Leave
}

// aimOf returns what is named behind the word for an owner, "" for nothing.
func aimOf(target string) (of string, ok bool) {
	switch target {
	case Owner, Same:
		return "", true
	case Leader:
		return SessionTarget(1), true
	}
	return strings.CutPrefix(target, Owner+":")
}

// Lead returns the index of the fault whose node the n-th hits if its target is Same; -1 if there is none.
func Lead(faults []Fault, n int) int {
	for n--; n >= 0 && (faults[n].Target == Same || !faults[n].Aims()); n-- {
	}
	return n
}

// Retry is the time between two tries to find an owner.
func Retry(renew time.Duration) time.Duration { return max(renew/AimTries, time.Millisecond) }

// Resolve returns the slot that a fault with the target of an owner, other than Same, hits now. owners has the slot of whoever holds each
// lease, first those of the sessions in the order of their creation, 0 for nobody. free reports whether a process runs in the slot that
// no other fault has in hand. Of those that hold as many, the first slot is hit.
func Resolve(target string, owners []int, free func(slot int) bool) (slot int, ok bool) {
	of, _ := aimOf(target)
	if i, named := NodeIndex(of); named {
		return i, free(i)
	}
	if i, named := SessionIndex(of); named {
		if i > len(owners) {
			return 0, false
		}
		slot = owners[i-1]
		return slot, slot > 0 && free(slot)
	}
	holds := map[int]int{}
	for _, i := range owners {
		holds[i]++
	}
	for _, i := range slices.Sorted(maps.Keys(holds)) {
		if i > 0 && (slot == 0 || holds[i] > holds[slot]) && free(i) {
			slot = i
		}
	}
	return slot, slot > 0
}
