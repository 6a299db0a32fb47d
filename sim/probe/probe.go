// Package probe checks a node against the node protocol (docs/node-protocol.md), rule by rule. It reads the history of a short run
// without faults, and finds missing and wrong events. For each missing event it names the guarantees that stay unknown.
//
// It reads recorded data only. It cannot show that a node is safe: that needs faults and the judge (sim/check).
package probe

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Rule is the finding about one rule of the protocol.
type Rule struct {
	Name    string        `json:"rule"`           // an event of the protocol, or the subject of the rule
	Verdict check.Outcome `json:"verdict"`        // Fail: it is violated; Unknown: the guarantees in Open cannot be judged
	Says    string        `json:"says"`           // the observation, for a reader
	Open    []string      `json:"open,omitempty"` // guarantees that stay unknown or are judged less exactly
}

// Criteria returns the default guarantees of a probe: those by which any node can be judged, whatever its placement.
func Criteria() []string { return []string{"G1", "G2", "G3", "G4", "G10", "G13"} }

// Inspect checks the history of a run without faults against the rules, in their order. p are the parameters of the run, and judged are
// the judge's verdicts, whose failures become rules too. An error of events ends the inspection.
func Inspect(p check.Params, events iter.Seq2[history.Event, error], judged []check.Verdict) ([]Rule, error) {
	s := newSeen(p)
	for e, err := range events {
		if err != nil {
			return nil, fmt.Errorf("probe: %w", err)
		}
		s.event(&e)
	}
	var all []Rule
	for _, r := range rules {
		outcome, says := r.look(s)
		found := Rule{Name: r.name, Verdict: outcome, Says: says}
		if outcome == check.Unknown {
			found.Open = r.open
		}
		all = append(all, found)
	}
	for _, v := range judged {
		if v.Verdict == check.Fail {
			says, _, _ := strings.Cut(v.Detail, "; ")
			all = append(all, Rule{Name: v.ID, Verdict: check.Fail, Says: "broken without any fault: " + says})
		}
	}
	return all, nil
}

// Decide returns the verdict on the rules: Fail if any rule failed, else Unknown if a rule leaves one of the criteria open.
func Decide(rules []Rule, criteria []string) check.Outcome {
	out := check.Pass
	for _, r := range rules {
		switch {
		case r.Verdict == check.Fail:
			return check.Fail
		case r.Verdict == check.Unknown && slices.ContainsFunc(r.Open, func(id string) bool { return slices.Contains(criteria, id) }):
			out = check.Unknown
		}
	}
	return out
}

type rule struct {
	name string
	open []string // guarantees that stay unknown if the rule is
	look func(*seen) (check.Outcome, string)
}

// rules are in the order in which a node meets them.
var rules = []rule{
	{"ready", nil, (*seen).ready},
	{"lines", nil, (*seen).lines},
	{"instance", nil, (*seen).ids},
	{"t", []string{"G1", "G4"}, (*seen).stamps},
	{"acquired", Criteria(), (*seen).acquired},
	{"until", []string{"G4"}, (*seen).windows},
	{"fence", []string{"G3"}, (*seen).fences},
	{"renewStart", nil, (*seen).renewStart},
	{"renewed", []string{"G4"}, (*seen).renewed},
	{"polls", Criteria(), (*seen).polls},
	{"X-Fence", []string{"G3"}, (*seen).pollFences},
	{"pollStart", []string{"G4"}, (*seen).pollStart},
	{"pollEnd", []string{"G4"}, (*seen).pollEnd},
	{"released", []string{"G13"}, (*seen).released},
	{"stopped", []string{"G13"}, (*seen).stopped},
	{"owner in Redis", []string{"G10"}, (*seen).owners},
	{"lost, renewFailed", nil, (*seen).refusals},
}

