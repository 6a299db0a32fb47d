package store

import (
	"errors"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// An invalid ID of a dead letter never reaches Redis, which would take some of them for other letters.
func TestLetterID(t *testing.T) {
	f := setup(t)
	for _, id := range []string{"x", "", "-", "+", "(1-0", "99999999999999999999-0", "1-x", "1-2-3"} {
		if _, err := f.store.Requeue(t.Context(), id, time.Minute); !errors.Is(err, ErrLetterID) {
			t.Errorf("requeue %q: %v", id, err)
		}
		if _, err := f.store.Drop(t.Context(), id); !errors.Is(err, ErrLetterID) {
			t.Errorf("drop %q: %v", id, err)
		}
		if _, err := f.store.DeadLetters(t.Context(), id, 1); id != "" && !errors.Is(err, ErrLetterID) {
			t.Errorf("list from %q: %v", id, err)
		}
	}
	if found, err := f.store.Drop(t.Context(), "1700000000000-0"); found || err != nil {
		t.Errorf("one that is not there: %v, %v", found, err)
	}
}

// A requeued start belongs to the worker that begins it then. A late write under an earlier lease changes nothing. A fence that another
// program wrote blocks nobody.
func TestRequeuedIsAboveWhatWasGranted(t *testing.T) { // I5
	for prefix, fence := range map[string]string{"": "100", "{x}": "100", "{y}": "9007199254740992"} {
		f := setup(t)
		f.store = f.open(Options{KeyPrefix: prefix + "intent:"})
		b := f.bus("w")
		s := f.put("a")
		f.must(b.Bury(t.Context(), f.fetch(b)[0], "why", 0, intent.ReasonPipelineFailed))
		keys, err := redisstore.LeaseKeys(f.store.opt.leaseOptions(), f.store.names.ResourceLease("a"))
		f.must(err)
		f.must(f.client.Set(t.Context(), keys[2], fence, 0).Err())
		letters, err := f.store.DeadLetters(t.Context(), "", 1)
		f.must(err)
		if _, err := f.store.Requeue(t.Context(), letters[0].ID, keyTTL); err != nil {
			t.Fatal(err)
		}
		late, want := intentbus.Write{Session: s.ID, State: intent.StateEnded, Reason: intent.ReasonNoSlot, Fence: 100}, intentbus.WroteOver
		if fence != "100" {
			late.State, want = intent.StateStarting, intentbus.WroteOK
		}
		if got := f.write(b, late); got != want {
			t.Errorf("%s after a fence of %s: %s, want %s", late.State, fence, got, want)
		}
		if got := f.write(b, intentbus.Write{Session: s.ID, State: intent.StateRunning, Slot: "1", Fence: 101, SlotFence: 5}); got != intentbus.WroteOK {
			t.Errorf("of who is granted the lease then, after a fence of %s: %s", fence, got)
		}
	}
}
