package store

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// A sweep does not end a session whose worker still renews its lease, even if the worker cannot beat.
func TestSweepLeavesWhatHasItsLease(t *testing.T) { // I5
	f := setup(t)
	mute, living := f.bus("mute"), f.bus("living")
	s := f.put("a")
	entries := f.fetch(mute)
	f.write(mute, intentbus.Write{Session: s.ID, State: intent.StateRunning, Slot: "1", Fence: 10, SlotFence: 5, Ack: entries[0].ID})
	f.must(f.client.Set(t.Context(), "intent:lease:resource:"+"a", "mute", 0).Err())
	f.must(mute.Leave(t.Context(), "mute"))
	for _, holder := range []string{"mute", "another"} {
		f.must(f.client.Set(t.Context(), "intent:lease:resource:"+"a", holder, 0).Err())
		_, more, err := living.Sweep(t.Context(), time.Hour, time.Hour)
		if got := f.get(s.ID); err != nil || more || (got.State == intent.StateRunning) != (holder == "mute") {
			t.Errorf("with the lease of %s: %+v, more %v, %v", holder, got, more, err)
		}
	}
}

// Disown ends a session that its record places at a worker that does not run it, and frees its key. It also removes from the worker's list
// the sessions that have no record, belong to another worker, or do not run yet.
func TestDisown(t *testing.T) { // I5
	f := setup(t)
	b, other := f.bus("w1"), f.bus("w2")
	gone, runs, begun, elsewhere := f.put("a"), f.put("b"), f.put("c"), f.put("d")
	for _, w := range []intentbus.Write{
		{Session: gone.ID, Resource: "a", State: intent.StateRunning}, {Session: runs.ID, Resource: "b", State: intent.StateRunning},
		{Session: begun.ID, Resource: "c", State: intent.StateStarting},
	} {
		w.Slot, w.Fence, w.SlotFence = "1", 10, 5
		f.write(b, w)
	}
	f.write(other, intentbus.Write{Session: elsewhere.ID, Resource: "d", State: intent.StateRunning, Slot: "2", Fence: 10, SlotFence: 5})
	lost := f.put("e")
	f.write(b, intentbus.Write{Session: lost.ID, Resource: "e", State: intent.StateRunning, Slot: "3", Fence: 10, SlotFence: 5})
	f.must(f.client.Del(t.Context(), "intent:session:"+lost.ID).Err())
	f.must(f.client.ZAdd(t.Context(), "intent:owned:w1", redis.Z{Member: elsewhere.ID}).Err()) // as an older copy of the data has it
	f.must(b.Disown(t.Context(), func(ids []string) []string {
		all := slices.DeleteFunc(ids, func(id string) bool { return id == runs.ID })
		return append(all, elsewhere.ID) // another worker's session, which Disown never ends
	}))
	if s := f.get(gone.ID); s.State != intent.StateEnded || s.Reason != intent.ReasonLeaseLost {
		t.Errorf("%+v", s)
	}
	for id, want := range map[string]intent.State{
		runs.ID: intent.StateRunning, begun.ID: intent.StateStarting, elsewhere.ID: intent.StateRunning,
	} {
		if s := f.get(id); s.State != want {
			t.Errorf("%+v, want %s", s, want)
		}
	}
	counts := func(want ...string) {
		t.Helper()
		got := f.client.ZRange(t.Context(), "intent:owned:w1", 0, -1).Val()
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%v count as begun, want %v", got, want)
		}
	}
	counts(runs.ID)
	f.write(b, intentbus.Write{Session: begun.ID, Resource: "c", State: intent.StateRunning, Slot: "1", Fence: 10, SlotFence: 5})
	counts(runs.ID, begun.ID)
	again := session("a")
	if id, exists, err := f.store.Put(t.Context(), again.ID, again.Request, keyTTL); err != nil || exists || id != again.ID {
		t.Errorf("the key of what ended answers with %s: %v", id, err)
	}
}
