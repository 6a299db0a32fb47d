package sim

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

const askedFleet = `
engine: virtual
nodes: 3
sessions: 9
seed: 7
duration: 4m
timings: {ttl: 30s, poll: 5s, serve: 10ms}
`

// TestQuestions plays the questions of docs/design.md in virtual time, each as a plan, and compares what happens to one lease with
// testdata/questions. Times there are seconds since the first fault.
func TestQuestions(t *testing.T) {
	datadriven.RunTest(t, "testdata/questions", func(t *testing.T, d *datadriven.TestData) string {
		watched := "session-1"
		d.MaybeScanArgs(t, "lease", &watched)
		s, err := load("questions", func(string) ([]byte, error) { return []byte(askedFleet + "plan:\n" + d.Input), nil })
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		c := resolved(t, s)
		story := newTimeline(watched, c.Plan.Faults[0].At)
		if _, err := runVirtual(t.Context(), c, *c.Plan, nil, story.add, nil); err != nil {
			d.Fatalf(t, "%v", err)
		}
		verdicts, _, _, err := JudgeVirtual(t.Context(), c, *c.Plan, nil)
		if err != nil {
			d.Fatalf(t, "%v", err)
		}
		for _, v := range verdicts {
			if v.Verdict == check.Fail {
				d.Fatalf(t, "%s: %s", v.ID, v.Detail)
			}
		}
		return story.String()
	})
}

// timeline records what happens to one lease: the reports of owners, its changes in Redis, and the times without polls.
type timeline struct {
	session string // its ID, known once the session exists
	index   int    // in order of creation
	from    int64
	sure    map[string]bool // by instance: its last renewal succeeded
	polled  int64
	lines   []string
}

func newTimeline(session string, from time.Duration) *timeline {
	l := &timeline{from: int64(from), sure: map[string]bool{}}
	fmt.Sscanf(session, "session-%d", &l.index)
	return l
}

// add takes an event. Events before the first fault are omitted.
func (l *timeline) add(e history.Event) {
	switch {
	case e.Kind == history.SessionAdded:
		if l.index--; l.index == 0 {
			l.session = e.Session
		}
	case e.Kind == history.Phase && e.Reason == "storm":
		l.from += e.T
	}
	l.note(&e)
	if e.T < l.from {
		l.lines = l.lines[:0]
	}
}

func (l *timeline) note(e *history.Event) {
	if e.Kind == history.FaultStart || e.Kind == history.FaultEnd {
		l.tell(e.T, fmt.Sprintf("%s %s %s", e.Kind, e.Reason, e.Node))
	}
	if e.Kind == history.Exited {
		delete(l.sure, e.Instance)
	}
	l.noteServers(e)
	if e.Session != l.session || l.session == "" {
		return
	}
	switch e.Kind {
	case history.Acquired, history.Lost, history.Released, history.PollCancelled:
		l.sure[e.Instance] = e.Kind == history.Acquired
		l.tell(e.T, fmt.Sprintf("%s: %s %s", e.Node, e.Kind, e.Reason))
	case history.RenewFailed:
		if l.sure[e.Instance] {
			why, _, _ := strings.Cut(e.Reason, ": run") // the name of the epoch
			l.tell(e.T, fmt.Sprintf("%s: %s %s", e.Node, e.Kind, why))
		}
		l.sure[e.Instance] = false
	case history.Renewed:
		if !l.sure[e.Instance] {
			l.tell(e.T, fmt.Sprintf("%s: %s", e.Node, e.Kind))
		}
		l.sure[e.Instance] = true
	case history.Arrived:
		if l.polled != 0 && e.T-l.polled > int64(5500*time.Millisecond) {
			l.tell(e.T, fmt.Sprintf("polled again, by another poll than that of %s", l.clock(l.polled)))
		}
		l.polled = e.T
	case history.Rejected:
		l.tell(e.T, "a poll is refused by its fence")
	case history.RedisGranted, history.RedisDeleted:
		l.tell(e.T, cmp.Or(e.Node, "redis")+": "+e.Kind.String())
	}
}

// noteServers records the changes of a Redis with replicas.
func (l *timeline) noteServers(e *history.Event) {
	switch {
	case e.Kind == history.RedisLife:
		l.tell(e.T, "redis: another life by "+e.Reason)
	case e.Kind == history.RedisMajority && e.N == 0:
		l.tell(e.T, "redis: no majority is together")
	case e.Kind == history.RedisMajority:
		l.tell(e.T, "redis: a majority is together")
	case e.Kind == history.Routed && e.N == 0:
		l.tell(e.T, e.Node+": is not led to the master")
	case e.Kind == history.Routed:
		l.tell(e.T, e.Node+": is led to the master")
	}
}

func (l *timeline) clock(t int64) string {
	return fmt.Sprintf("%.1f s", time.Duration(t-l.from).Seconds())
}

func (l *timeline) tell(t int64, text string) {
	l.lines = append(l.lines, fmt.Sprintf("%8s  %s", l.clock(t), strings.TrimSpace(text)))
}

func (l *timeline) String() string {
	return strings.Join(slices.Compact(l.lines), "\n") + "\n"
}