func (s *seen) ready() (check.Outcome, string) {
	switch n := s.words[history.Ready]; {
	case n == 0:
		return check.Fail, "no node said it"
	case s.version == 0:
		return check.Pass, fmt.Sprintf("said by %d nodes, without \"protocol\": taken for version 1", n)
	default:
		return check.Pass, fmt.Sprintf("said by %d nodes, which speak version %d", n, s.version)
	}
}

func (s *seen) lines() (check.Outcome, string) {
	if s.malformed.n > 0 {
		return check.Fail, fmt.Sprintf("%d lines on standard output are none of the protocol, first: %s", s.malformed.n, s.malformed.first)
	}
	if len(s.strange) > 0 {
		return check.Pass, "all are of the protocol; words that it does not know are not judged: " + names(s.strange)
	}
	return check.Pass, "all are of the protocol"
}

func (s *seen) ids() (check.Outcome, string) {
	if s.sharedID != "" {
		return check.Fail, s.sharedID + ": each process needs one of its own, also after a restart"
	}
	return check.Pass, fmt.Sprintf("%d IDs, each of one process", len(s.instances))
}

func (s *seen) stamps() (check.Outcome, string) {
	if s.wrongClocks.n > 0 {
		return check.Fail, fmt.Sprintf("%d stamps are not on CLOCK_MONOTONIC in ns, first: %s", s.wrongClocks.n, s.wrongClocks.first)
	}
	return check.Pass, "on the clock of the host, where it is given"
}

func (s *seen) acquired() (check.Outcome, string) {
	switch n := s.words[history.Acquired]; {
	case n == 0 && s.keys.grants == 0:
		return check.Unknown, "nobody acquired anything: nothing can be judged"
	case n == 0:
		return check.Fail, fmt.Sprintf("Redis granted %d leases, and nobody said acquired", s.keys.grants)
	default:
		return check.Pass, fmt.Sprintf("said %d times", n)
	}
}

func (s *seen) windows() (check.Outcome, string) {
	limit := s.TTL + slack
	switch {
	case s.until.past.n > 0:
		return check.Fail, fmt.Sprintf("%d windows had ended before they were told, the first %v before: until is on the clock of t",
			s.until.past.n, s.until.past.first)
	case s.until.far.n > 0:
		return check.Fail, fmt.Sprintf("%d windows end more than %v after they were told, the first %v: until is on the clock of t, and "+
			"counts from before the send", s.until.far.n, limit, s.until.far.first)
	case s.asks:
		return check.Pass, "not needed: the nodes ask Redis before each use"
	case s.until.missing > 0:
		return check.Unknown, fmt.Sprintf("%d of %d acquired and renewed give none: the node is taken to believe until it says otherwise",
			s.until.missing, s.until.missing+s.until.given)
	}
	return check.Pass, fmt.Sprintf("given by all %d acquired and renewed", s.until.given)
}

func (s *seen) fences() (check.Outcome, string) {
	if s.unfenced > 0 {
		return check.Unknown, fmt.Sprintf("%d of %d acquired name none", s.unfenced, s.words[history.Acquired])
	}
	return check.Pass, "named by all acquired"
}

func (s *seen) renewStart() (check.Outcome, string) {
	if s.words[history.RenewStart] == 0 {
		return check.Pass,
			"not said, and not needed: G10 then matches no extension to an attempt, and takes a late renewal for one sent when it was answered"
	}
	return check.Pass, fmt.Sprintf("said %d times", s.words[history.RenewStart])
}

func (s *seen) renewed() (check.Outcome, string) {
	switch n := s.words[history.Renewed]; {
	case n > 0:
		return check.Pass, fmt.Sprintf("said %d times", n)
	case s.keys.extensions > 0 && s.until.given == 0: // the library itself reports the end of a lease
		return check.Unknown, fmt.Sprintf("Redis shows %d renewals that nobody told of, as of a library that extends leases by itself",
			s.keys.extensions)
	case s.keys.extensions > 0:
		return check.Fail, fmt.Sprintf("Redis shows %d renewals, and nobody said renewed", s.keys.extensions)
	}
	if s.keys.grants == 0 {
		return check.Unknown, "not said, and Redis does not show it either"
	}
	return check.Unknown, "nothing was renewed: leases are held for one TTL at most"
}

