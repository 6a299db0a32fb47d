package fault

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Scope says what a kind of fault hits, and so what its Target names.
type Scope uint8

// The scopes.
const (
	ScopeNone      Scope = iota // no target: the whole fleet (crash-all)
	ScopeNode                   // Target is a node slot, NodeTarget(i)
	ScopeRedis                  // Target is "redis" or empty
	ScopeSession                // Target is a session, SessionTarget(i), or empty for the harness's choice
	ScopeServers                // no target: servers of a Redis with replicas, as the engine finds them
	ScopeElsewhere              // a fault of another engine or a later version: never injected by the real engine
)

// Errors of this package. Each is wrapped in a sentence that names what was given and what is allowed.
var (
	// ErrUnknownKind: no fault has that name.
	ErrUnknownKind = errors.New("unknown fault")
	// ErrUnavailable: the fault is known, but this engine or version cannot do it.
	ErrUnavailable = errors.New("fault not available")
	// ErrInvalid: a fault of a plan contradicts itself, its kind or the run's size.
	ErrInvalid = errors.New("invalid fault")
	// ErrFormat: a plan's text is no plan of a version this program reads.
	ErrFormat = errors.New("invalid plan")
)

// Refusal is what a Redis that answers reads refuses.
type Refusal uint8

// The refusals.
const (
	RefusesNothing Refusal = iota
	RefusesSome            // writes of some kinds
	RefusesAll             // every write
)

// Kinds returns every kind that the real engine of this version can inject, in a fixed order. The caller owns the slice.
func Kinds() []Kind { return kindsOf(false) }

// VirtualKinds returns every kind that the virtual engine can inject, in a fixed order. The caller owns the slice.
func VirtualKinds() []Kind { return kindsOf(true) }

func kindsOf(virtual bool) []Kind {
	return slices.DeleteFunc(slices.Clone(order), func(k Kind) bool { return k.OfServers() || k.AvailableOn(virtual) != nil })
}

// ServerKinds returns the kinds that only a Redis with replicas has, in a fixed order. The caller owns the slice.
func ServerKinds() []Kind {
	return slices.DeleteFunc(slices.Clone(order), func(k Kind) bool { return !k.OfServers() })
}

// OfServers reports whether only a Redis with replicas has the kind.
func (k Kind) OfServers() bool { return k.Scope() == ScopeServers }

// OfCluster reports whether only a Redis Cluster has the kind; it is one of OfServers then.
func (k Kind) OfCluster() bool { return k.row().cluster }

// Known reports whether any engine or version has the kind.
func (k Kind) Known() bool { return rows[k] != nil }

// Scope says what the kind hits; ScopeElsewhere also for kinds that are unknown.
func (k Kind) Scope() Scope { return k.row().scope }

// TakesMs reports whether a fault of the kind needs an amount (Fault.Ms).
func (k Kind) TakesMs() bool { return k.row().takes&takesMs != 0 }

// Refuses says which writes Redis refuses while a fault of the kind lasts, though it answers reads.
func (k Kind) Refuses() Refusal { return k.row().refuses }

// Available returns nil if the real engine of this version has the kind; otherwise an error that says why not:
// ErrUnknownKind with the names that are allowed, or ErrUnavailable with the reason.
func (k Kind) Available() error { return k.AvailableOn(false) }

// AvailableOn is Available for the virtual engine if virtual is set, else for the real one.
func (k Kind) AvailableOn(virtual bool) error {
	switch r := k.row(); {
	case r == &unknown:
		return fmt.Errorf("%w %q: known are %s", ErrUnknownKind, string(k), knownKinds())
	case r.notReal != "" && !(virtual && r.scope != ScopeElsewhere):
		return fmt.Errorf("%w: %q cannot be injected: %s", ErrUnavailable, string(k), r.notReal)
	}
	return nil
}

// ParseKinds reads a comma-separated list of kinds, as given to --faults; "-redis-wipe" takes one out of the usual ones (Wanted).
// Blanks around a name are ignored, a kind named twice counts once, an empty list is refused. The errors are those of AvailableOn,
// or ErrInvalid.
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

// NodeTarget names the i-th node slot, counted from 1: a run of 10 nodes has "node-1" to "node-10", and those that join
// later are "node-11" and on.
func NodeTarget(i int) string { return nodePrefix + strconv.Itoa(i) }

// SessionTarget names the i-th session in the order of creation, counted from 1.
func SessionTarget(i int) string { return sessionPrefix + strconv.Itoa(i) }

// NodeIndex returns the number of a node slot named by NodeTarget; false if the name is none.
func NodeIndex(target string) (int, bool) { return index(target, nodePrefix) }

// SessionIndex returns the number of a session named by SessionTarget; false if the name is none.
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

// knownKinds names all that can be injected, and which of them in virtual time only.
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

// Unit returns the unit in which the amount of such a fault is printed, behind the number, and what a Jitter of 0 means and any other;
// no ways: it is how much the amount varies.
func (k Kind) Unit() (unit string, ways [2]string) {
	r := k.row()
	if r.unit == "" {
		return "ms", r.ways
	}
	return r.unit, r.ways
}
