package store

import (
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// A record that a foreign hand replaced by a key of another type stops neither a sweep nor the writes of its worker.
func TestForeignRecord(t *testing.T) {
	f := setup(t)
	dead, living := f.bus("dead"), f.bus("living")
	replaced, ran := f.put("a"), f.put("b")
	entries := f.fetch(dead)
	for i, s := range []intent.Session{replaced, ran} {
		f.write(dead, Write{Session: s.ID, Service: s.ServiceRef, State: intent.StateRunning, Slot: "1", Fence: 10, TunerFence: 5})
		if i == 0 {
			f.must(f.client.Set(t.Context(), "v3:session:"+s.ID, "foreign", 0).Err())
		}
	}
	if got := f.write(dead, Write{Session: replaced.ID, State: intent.StateEnded, Fence: 10, Ack: entries[0].ID}); got != WroteMissing {
		t.Errorf("a write to a foreign record: %v, want WroteMissing", got)
	}
	f.must(dead.Leave(t.Context(), "dead"))
	got, _, err := living.Sweep(t.Context(), time.Hour, time.Hour)
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v %v, want both entries", got, err)
	}
	if s := f.get(ran.ID); s.State != intent.StateEnded {
		t.Errorf("%+v: the sweep did not come to it", s)
	}
}
