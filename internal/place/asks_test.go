package place

import (
	"slices"
	"strconv"
	"testing"

	"github.com/leasestorm/leasestorm/internal/pause"
	"github.com/leasestorm/leasestorm/internal/term"
)

// Whoever may publish can ask without end, with names without end: what is kept of that is bounded.
func TestRequestsKeptAreBounded(t *testing.T) {
	for _, ids := range [][]string{{"x"}, slices.Repeat([]string{"x"}, 100_000)} {
		q := &requests{k: term.New(term.Config{}), cfg: &pause.Config{}}
		for n := range 2 * asksMax {
			q.Hear("stranger"+strconv.Itoa(n), ids)
		}
		kept := 0
		for _, a := range q.asks {
			kept += bytesOf(a.ids)
		}
		if kept == 0 || kept > askBytesMax || len(q.asks) > asksMax {
			t.Errorf("%d requests with %d bytes of names are kept, want some and at most %d with %d", len(q.asks), kept, asksMax, askBytesMax)
		}
	}
}
