package page

import (
	"fmt"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
)

// UUIDs are shortened to the part that distinguishes them. Other names stay whole.
func TestSessionsAreToldApart(t *testing.T) {
	for format, want := range map[string]string{
		"%08x-0000-4000-8000-000000000000":      "0000000b",
		"00000000-0000-4000-8000-%012d":         "00000011",
		"00000000-0000-4%03d-8000-00000000":     "00000000-0000-4011-8000-00000000",
		"00000000-0000-4000-8%03d-000000000000": "000-8011",
	} {
		m := &model{}
		for i := range 12 {
			m.Sessions = append(m.Sessions, session{Name: fmt.Sprintf(format, i)})
		}
		m.Part = partOf(m.Sessions)
		if got := m.short(m.Sessions[11].Name); got != want {
			t.Errorf("%s is shown as %q, not %q", m.Sessions[11].Name, got, want)
		}
	}
}

// A report of one of its two owners ends an overlap, whatever a third node reports at that moment.
func TestTheEndOfAnOverlapIsOfItsOwners(t *testing.T) {
	events := overlapped(noUntil, "")
	for i, e := range events {
		if e.Kind == history.Lost {
			third := history.Event{
				T: e.T - 1, Kind: history.RenewFailed, Node: "node-3", Instance: "inst-3", Session: lease1, Reason: "not owner",
			}
			events = append(events[:i:i], append([]history.Event{third}, events[i:]...)...)
			break
		}
	}
	dir, r := saved(t, params(), events)
	steps := build(dir, r).Breaks[0].Steps
	if last := steps[len(steps)-1].Text; last != "node-1 learns of it and lets go (lost, “not owner”): 2.00 s with two owners." {
		t.Errorf("the last step says %q", last)
	}
}
