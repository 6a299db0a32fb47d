package check

import (
	"fmt"
	"slices"
	"strings"
)

// The systems that a run can have (Params.System): what its nodes share.
const (
	SystemPolling  = "polling"  // many leases, each on a polling session
	SystemElection = "election" // one lease that all instances want: leadership
	SystemIntents  = "intents"  // leases on demand, taken in pairs by workers
)

// system is one list of guarantees and of the checkers that judge them. A checker gets others that it needs when it is made.
type system struct {
	name       string
	guarantees []guarantee // in order; documents number them
	safety     int         // the first so many decide a run whether they are criteria or not, and are never excused
	checkers   func(logs *Logs) []checker
	exercises  func(p Params, id string) bool // whether a run of these parameters can put it to the test
}

// guarantee is the constants of its verdict, and what it promises in a few words; docs/guarantees.md says it in full.
type guarantee struct {
	Verdict
	promise string
}

// systems has every system that this version can judge, in a fixed order.
var systems = []*system{polling, electionSystem, intentSystem}

// Systems returns the names of the systems that this version can judge, in a fixed order.
func Systems() (names []string) {
	for _, s := range systems {
		names = append(names, s.name)
	}
	return names
}

// systemOf returns the system of that name; that of polling if it is empty or unknown, as in reports of older versions.
func systemOf(name string) *system {
	for _, s := range systems {
		if s.name == name {
			return s
		}
	}
	return polling
}

func (s *system) ids() []string {
	ids := make([]string, len(s.guarantees))
	for i, v := range s.guarantees {
		ids[i] = v.ID
	}
	return ids
}

// IDs returns the IDs of all guarantees of a system, in order.
func IDs(system string) []string { return systemOf(system).ids() }

// Promise says in a few words what the guarantee of that ID promises, "" of one that this version does not know.
func Promise(id string) string {
	for _, s := range systems {
		for i := range s.guarantees {
			if g := &s.guarantees[i]; g.ID == id {
				return g.promise
			}
		}
	}
	return ""
}

// Safety returns the IDs of those guarantees of a system that are never excused: they decide a run in any case.
func Safety(system string) []string {
	s := systemOf(system)
	return s.ids()[:s.safety]
}

// ParseCriteria reads a list of guarantees separated by commas ("G1,g5"), as --criteria and scenario files give it. Each is
// named once, in order of its number. Guarantees of any system are known.
func ParseCriteria(list string) ([]string, error) {
	var all, ids []string
	for _, name := range Systems() {
		all = append(all, IDs(name)...)
	}
	for id := range strings.SplitSeq(list, ",") {
		if id = strings.ToUpper(strings.TrimSpace(id)); id == "" {
			continue
		}
		if !slices.Contains(all, id) {
			return nil, fmt.Errorf("%w %q: known are %s", ErrCriterion, id, strings.Join(all, ", "))
		}
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("%w: none named; known are %s", ErrCriterion, strings.Join(all, ", "))
	}
	return slices.DeleteFunc(all, func(id string) bool { return !slices.Contains(ids, id) }), nil
}
