package main

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

const second = int64(time.Second)

// run writes events to a folder and measures them.
func run(t *testing.T, events ...history.Event) result {
	t.Helper()
	dir := t.TempDir()
	w, err := history.Create(dir + "/" + history.FileName)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if err := w.Write(&events[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := measure(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func said(at int64, kind history.Kind, node string) history.Event {
	return history.Event{T: at * second, Kind: kind, Node: node, Instance: "of-" + node, Session: "s"}
}

// An owner that has learned of nothing trusts its lease until it says so. While it is frozen, it does nothing.
func TestOwnersWhoKnowNothing(t *testing.T) {
	freeze := said(6, history.FaultStart, "a")
	freeze.Reason = "freeze"
	r := run(t,
		said(1, history.Ready, "a"), said(1, history.Ready, "b"), said(2, history.Acquired, "a"), said(5, history.PollStart, "a"),
		freeze, said(9, history.Acquired, "b"), said(12, history.FaultEnd, "a"), said(13, history.PollStart, "a"),
		said(14, history.Lost, "a"), said(15, history.Released, "b"), said(16, history.Acquired, "a"), said(20, history.Exited, "a"),
		said(23, history.Acquired, "b"),
	)
	if r.two != 2*time.Second || r.asleep != 3*time.Second || r.late != 1 || r.faults != 1 {
		t.Errorf("%+v, want 2 s of two owners, 3 s of a frozen one, 1 late poll", r)
	}
	if len(r.handovers) != 1 || r.handovers[0] != time.Second || len(r.takeovers) != 1 || r.takeovers[0] != 3*time.Second {
		t.Errorf("handovers %v, takeovers %v", r.handovers, r.takeovers)
	}
}

// A deadline ends a belief, and so does the end of a poll of an instance that asks before each.
func TestOwnersWhoStop(t *testing.T) {
	until := said(2, history.Acquired, "a")
	until.Until = 4 * second
	asks := said(1, history.Ready, "b")
	asks.Reason = history.Asks
	r := run(t, said(1, history.Ready, "a"), asks, until, said(3, history.Acquired, "b"), said(5, history.PollStart, "b"),
		said(6, history.PollEnd, "b"), said(7, history.Acquired, "a"), said(8, history.PollStart, "b"), said(10, history.PollEnd, "b"))
	if r.two != 2*time.Second || r.late != 1 {
		t.Errorf("%+v, want the 2 s of b's late poll", r)
	}
}
