package store

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// A worker that was taken for dead with a start in hand, frozen perhaps, ends nothing that another has taken over: neither before the
// first of its writes nor after STARTING. What it has running it may say so of and end, and it may end what nobody has taken over.
func TestTakenOverStartIsNotEnded(t *testing.T) { // I3
	f := setup(t)
	frozen, other := f.bus("frozen"), f.bus("other")
	fetched, begun, runs, kept, late := f.put("a"), f.put("b"), f.put("c"), f.put("d"), f.put("e")
	entries := f.fetch(frozen)
	end := func(b *Bus, i int, s intent.Session) Wrote {
		return f.write(b, Write{Session: s.ID, Service: s.ServiceRef, State: intent.StateEnded, Reason: intent.ReasonLeaseBusy, Fence: 10,
			Ack: entries[i].ID})
	}
	f.write(frozen, Write{Session: begun.ID, Service: "b", State: intent.StateStarting, Slot: "1", Fence: 10, TunerFence: 5})
	f.run(frozen, runs)
	if got := end(frozen, 3, kept); got != WroteOK {
		t.Errorf("what nobody has taken over: %s", got)
	}
	for _, e := range entries { // as a sweep does, and with an entry that is numbered as the one of what runs was
		f.must(f.client.Do(t.Context(), "XCLAIM", "v3:bus", group, "other", 0, e.ID).Err())
	}
	for i, s := range []intent.Session{fetched, begun} {
		if got := end(frozen, i, s); got != WroteOver {
			t.Errorf("what another has taken over: %s", got)
		}
		if got := f.get(s.ID); got.State == intent.StateEnded {
			t.Errorf("%+v", got)
		}
		if again, _, err := other.Sweep(t.Context(), time.Hour, 0); err != nil || len(again) != 4-i {
			t.Errorf("%d entries are left to who has taken them over, %v", len(again), err)
		}
		if got := end(other, i, s); got != WroteOK {
			t.Errorf("by who has taken it over: %s", got)
		}
	}
	f.run(frozen, late)
	if got := end(frozen, 2, runs); got != WroteOK {
		t.Errorf("what ran: %s", got)
	}
}
