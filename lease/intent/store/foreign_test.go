package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// If another program replaces a record by another type, neither a sweep nor the writes of its worker stop.
func TestForeignRecord(t *testing.T) { // I3
	f := setup(t)
	dead, living := f.bus("dead"), f.bus("living")
	replaced, ran := f.put("a"), f.put("b")
	entries := f.fetch(dead)
	for i, s := range []intent.Session{replaced, ran} {
		f.write(dead, intentbus.Write{Session: s.ID, Resource: s.Resource, State: intent.StateRunning, Slot: "1", Fence: 10, SlotFence: 5})
		if i == 0 {
			f.must(f.client.Set(t.Context(), "intent:session:"+s.ID, "foreign", 0).Err())
		}
	}
	if got := f.write(dead, intentbus.Write{Session: replaced.ID, State: intent.StateEnded, Fence: 10, Ack: entries[0].ID}); got != intentbus.WroteMissing {
		t.Errorf("a write to a foreign record: %v, want intentbus.WroteMissing", got)
	}
	f.must(dead.Leave(t.Context(), "dead"))
	got, _, err := living.Sweep(t.Context(), time.Hour, time.Hour)
	if err != nil || len(got) != 1 || got[0].Session != replaced.ID {
		t.Fatalf("%+v %v, want the entry of the one that was replaced", got, err)
	}
	if s := f.get(ran.ID); s.State != intent.StateEnded {
		t.Errorf("%+v: the sweep did not come to it", s)
	}
}

// Such a session is unknown. Lists have the others, and its start can be accepted again.
func TestForeignRecordIsLeftOut(t *testing.T) {
	f := setup(t)
	f.must(admin.Bootstrap(t.Context(), f.client, f.store.Options()))
	replaced, kept := f.put("a"), f.put("b")
	key := "intent:session:" + replaced.ID
	f.must(f.client.Set(t.Context(), key, "foreign", 0).Err())
	got, _, err := f.store.List(t.Context(), "", 10)
	skipped := (*inner.Skipped)(nil)
	if !errors.As(err, &skipped) || skipped.Count != 1 || !strings.Contains(skipped.Names[0], key) || len(got) != 1 || got[0].ID != kept.ID {
		t.Errorf("list: %+v, %v; want the other session, and %s named", got, err, key)
	}
	if _, err := f.store.Get(t.Context(), replaced.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("get: %v, want ErrNotFound", err)
	}
	if _, err := f.store.Stop(t.Context(), replaced.ID); !errors.Is(err, ErrNotFound) {
		t.Errorf("stop: %v, want ErrNotFound", err)
	}
	f.put("a")
	other := session("b")
	f.must(f.client.Del(t.Context(), "intent:idem:"+kept.Key).Err())
	f.must(f.client.LPush(t.Context(), "intent:idem:"+kept.Key, "foreign").Err())
	if id, exists, err := f.store.PutLeased(t.Context(), other.ID, other.Request, keyTTL); err != nil || exists || id != other.ID {
		t.Errorf("a start whose key is foreign: %q %v %v", id, exists, err)
	}
}

