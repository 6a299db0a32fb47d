package check

import (
	"fmt"
	"testing"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Questions about the recent past skip faults that ended long before.
func TestHorizonPassesWhatIsOver(t *testing.T) {
	const many = 1000
	w := newWorld(storyParams())
	ttl := int64(w.TTL)
	for i := range int64(many) {
		w.inject(&history.Event{T: i, Kind: history.FaultStart, N: i, Node: "n", Reason: string(fault.Crash)})
	}
	w.now = 1000 * ttl
	w.inject(&history.Event{T: w.now - 10*ttl, Kind: history.FaultStart, N: many, Node: "n", Reason: string(fault.Crash)})
	for back, want := range map[int64]int{1: 1, 10: 1, 1000: many + 1} {
		if got := len(w.faults.since(w.now - back*ttl)); got != want {
			t.Errorf("%d TTLs back: %d faults, want %d", back, got, want)
		}
	}
}

// An accepted start looks for a rival only among running sessions.
func TestRivalsRun(t *testing.T) {
	w := newWorld(storyParams())
	b := newIntents()
	b.w = w
	g := &i5{intentRule: intentRule{book: b}}
	g.w = w
	v := b.want("svc:p:b")
	for i := range 1000 {
		id := fmt.Sprint(i)
		for _, state := range []string{stateRunning, stateEnded} {
			b.state(&history.Event{Session: id, Reason: state})
		}
		b.session(id).want = v
	}
	if g.rivalled(b.session("new"), v) {
		t.Error("there is a rival where none runs")
	}
	b.state(&history.Event{Session: "rival", Reason: stateRunning})
	b.session("rival").want = v
	w.now = 1
	b.session("rival").asked = 1
	if s := b.session("new"); !g.rivalled(s, v) || g.rivalled(b.session("rival"), v) || g.rivalled(s, b.want("other:p:b")) {
		t.Error("another session of the service runs")
	}
	if b.lost(); g.rivalled(b.session("new"), v) {
		t.Error("what ran before a loss of data is no rival")
	}
}
