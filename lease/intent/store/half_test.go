package store

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// If the entry of a start cannot be put on the bus, nothing is left behind, so the same start can be accepted later.
func TestPutAllOrNothing(t *testing.T) { // I2
	for name, spoil := range map[string]func(f *fixture) (refused *Store){
		"wrong type": func(f *fixture) *Store {
			f.must(f.client.Set(f.Context(), "intent:bus", "x", 0).Err())
			return f.store
		},
		"no ID left": func(f *fixture) *Store {
			last := &redis.XAddArgs{Stream: "intent:bus", ID: "18446744073709551615-18446744073709551615", Values: []any{"a", "b"}}
			f.must(f.client.XAdd(f.Context(), last).Err())
			return f.store
		},
		"not permitted": func(f *fixture) *Store {
			f.must(f.client.Do(f.Context(), "ACL", "SETUSER", "lim", "on", ">p", "~*", "&*", "+@all", "-xadd").Err())
			o := *f.client.Options()
			o.Username, o.Password = "lim", "p"
			limited := redis.NewClient(&o)
			f.Cleanup(func() { limited.Close() })
			st, err := New(limited, f.store.Options())
			f.must(err)
			f.Cleanup(func() { st.Close() })
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t)
			f.must(admin.Bootstrap(t.Context(), f.client, f.store.Options()))
			refused := spoil(f)
			s := session("a")
			if _, _, err := refused.Put(t.Context(), s.ID, s.Request, keyTTL); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("%v, want ErrUnavailable", err)
			}
			if _, _, err := refused.PutLeased(t.Context(), s.ID, s.Request, keyTTL); !errors.Is(err, ErrUnavailable) {
				t.Fatalf("phase 1: %v, want ErrUnavailable", err)
			}
			keys, err := f.client.Keys(t.Context(), "*").Result()
			f.must(err)
			for _, k := range keys {
				if k != "intent:bus" && !strings.Contains(k, "epoch") {
					t.Errorf("%s was left behind", k)
				}
			}
			f.must(f.client.Del(t.Context(), "intent:bus").Err())
			again := f.put("a")
			if got := f.fetch(f.bus("w")); len(got) != 1 || got[0].Session != again.ID {
				t.Errorf("on the bus: %+v, want the start of %s", got, again.ID)
			}
		})
	}
}

// An entry whose record could not be written has no session, and its key is free.
func TestPutOrphan(t *testing.T) {
	f := setup(t)
	w := f.bus("w")
	f.must(f.client.Set(t.Context(), "intent:sessions", "x", 0).Err())
	s := session("a")
	if _, _, err := f.store.Put(t.Context(), s.ID, s.Request, keyTTL); err == nil {
		t.Fatal("it was accepted")
	}
	for _, e := range f.fetch(w) {
		got := f.write(w, intentbus.Write{Session: e.Session, State: intent.StateStarting, Slot: "1", Fence: 1, SlotFence: 1, Ack: e.ID})
		if got != intentbus.WroteMissing {
			t.Errorf("%+v: %v, want intentbus.WroteMissing", e, got)
		}
	}
	f.must(f.client.Del(t.Context(), "intent:sessions").Err())
	f.put("a")
}

