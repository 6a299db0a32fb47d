package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

// told is a reply in one line: each caller and its answer, with a dot after a caller that no longer waits, and the message to the core.
func told(r Reply[string, string]) string {
	var words []string
	for _, c := range r.Heard {
		word := []string{"won", "held", "refused " + r.Why}[c.Word]
		if c.Ends {
			word += "."
		}
		words = append(words, c.Caller+" "+word)
	}
	for _, w := range []struct {
		word string
		said bool
	}{{"given", r.Given}, {"want", r.Want && !r.Wait}, {"wait", r.Want && r.Wait}, {"drop", r.Drop}} {
		if w.said {
			words = append(words, w.word)
		}
	}
	return strings.Join(words, ", ")
}

func TestWaiters(t *testing.T) {
	why := func(s string) func() string { return func() string { return s } }
	type waiters = Waiters[string, string]
	for _, c := range []struct {
		name string
		play func(w *waiters) []Reply[string, string]
		want []string
	}{
		{"one attempt is answered, whatever comes of it", func(w *waiters) []Reply[string, string] {
			return []Reply[string, string]{
				w.Want("l", "a", false, false), w.Refused("l", core.CauseHeld, why("1")),
				w.Want("l", "a", false, false), w.Acquired("l"), w.Want("l", "b", false, true),
			}
		}, []string{"want", "a refused 1.", "want", "a won., given", "b held."}},
		{"who waits goes on, and hears why; who comes meanwhile for one attempt hears that too", func(w *waiters) []Reply[string, string] {
			return []Reply[string, string]{
				w.Want("l", "a", true, false), w.Refused("l", core.CauseHeld, why("1")), w.Want("l", "b", false, false),
				w.Want("l", "c", true, false), w.Acquired("l"), w.Over("l"), w.Acquired("l"), w.Over("l"),
			}
		}, []string{"wait", "a refused 1", "b refused 1.", "c refused 1, wait", "a won., c held, given", "wait", "c won., given", ""}},
		{"a second attempt waits for the first one's answer", func(w *waiters) []Reply[string, string] {
			return []Reply[string, string]{w.Want("l", "a", false, false), w.Want("l", "b", false, false), w.Acquired("l")}
		}, []string{"want", "", "a won., b held., given"}},
		{"waiting that cannot help ends, and the lease is not wanted any more", func(w *waiters) []Reply[string, string] {
			return []Reply[string, string]{w.Want("l", "a", true, false), w.Refused("l", core.CauseWrongType, why("1")), w.Over("l")}
		}, []string{"wait", "a refused 1., drop", ""}},
		{"the last who gives up takes the asking back, unless the lease is held or somebody stands", func(w *waiters) []Reply[string, string] {
			return []Reply[string, string]{
				w.Want("l", "a", true, false), w.Want("l", "b", true, false), w.Unwant("l", "a", false), w.Unwant("l", "b", false),
				w.Want("l", "a", true, true), w.Unwant("l", "a", true), w.Stand("l", false), w.Want("l", "a", false, false), w.Unwant("l", "a", false),
				w.StandDown("l", false), w.StandDown("l", false),
			}
		}, []string{"wait", "wait", "", "drop", "a held", "", "wait", "wait", "", "drop", ""}},
		{"what nobody asked for any more is given back", func(w *waiters) []Reply[string, string] {
			return []Reply[string, string]{w.Acquired("l"), w.Stand("l", false), w.Acquired("l"), w.Acquired("l")}
		}, []string{"drop", "wait", "given", "drop"}},
		{"callers go before who stands, who waits on", func(w *waiters) []Reply[string, string] {
			return []Reply[string, string]{w.Stand("l", false), w.Want("l", "a", true, false), w.Acquired("l"), w.Over("l"), w.Acquired("l")}
		}, []string{"wait", "wait", "a won., given", "wait", "given"}},
		{"what is shared is everybody's, and needs nobody", func(w *waiters) []Reply[string, string] {
			w.Shared = true
			return []Reply[string, string]{w.Acquired("l"), w.Want("l", "a", false, false), w.Want("l", "b", true, false), w.Acquired("l")}
		}, []string{"", "want", "wait", "a won., b won."}},
	} {
		var w waiters
		for i, r := range c.play(&w) {
			if got := told(r); got != c.want[i] {
				t.Errorf("%s: step %d: %q, want %q", c.name, i+1, got, c.want[i])
			}
		}
	}
}

func TestWaitersCloseAnswersAll(t *testing.T) {
	var w Waiters[string, string]
	w.Want("m", "a", true, false)
	w.Want("l", "b", false, false)
	w.Stand("l", false)
	if got := fmt.Sprint(w.Close()); got != "[b a]" {
		t.Errorf("callers %s", got)
	}
	if r := w.Acquired("l"); !r.Given || r.Drop || len(r.Heard) > 0 {
		t.Errorf("%+v; who stands waits on", r)
	}
	if r := w.Stand("m", false); r.Want || w.Over("l").Want {
		t.Errorf("%+v: it is asked for after the end", r)
	}
}
