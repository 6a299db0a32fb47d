package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/nodelogs"
)

// The systems that a run can have (Params.System).
const (
	SystemPolling  = "polling"  // many leases, each on a polling session
	SystemElection = "election" // one lease that all instances want: leadership
	SystemIntents  = "intents"  // leases on demand, acquired in pairs by workers
)

// system is a list of guarantees and the checkers that judge them.
type system struct {
	name       string
	guarantees []guarantee // in the order of their numbers
	safety     int         // so many of the first are never excused, and decide every run
	checkers   func(logs *nodelogs.Logs) []checker
	exercises  func(p Params, id string) bool // whether a run of these parameters can put the guarantee to the test
}

// guarantee holds the constants of its verdict and a short form of its promise. docs/guarantees.md has the full text.
type guarantee struct {
	Verdict
	promise string
}

// systems lists every system that this version can judge, in a fixed order.
var systems = []*system{polling, electionSystem, intentSystem}

// Systems returns the names of the systems that this version can judge, in a fixed order.
func Systems() (names []string) {
	for _, s := range systems {
		names = append(names, s.name)
	}
	return names
}

// systemOf returns the system of that name. An empty or unknown name, as in reports of older versions, means polling.
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

// Promise returns the short form of what a guarantee promises, "" for an unknown ID.
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

// Safety returns the IDs of the guarantees of a system that are never excused. They decide every run.
func Safety(system string) []string {
	s := systemOf(system)
	return s.ids()[:s.safety]
}

// ParseCriteria parses a list of guarantees separated by commas ("G1,g5"), as --criteria and scenario files use it. It returns each ID
// once, in the order of their numbers. It accepts the guarantees of all systems; an unknown ID or an empty list is an ErrCriterion.
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