// A write that fails halfway keeps the entry on the bus. The same write, repeated, does the rest.
func TestWriteAgain(t *testing.T) {
	f := setup(t)
	w := f.bus("w")
	s := f.put("a")
	entry := f.fetch(w)[0].ID
	run := intentbus.Write{Session: s.ID, Resource: "a", State: intent.StateRunning, Slot: "1", Fence: 10, SlotFence: 5, Ack: entry}
	end := intentbus.Write{Session: s.ID, Resource: "a", State: intent.StateEnded, Reason: intent.ReasonStopped, Fence: 10, Ack: entry}
	for _, step := range []struct {
		write  intentbus.Write
		broken string
		before intent.State
	}{{run, "intent:owned:w", intent.StateNew}, {end, "intent:waiting", intent.StateRunning}} {
		f.must(f.client.Set(t.Context(), step.broken, "x", 0).Err())
		if _, err := w.Write(t.Context(), step.write); err == nil {
			t.Fatalf("%s was written over a foreign %s", step.write.State, step.broken)
		}
		if got := f.get(s.ID); got.State != step.before {
			t.Errorf("%+v after a write that failed, want %s", got, step.before)
		}
		if n := f.length("intent:bus"); step.before == intent.StateNew && n != 1 {
			t.Errorf("%d entries are on the bus, want the one that is not done with", n)
		}
		f.must(f.client.Del(t.Context(), step.broken).Err())
		if got := f.write(w, step.write); got != intentbus.WroteOK {
			t.Errorf("%s again: %v", step.write.State, got)
		}
	}
	if n := f.length("intent:bus"); n != 0 {
		t.Errorf("%d entries are on the bus", n)
	}
	if n := f.client.ZCard(t.Context(), "intent:ended").Val(); n != 1 {
		t.Errorf("%d sessions will be forgotten, want 1", n)
	}
}

// If another program removes a start's entry from the bus, a sweep publishes it again, once, for the same session.
func TestSweepPublishesAgain(t *testing.T) { // I3
	f := setup(t)
	w := f.bus("w")
	waits, stopped, begun, present := f.put("a"), f.put("b"), f.put("c"), f.put("d")
	other := f.bus("other")
	f.write(other, intentbus.Write{Session: begun.ID, Resource: "c", State: intent.StateStarting, Slot: "1", Fence: 10, SlotFence: 5})
	_, err := f.store.Stop(t.Context(), stopped.ID)
	f.must(err)
	entry := f.client.HGet(t.Context(), "intent:session:"+present.ID, "entry").Val()
	for _, e := range f.fetch(w) {
		if e.ID != entry {
			f.must(f.client.XDel(t.Context(), "intent:bus", e.ID).Err())
		}
	}
	sweep := func() {
		t.Helper()
		_, _, err := w.Sweep(t.Context(), time.Hour, time.Hour)
		f.must(err)
	}
	late := func() {
		for _, s := range []intent.Session{waits, stopped, begun, present} {
			f.must(f.client.ZAddXX(t.Context(), "intent:waiting", redis.Z{Member: s.ID}).Err())
		}
	}
	want := func(when string, ids ...string) {
		t.Helper()
		got := f.fetch(w)
		for i, e := range got {
			if i >= len(ids) || e.Session != ids[i] {
				t.Fatalf("%s: %+v, want the starts of %v", when, got, ids)
			}
		}
		if len(got) != len(ids) {
			t.Fatalf("%s: %+v, want the starts of %v", when, got, ids)
		}
	}
	sweep()
	want("too early")
	late()
	sweep()
	want("late", waits.ID)
	if s := f.get(stopped.ID); s.State != intent.StateEnded || s.Reason != intent.ReasonStopped {
		t.Errorf("%+v: it never ran, and was to be stopped", s)
	}
	late()
	sweep()
	want("again")
	f.must(other.Leave(t.Context(), "other"))
	late()
	sweep()
	want("after the death of the worker that had begun it", begun.ID)
	// Entries are numbered by millisecond, so a new stream may reuse begun's number.
	entry = f.client.HGet(t.Context(), "intent:session:"+begun.ID, "entry").Val()
	f.must(f.client.Del(t.Context(), "intent:bus").Err())
	f.must(f.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "intent:bus", ID: entry, Values: []string{"session", "x"}}).Err())
	late()
	sweep()
	f.must(w.Create(t.Context()))
	want("in a stream made anew", "x", waits.ID, begun.ID, present.ID)
	for _, e := range []intent.Session{waits, begun, present} {
		f.write(w, intentbus.Write{Session: e.ID, Resource: e.Resource, State: intent.StateEnded, Reason: intent.ReasonStopped, Fence: 20})
	}
	if n := f.client.ZCard(t.Context(), "intent:waiting").Val(); n != 0 {
		t.Errorf("%d sessions wait for a worker, want none", n)
	}
}
