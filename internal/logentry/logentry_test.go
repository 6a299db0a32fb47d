package logentry

import (
	"slices"
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Every tell has an entry, and those of leases have what G12 wants: instance, endpoint, fence and reason.
func TestEveryTellHasAnEntry(t *testing.T) {
	for k := core.TellAcquired; k <= core.TellDrained; k++ {
		_, message, ok := Head(k)
		if !ok || message == "" || Event(k) == "" {
			t.Errorf("tell %d has no entry", k)
			continue
		}
		tell := core.Tell{Kind: k, ID: "s", Fence: 7, Cause: core.CauseNoAnswer, Text: "i/o timeout", Owner: "o", Wait: 5}
		fields := Fields(nil, "i", &tell)
		want := []Field{
			{Key: "event", Text: Event(k)}, {Key: "instance", Text: "i"}, {Key: "reason", Text: "no answer: i/o timeout"},
			{Key: "owner", Text: "o"},
		}
		if k <= core.TellYield {
			want = append(want, Field{Key: "endpoint", Text: "s"}, Field{Key: "fence", Kind: Number, Number: 7})
		}
		for _, f := range want {
			if !slices.Contains(fields, f) {
				t.Errorf("the entry of %q lacks %+v: %+v", Event(k), f, fields)
			}
		}
	}
	if _, _, ok := Head(core.TellDrained + 1); ok || Event(0) != "" {
		t.Error("what is no tell has an entry")
	}
}

func TestReason(t *testing.T) {
	for _, c := range []struct {
		cause core.Cause
		text  string
		want  string
	}{
		{core.CauseNone, "", ""},
		{core.CauseExpired, "", "expired"},
		{core.CauseNone, "who knows", "who knows"},
		{core.CauseFailed, "OOM", "failed: OOM"},
	} {
		if got := Reason(&core.Tell{Cause: c.cause, Text: c.text}); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