func (s *seen) polls() (check.Outcome, string) {
	switch {
	case s.arrivals == 0:
		return check.Unknown, "the target saw no poll that it could accept: POST /poll/<id> with X-Instance"
	case s.unowned.n > 0:
		return check.Fail, fmt.Sprintf("%d of %d polls came from an instance that had not said acquired, or had said lost or released, "+
			"first: %s", s.unowned.n, s.arrivals, s.unowned.first)
	}
	return check.Pass, fmt.Sprintf("%d, each by who had said acquired", s.arrivals)
}

func (s *seen) pollFences() (check.Outcome, string) {
	if s.unfencedPolls > 0 {
		return check.Unknown, fmt.Sprintf("%d of %d polls have none: nothing protects the target from a process that was frozen",
			s.unfencedPolls, s.arrivals)
	}
	return check.Pass, "sent with all polls"
}

func (s *seen) pollStart() (check.Outcome, string) {
	return s.told(history.PollStart, "it counts when a poll arrived, not when it began")
}

func (s *seen) pollEnd() (check.Outcome, string) {
	return s.told(history.PollEnd, "polls that run on when the window closes are not seen")
}

func (s *seen) told(k history.Kind, without string) (check.Outcome, string) {
	if n := s.words[k]; n > 0 {
		return check.Pass, fmt.Sprintf("said %d times", n)
	}
	return check.Unknown, "not said: " + without
}

func (s *seen) released() (check.Outcome, string) {
	n := s.words[history.Released]
	switch {
	case n == 0 && s.keys.deletions > 0:
		return check.Fail, fmt.Sprintf("%d leases were deleted before their end, and nobody said released", s.keys.deletions)
	case n == 0:
		return check.Unknown, "nothing was released when the nodes were asked to stop"
	case 2*s.handed.late > s.handed.matched:
		return check.Fail, fmt.Sprintf("%d of %d are stamped after Redis had deleted the key, by up to %v: another may have acquired it "+
			"by then; stamp it before the DEL is sent", s.handed.late, s.handed.matched, s.handed.latest.Round(10*time.Microsecond))
	}
	return check.Pass, fmt.Sprintf("said %d times", n)
}

func (s *seen) stopped() (check.Outcome, string) {
	switch {
	case s.unclean != "":
		return check.Fail, "asked to stop by SIGTERM, " + s.unclean
	case s.words[history.Stopped] < s.words[history.Ready]:
		return check.Unknown, fmt.Sprintf("said by %d of %d nodes", s.words[history.Stopped], s.words[history.Ready])
	}
	return check.Pass, "said by all, which exited with 0"
}

func (s *seen) owners() (check.Outcome, string) {
	strangers := s.strangers()
	switch {
	case !s.Tap:
		return check.Unknown, "what this Redis grants is not seen"
	case s.keys.grants == 0:
		return check.Unknown, "no lease key was set: leases that are kept elsewhere than under LEASESTORM_LEASE_PREFIX are not seen, and G1 " +
			"has the nodes' words alone"
	case s.keys.endless > 0:
		return check.Fail, fmt.Sprintf("%d lease keys were set without an expiry", s.keys.endless)
	case strangers > 0:
		return check.Unknown, fmt.Sprintf("%d of %d lease keys hold what no node calls itself: G10 does not know whose they are", strangers,
			s.keys.grants)
	}
	return check.Pass, fmt.Sprintf("%d lease keys hold the ID of their owner", s.keys.grants)
}

func (s *seen) refusals() (check.Outcome, string) {
	n := s.words[history.Lost] + s.words[history.RenewFailed]
	return check.Pass, fmt.Sprintf("said %d times; a run without faults hardly asks for them: --scenario safety does", n)
}
