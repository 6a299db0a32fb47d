package fault

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Redis is the target of the faults of Redis.
const Redis = "redis"

const (
	nodePrefix    = "node-"
	sessionPrefix = "session-"
)

// NodeTarget names the i-th node slot, counted from 1. In a run of 10 nodes, nodes that join later are "node-11" and up.
func NodeTarget(i int) string { return nodePrefix + strconv.Itoa(i) }

// SessionTarget names the i-th session in the order of creation, counted from 1.
func SessionTarget(i int) string { return sessionPrefix + strconv.Itoa(i) }

// NodeIndex returns the slot number of a NodeTarget, false for another target.
func NodeIndex(target string) (int, bool) { return index(target, nodePrefix) }

// SessionIndex returns the number of a SessionTarget, false for another target.
func SessionIndex(target string) (int, bool) { return index(target, sessionPrefix) }

func index(target, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(target, prefix)
	if !ok {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	if err != nil || i < 1 || strconv.Itoa(i) != digits {
		return 0, false
	}
	return i, true
}

// Targets that are resolved to a node when the fault hits. Join and Leave need a named node.
const (
	// Owner is the instance that holds the most leases. "owner:session-1" is the owner of that session. "owner:node-1" is the node that a
	// saved run hit.
	Owner = "owner"
	// Leader means "owner:session-1", the holder of an election's only lease.
	Leader = "leader"
	// Same is the node that the previous fault of an owner in the plan hit, even while that fault lasts.
	Same = "same"
)

// AimTries is how often a fault that finds no owner is retried within a renewal interval before it is skipped.
const AimTries = 10

// OwnerTarget returns the target for the owner of a session (SessionTarget), or for a node (NodeTarget) that was hit as an owner.
func OwnerTarget(of string) string { return Owner + ":" + of }

// Aims reports whether the fault's target is an owner.
func (f Fault) Aims() bool {
	_, ok := aimOf(f.Target)
	return ok && (f.Kind.Scope() == ScopeNode || f.Kind == MasterCut) && f.Kind != Join && f.Kind != Leave
}

func aimOf(target string) (of string, ok bool) {
	switch target {
	case Owner, Same:
		return "", true
	case Leader:
		return SessionTarget(1), true
	}
	return strings.CutPrefix(target, Owner+":")
}

// Lead returns the index of the fault whose node the n-th fault hits, if the target of the n-th is Same; otherwise -1.
func Lead(faults []Fault, n int) int {
	for n--; n >= 0 && (faults[n].Target == Same || !faults[n].Aims()); n-- {
	}
	return n
}

// Retry returns the time between two attempts to find an owner.
func Retry(renew time.Duration) time.Duration { return max(renew/AimTries, time.Millisecond) }

// Resolve returns the slot that a fault of an owner, except Same, hits now. owners holds the slot of each lease's owner, 0 for none:
// first those of the sessions, in order of creation. free reports whether a slot has a running process without another fault. If several
// slots hold the most leases, Resolve returns the lowest one.
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
