package virtual

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// A session that is paused twice is resumed when the second pause ends, and not said to be before: nobody polls it until then.
func TestSessionIsPausedUntilTheLastPauseEnds(t *testing.T) { // G9
	cfg := Config{Nodes: 3, Sessions: 1, TTL: 30 * time.Second, Poll: 5 * time.Second, Start: time.Second,
		Storm: 150 * time.Second, Calm: 60 * time.Second}
	plan := fault.Plan{Version: 1, Faults: []fault.Fault{
		{At: 30 * time.Second, Kind: fault.SessionPause, Target: fault.SessionTarget(0), For: 40 * time.Second},
		{At: 60 * time.Second, Kind: fault.SessionPause, Target: fault.SessionTarget(0), For: 60 * time.Second},
		{At: 75 * time.Second, Kind: fault.RedisMemory, For: time.Second},
	}}
	var events []history.Event
	if _, err := Run(cfg, plan, 1, func(e history.Event) { events = append(events, e) }); err != nil {
		t.Fatal(err)
	}
	var told []history.Kind
	ended := int64(0)
	for _, e := range events {
		switch e.Kind {
		case history.SessionPaused, history.SessionResumed:
			told = append(told, e.Kind)
			ended = e.T
		}
	}
	if len(told) != 2 || told[0] != history.SessionPaused || told[1] != history.SessionResumed {
		t.Errorf("told of %v, want one pause and one return", told)
	}
	if ended < int64(120*time.Second) {
		t.Errorf("the session is said to be back at %v, while the second pause lasts", time.Duration(ended))
	}
	r, err := check.Judge(params(cfg, plan), inOrder(events), nil)
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := r.Verdict("G9"); v.Verdict == check.Fail {
		t.Errorf("G9 is %s: %s", v.Verdict, v.Detail)
	}
}
