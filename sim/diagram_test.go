package sim

import (
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
)

// A reason with a line end in it, which a node or a saved history may give, breaks no row of a drawing.
func TestDiagramKeepsItsRows(t *testing.T) {
	d := diagram{slots: map[string]string{}, numbers: map[string]int{}, last: map[lane]string{}, ends: map[lane]int64{}, session: "s"}
	events := []history.Event{
		{Kind: history.Phase, Reason: "start\nof it"},
		{T: 1, Kind: history.Lost, Node: "node-1", Session: "s", Reason: "no\nanswer"},
	}
	d.head(events)
	for i := range events {
		d.event(&events[i])
	}
	text := d.String()
	for _, want := range []string{`--- start\u000aof it`, `lost: no\u000aanswer`} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %q:\n%s", want, text)
		}
	}
}