// Without the sets of stops and of ended sessions, a stop takes effect, sessions end, and the keys are named. Without the dead letters, a
// malformed entry still leaves the bus.
func TestForeignSets(t *testing.T) { // I5
	f := setup(t)
	w := f.bus("w")
	s, other := f.put("a"), f.put("b")
	entries := f.fetch(w)
	f.write(w, intentbus.Write{Session: s.ID, State: intent.StateRunning, Slot: "1", Fence: 10, SlotFence: 5, Ack: entries[0].ID})
	f.run(w, other)
	for _, key := range []string{"intent:stops", "intent:ended", "intent:dead"} {
		f.must(f.client.Set(t.Context(), key, "foreign", 0).Err())
	}
	if ended, err := f.store.Stop(t.Context(), s.ID); err != nil || ended {
		t.Fatalf("stop: %v %v", ended, err)
	}
	stops, begun, _, err := w.Beat(t.Context(), "{}")
	if err != nil || begun != 2 || !slices.Equal(stops, []string{s.ID}) {
		t.Errorf("beat: %v, %d, %v; want the one stop", stops, begun, err)
	}
	if got := w.Foreign(); !slices.Equal(got, []string{"intent:stops", "intent:ended", "intent:dead"}) {
		t.Errorf("named: %v", got)
	}
	f.write(w, intentbus.Write{Session: s.ID, State: intent.StateEnded, Reason: intent.ReasonStopped, Fence: 10})
	if got := f.get(s.ID); got.State != intent.StateEnded {
		t.Errorf("%+v, want it ended", got)
	}
	buried := f.put("c")
	f.must(w.Bury(t.Context(), f.fetch(w)[0], "why", 0, intent.ReasonPipelineFailed))
	if got := f.get(buried.ID); got.State != intent.StateEnded || f.length("intent:bus") != 1 {
		t.Errorf("%+v, %d entries on the bus; want it ended, and that of the other session", got, f.length("intent:bus"))
	}
	f.must(f.client.Del(t.Context(), "intent:stops", "intent:ended", "intent:dead").Err())
	if _, _, _, err := w.Beat(t.Context(), "{}"); err != nil || len(w.Foreign()) != 0 {
		t.Errorf("mended: %v %v", w.Foreign(), err)
	}
}

// An error names a key without which nothing works.
func TestForeignKeyIsNamed(t *testing.T) {
	for _, key := range []string{"intent:bus", "intent:sessions", "intent:waiting"} {
		f := setup(t)
		f.must(admin.Bootstrap(t.Context(), f.client, f.store.Options()))
		f.must(f.client.Set(t.Context(), key, "foreign", 0).Err())
		s := session("a")
		_, _, plain := f.store.Put(t.Context(), s.ID, s.Request, keyTTL)
		_, _, leased := f.store.PutLeased(t.Context(), s.ID, s.Request, keyTTL)
		for _, err := range []error{plain, leased} {
			if named := (*ForeignKeyError)(nil); !errors.As(err, &named) || named.Key != key || !errors.Is(err, ErrUnavailable) ||
				intentbus.Refused(err) != "WRONGTYPE" {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// pages lists all sessions page by page. They must be the wanted ones, and each full page must end with one of them.
func (f *fixture) pages(limit int, want ...string) {
	f.Helper()
	var got []string
	cursor := ""
	for range slices.Chunk(want, limit) {
		page, next, err := f.store.List(f.Context(), cursor, limit)
		f.must(err)
		for _, s := range page {
			got = append(got, s.ID)
		}
		if cursor = next; cursor != "" && !slices.Contains(want, cursor) {
			f.Errorf("a page ends with %.60q", cursor)
		}
	}
	if !slices.Equal(got, want) || cursor != "" {
		f.Errorf("%.300v, want %v; cursor %.60q", got, want, cursor)
	}
}

// A key of another type in place of the server's run, or of a dead worker's sessions, stops no sweep.
func TestForeignKeysStopNoSweep(t *testing.T) { // I3
	f := setup(t)
	dead, living := f.bus("dead"), f.bus("living")
	put := f.put("a")
	f.fetch(dead)
	_, _, _, err := dead.Beat(t.Context(), "{}")
	f.must(err)
	f.must(f.client.Del(t.Context(), "intent:run", "intent:owned:dead").Err())
	f.must(f.client.RPush(t.Context(), "intent:run", "foreign").Err())
	f.must(f.client.Set(t.Context(), "intent:owned:dead", "foreign", 0).Err())
	f.must(dead.Leave(t.Context(), "dead"))
	if got, _, err := living.Sweep(t.Context(), time.Hour, time.Hour); err != nil || len(got) != 1 || got[0].Session != put.ID {
		t.Errorf("%+v, %v; want the dead worker's entry", got, err)
	}
}
