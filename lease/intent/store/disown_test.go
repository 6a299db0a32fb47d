package store

import (
	"slices"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// A worker that renews and cannot beat is not dead for what has its lease (I3).
func TestSweepLeavesWhatHasItsLease(t *testing.T) { // I5
	f := setup(t)
	mute, living := f.bus("mute"), f.bus("living")
	s := f.put("a")
	entries := f.fetch(mute)
	f.write(mute, Write{Session: s.ID, State: intent.StateRunning, Slot: "1", Fence: 10, TunerFence: 5, Ack: entries[0].ID})
	f.must(f.client.Set(t.Context(), LeasePrefixDefault+ServiceLease("a"), "mute", 0).Err())
	f.must(mute.Leave(t.Context(), "mute"))
	for _, holder := range []string{"mute", "another"} {
		f.must(f.client.Set(t.Context(), LeasePrefixDefault+ServiceLease("a"), holder, 0).Err())
		_, more, err := living.Sweep(t.Context(), time.Hour, time.Hour)
		if got := f.get(s.ID); err != nil || more || (got.State == intent.StateRunning) != (holder == "mute") {
			t.Errorf("with the lease of %s: %+v, more %v, %v", holder, got, more, err)
		}
	}
}

// What runs at a worker by its record and is not in its hands has ended, and its key answers for it no more (I2).
func TestDisown(t *testing.T) { // I5
	f := setup(t)
	b, other := f.bus("w1"), f.bus("w2")
	gone, runs, begun, elsewhere := f.put("a"), f.put("b"), f.put("c"), f.put("d")
	for _, w := range []Write{
		{Session: gone.ID, Service: "a", State: intent.StateRunning}, {Session: runs.ID, Service: "b", State: intent.StateRunning},
		{Session: begun.ID, Service: "c", State: intent.StateStarting},
	} {
		w.Slot, w.Fence, w.TunerFence = "1", 10, 5
		f.write(b, w)
	}
	f.write(other, Write{Session: elsewhere.ID, Service: "d", State: intent.StateRunning, Slot: "2", Fence: 10, TunerFence: 5})
	f.must(b.Disown(t.Context(), func(ids []string) []string {
		all := slices.DeleteFunc(ids, func(id string) bool { return id == runs.ID })
		return append(all, elsewhere.ID) // of another worker: not touched, whoever asks
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
	again := session("a")
	if id, exists, err := f.store.PutSessionWithIdempotency(t.Context(), again, again.Key, keyTTL); err != nil || exists || id != again.ID {
		t.Errorf("the key of what ended answers with %s: %v", id, err)
	}
}
