package fault

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Scope is what a kind of fault hits. It determines the form of Target.
type Scope uint8

// The scopes.
const (
	ScopeNone      Scope = iota // no target: the whole fleet (crash-all)
	ScopeNode                   // Target is a node slot, NodeTarget(i)
	ScopeRedis                  // Target is "redis" or empty
	ScopeSession                // Target is a session, SessionTarget(i), or empty for the harness's choice
	ScopeServers                // no target: the engine chooses servers of a replicated Redis
	ScopeElsewhere              // a fault of another engine or a later version; the real engine never injects it
)

// Errors of this package. Their text has the given value and the allowed ones.
var (
	// ErrUnknownKind means that no fault has this name.
	ErrUnknownKind = errors.New("unknown fault")
	// ErrUnavailable means that this engine or version cannot inject the fault.
	ErrUnavailable = errors.New("fault not available")
	// ErrInvalid means that a fault contradicts itself, its kind or the run's size.
	ErrInvalid = errors.New("invalid fault")
	// ErrFormat means that a text is no plan of a version that this program reads.
	ErrFormat = errors.New("invalid plan")
)

// Refusal is what Redis refuses while it answers reads.
type Refusal uint8

// The refusals: of no, some or all writes.
const (
	RefusesNothing Refusal = iota
	RefusesSome
	RefusesAll
)

// Kinds returns the kinds that the real engine can inject, in a fixed order. The caller owns the slice.
func Kinds() []Kind { return kindsOf(false) }

// VirtualKinds returns the kinds that the virtual engine can inject, in a fixed order. The caller owns the slice.
func VirtualKinds() []Kind { return kindsOf(true) }

func kindsOf(virtual bool) []Kind {
	return slices.DeleteFunc(slices.Clone(order), func(k Kind) bool { return k.OfServers() || k.AvailableOn(virtual) != nil })
}

// ServerKinds returns the kinds that need a Redis with replicas, in a fixed order. The caller owns the slice.
func ServerKinds() []Kind {
	return slices.DeleteFunc(slices.Clone(order), func(k Kind) bool { return !k.OfServers() })
}

// OfServers reports whether the kind needs a Redis with replicas.
func (k Kind) OfServers() bool { return k.Scope() == ScopeServers }

// OfCluster reports whether the kind needs a Redis Cluster. It implies OfServers.
func (k Kind) OfCluster() bool { return k.row().cluster }

// Known reports whether any engine or version has the kind.
func (k Kind) Known() bool { return rows[k] != nil }

// Scope returns what the kind hits, ScopeElsewhere for an unknown kind.
func (k Kind) Scope() Scope { return k.row().scope }

// TakesMs reports whether the kind needs an amount (Fault.Ms).
func (k Kind) TakesMs() bool { return k.row().takes&takesMs != 0 }

// Refuses returns which writes Redis refuses during such a fault while it answers reads.
func (k Kind) Refuses() Refusal { return k.row().refuses }

// Available returns nil if the real engine has the kind. Otherwise it wraps ErrUnknownKind or, with the reason, ErrUnavailable.
func (k Kind) Available() error { return k.AvailableOn(false) }

// AvailableOn is Available for the virtual engine if virtual is set, otherwise for the real one.
func (k Kind) AvailableOn(virtual bool) error {
	switch r := k.row(); {
	case r == &unknown:
		return fmt.Errorf("%w %q: known are %s", ErrUnknownKind, string(k), knownKinds())
	case r.notReal != "" && !(virtual && r.scope != ScopeElsewhere):
		return fmt.Errorf("%w: %q cannot be injected: %s", ErrUnavailable, string(k), r.notReal)
	}
	return nil
}

// ParseKinds parses the comma-separated value of --faults. "-redis-wipe" removes a kind from the usual ones (Wanted). It ignores blanks
// and duplicates and refuses an empty list. Its errors are those of AvailableOn, or wrap ErrInvalid.
func ParseKinds(list string, virtual bool) ([]Kind, error) {
	var out []Kind
	for name := range strings.SplitSeq(list, ",") {
		k := Kind(strings.TrimSpace(name))
		if k == "" {
			continue
		}
		if !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no fault named; known are %s", ErrInvalid, knownKinds())
	}
	if _, err := CheckKinds(out, virtual, nil); err != nil {
		return nil, err
	}
	return out, nil
}

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

func knownKinds() string {
	only := slices.DeleteFunc(VirtualKinds(), func(k Kind) bool { return k.Available() == nil })
	several := slices.DeleteFunc(ServerKinds(), Kind.OfCluster)
	ofCluster := slices.DeleteFunc(ServerKinds(), func(k Kind) bool { return !k.OfCluster() })
	return joinKinds(Kinds()) + "; with --engine virtual also " + joinKinds(only) + "; with --topology sentinel also " +
		joinKinds(several) + "; with --topology cluster also those and " + joinKinds(ofCluster)
}

func joinKinds(ks []Kind) string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// Unit returns the unit of such a fault's amount, and what a zero and a nonzero Jitter mean. If ways is empty, Jitter varies the amount.
func (k Kind) Unit() (unit string, ways [2]string) {
	r := k.row()
	if r.unit == "" {
		return "ms", r.ways
	}
	return r.unit, r.ways
}
