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

// system is what the judge knows of one system: its guarantees, and who judges them. What a checker needs of others it gets
// when it is made, so that a system is a list of checkers and nothing else.
type system struct {
	guarantees []Verdict // the constants of each verdict, in order; documents number them
	safety     int       // the first so many decide a run whether they are criteria or not, and are never excused
	checkers   func(logs *Logs) []checker
	exercises  func(p Params, id string) bool // whether a run of these parameters can put it to the test
}

// systems has every system that this version can judge.
var systems = map[string]*system{
	SystemPolling:  polling,
	SystemElection: electionSystem,
	SystemIntents:  intentSystem,
}

// Systems returns the names of the systems that this version can judge, in a fixed order.
func Systems() []string {
	return slices.DeleteFunc([]string{SystemPolling, SystemElection, SystemIntents}, func(name string) bool {
		return systems[name] == nil
	})
}

// systemOf returns the system of that name; that of polling if it is empty or unknown, as in reports of older versions.
func systemOf(name string) *system {
	if s := systems[name]; s != nil {
		return s
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
