package check

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/nodelogs"
)

// An incomplete history proves nothing about the entries after its end.
func TestG12OfAHistoryWithoutAnEnd(t *testing.T) {
	events := []history.Event{
		{T: 1, Kind: history.Ready, Node: "node-1", Instance: "i"},
		{T: 2, Kind: history.Acquired, Node: "node-1", Instance: "i", Session: "s", Fence: 7, Until: 9},
	}
	logs := nodelogs.New()
	for fence := range int64(2 * killedSlack) {
		logs.Add(&nodelogs.Entry{Event: "acquired", Instance: "i", Endpoint: "s", Fence: 7 + fence, HasFence: true, HasTime: true})
	}
	for name, broken := range map[string]error{"ended": nil, "cut off": errors.New("line 3 is cut off")} {
		r, _ := Judge(storyParams(), func(yield func(history.Event, error) bool) {
			if yield(events[0], nil) && yield(events[1], nil) && broken != nil {
				yield(history.Event{}, broken)
			}
		}, logs)
		if v, _ := r.Verdict("G12"); v.Verdict != Unknown || !strings.Contains(v.Detail, "the history has no end") {
			t.Errorf("%s: %s: %s", name, v.Verdict, v.Detail)
		}
	}
	end := history.Event{T: int64(10 * time.Second), Kind: history.Phase, Reason: "end"}
	stall := history.Event{T: int64(4 * time.Second), Until: int64(9 * time.Second), Kind: history.Stall}
	for name, c := range map[string]struct {
		events []history.Event
		want   Outcome
	}{
		"with an end":                         {append(events[:2:2], end), Fail},
		"with an end, while the host stalled": {append(events[:2:2], stall, end), Unknown},
	} {
		r, err := Judge(storyParams(), sequence(c.events), logs)
		if v, _ := r.Verdict("G12"); err != nil || v.Verdict != c.want {
			t.Errorf("%s: %s: %s, %v", name, v.Verdict, v.Detail, err)
		}
	}
}
