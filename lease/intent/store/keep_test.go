package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
)

func (f *fixture) run(b *bus, s intent.Session) {
	f.Helper()
	if got := f.write(b, intentbus.Write{Session: s.ID, Resource: s.Resource, State: intent.StateRunning, Slot: "1", Fence: 10, SlotFence: 5}); got != intentbus.WroteOK {
		f.Fatalf("RUNNING: %s", got)
	}
}

func (f *fixture) sweep(b *bus) (entries []intentbus.Entry, more bool) {
	f.Helper()
	entries, more, err := b.Sweep(f.Context(), time.Hour, 0)
	f.must(err)
	return entries, more
}

// A running session keeps its own key alive, and not that of a later session.
func TestKeyOfWhatRuns(t *testing.T) { // I2
	f := setup(t)
	b := f.bus("w")
	s := f.put("a")
	key := "intent:idem:" + s.Key
	f.write(b, intentbus.Write{Session: s.ID, State: intent.StateStarting, Slot: "1", Fence: 10, SlotFence: 5})
	if ttl := f.client.TTL(t.Context(), key).Val(); ttl <= 0 {
		t.Errorf("the key of what has not run yet lives for %v", ttl)
	}
	f.must(f.client.Del(t.Context(), key).Err()) // as if it had expired
	f.put("a")
	f.run(b, s)
	if ttl := f.client.TTL(t.Context(), key).Val(); ttl <= 0 {
		t.Errorf("the key of the later session lives for %v", ttl)
	}
}

// A key that names an ended session counts as free.
func TestKeyOfWhatHasEnded(t *testing.T) { // I2
	f := setup(t)
	f.must(admin.Bootstrap(t.Context(), f.client, f.store.Options()))
	b := f.bus("w")
	old := f.put("a")
	f.write(b, intentbus.Write{Session: old.ID, State: intent.StateEnded, Reason: intent.ReasonStopped})
	left := func() { f.must(f.client.Set(t.Context(), "intent:idem:"+old.Key, old.ID, time.Hour).Err()) }
	left()
	f.put("a")
	left()
	s := session("a")
	if id, exists, err := f.store.PutLeased(t.Context(), s.ID, s.Request, keyTTL); err != nil || exists || id != s.ID {
		t.Errorf("phase 1: %q %v %v", id, exists, err)
	}
}

// A dead letter can be requeued if its session has ended and its key is free, or its own.
func TestRequeueOnlyWhatHasEnded(t *testing.T) { // I2
	f := setup(t)
	b := f.bus("w")
	s := f.put("a")
	f.write(b, intentbus.Write{Session: s.ID, State: intent.StateStarting, Slot: "1", Fence: 10, SlotFence: 5})
	f.must(b.Bury(t.Context(), f.fetch(b)[0], "why", 9, intent.ReasonPipelineFailed))
	letters, err := f.store.DeadLetters(t.Context(), "", 1)
	f.must(err)
	if got := f.get(s.ID); got.State != intent.StateStarting {
		t.Errorf("%+v: a newer term's session was buried", got)
	}
	if _, err := f.store.Requeue(t.Context(), letters[0].ID, keyTTL); !errors.Is(err, ErrRequeue) || f.length("intent:bus") != 0 {
		t.Errorf("%v, %d entries of a session that has not ended", err, f.length("intent:bus"))
	}
	f.write(b, intentbus.Write{Session: s.ID, State: intent.StateEnded, Reason: intent.ReasonStopped, Fence: 10})
	f.must(f.client.Set(t.Context(), "intent:idem:"+s.Key, s.ID, time.Hour).Err())
	if id, err := f.store.Requeue(t.Context(), letters[0].ID, keyTTL); err != nil || id != s.ID || f.length("intent:bus") != 1 {
		t.Errorf("%q %v, %d entries", id, err, f.length("intent:bus"))
	}
	late := intentbus.Write{Session: s.ID, State: intent.StateRunning, Slot: "1", Fence: 10, SlotFence: 5}
	if got := f.write(b, late); got != intentbus.WroteOver {
		t.Errorf("RUNNING of before, that comes late: %s", got)
	}
	if late.Fence++; f.write(b, late) != intentbus.WroteOK {
		t.Error("who has it since cannot write that it runs")
	}
}

// Bury ends neither a session with a newer term, nor one that its own term has just made run, nor an ended one.
func TestBuryLeavesOthers(t *testing.T) { // I5
	f := setup(t)
	b := f.bus("w")
	runs, ended, begun := f.put("a"), f.put("b"), f.put("c")
	entries := f.fetch(b)
	f.run(b, runs)
	f.write(b, intentbus.Write{Session: begun.ID, Resource: "c", State: intent.StateStarting, Slot: "1", Fence: 11, SlotFence: 5})
	f.write(b, intentbus.Write{Session: ended.ID, Resource: "b", State: intent.StateEnded, Reason: intent.ReasonStopped, Fence: 5})
	for _, e := range entries {
		f.must(b.Bury(t.Context(), e, "why", 10, intent.ReasonPipelineFailed))
	}
	if got := f.get(runs.ID); got.State != intent.StateRunning {
		t.Errorf("%+v", got)
	}
	if got := f.get(begun.ID); got.State != intent.StateStarting {
		t.Errorf("%+v", got)
	}
	if got := f.get(ended.ID); got.Reason != intent.ReasonStopped {
		t.Errorf("%+v", got)
	}
	letters := f.length("intent:dead")
	f.again(runs)
	f.again(ended)
	for _, e := range f.fetch(b) { // a requeued letter of it would run twice
		f.must(b.Bury(t.Context(), e, "why", 10, intent.ReasonPipelineFailed))
	}
	if f.length("intent:dead") != letters || f.length("intent:bus") != 0 {
		t.Errorf("%d dead letters of what runs or has ended, %d entries left", f.length("intent:dead")-letters, f.length("intent:bus"))
	}
}

// Another server or an earlier stream may have used the same entry numbers. Bury does not remove another session's start from the bus. An
// entry that ends no session still becomes a dead letter.
func TestBuryLeavesEntriesNumberedAlike(t *testing.T) { // I2
	f := setup(t)
	b := f.bus("w")
	own, before := f.put("a"), f.put("b")
	entries := f.fetch(b)
	f.must(b.Bury(t.Context(), entries[0], "why", 9, ""))
	if got := f.get(own.ID); got.State != intent.StateNew || f.length("intent:dead") != 1 {
		t.Errorf("%+v, %d dead letters; want it NEW, and its entry among them", got, f.length("intent:dead"))
	}
	f.must(f.client.Del(t.Context(), "intent:bus").Err())
	f.must(f.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "intent:bus", ID: entries[1].ID, Values: []string{
		"type", "start", "session", own.ID, "service", "a", "profile", "default", "start", "0"}}).Err())
	f.must(b.Bury(t.Context(), entries[1], "why", 9, intent.ReasonPipelineFailed))
	if f.length("intent:bus") != 1 || f.length("intent:dead") != 1 || f.get(before.ID).State != intent.StateNew {
		t.Errorf("%d entries on the bus, %d dead letters, %+v; want the start of another left alone", f.length("intent:bus"), f.length("intent:dead"),
			f.get(before.ID))
	}
}

// A sweep ends no running session: neither the sweeping worker's, nor one that another worker took over, nor one of a worker that had no
// time to beat since Redis started.
func TestSweepLeavesWhatRuns(t *testing.T) { // I5
	f := setup(t)
	dead, late, living := f.bus("dead"), f.bus("late"), f.bus("living")
	own, over, waits := f.put("a"), f.put("b"), f.put("c")
	f.run(living, own)
	f.write(dead, intentbus.Write{Session: over.ID, Resource: "b", State: intent.StateStarting, Fence: 9}) // and waits for a slot
	f.run(living, over)
	f.run(late, waits)
	f.must(f.client.ZAdd(t.Context(), "intent:workers", redis.Z{Score: 1, Member: "late"}).Err())
	f.must(dead.Leave(t.Context(), "dead"))
	f.must(living.Leave(t.Context(), "living"))
	f.sweep(living)
	for _, s := range []intent.Session{own, over, waits} {
		if got := f.get(s.ID); got.State != intent.StateRunning {
			t.Errorf("%+v", got)
		}
	}
	if f.client.Exists(t.Context(), "intent:owned:dead").Val() != 0 {
		t.Error("what another has is still the dead one's")
	}
}

// A sweep reports its end. Otherwise its caller would repeat it at once, forever.
func TestSweepHasAnEnd(t *testing.T) { // I7
	f := setup(t)
	dead, mute, living := f.bus("dead"), f.bus("mute"), f.bus("living")
	f.put("a")
	f.fetch(dead)
	f.must(dead.Leave(t.Context(), "dead"))
	if entries, more := f.sweep(living); len(entries) != 1 || more {
		t.Errorf("of a dead one's entry: %+v, more %v", entries, more)
	}
	var all []intent.Session
	for i := range sweepMax {
		all = append(all, f.put(fmt.Sprint("s", i)))
	}
	f.fetch(living)
	if entries, more := f.sweep(living); len(entries) != sweepMax || more {
		t.Errorf("of its own entries: %d, more %v", len(entries), more)
	}
	for _, s := range all {
		f.must(f.client.Set(t.Context(), "intent:lease:resource:"+s.Resource, "mute", 0).Err())
		f.run(mute, s)
	}
	f.must(mute.Leave(t.Context(), "mute"))
	if _, more, err := living.Sweep(t.Context(), time.Hour, time.Hour); err != nil || more {
		t.Errorf("of what has its lease: more %v, %v", more, err)
	}
}

// A sweep continues without a bus, with records that lack fields or have an invalid entry number, and without the right to INFO.
func TestSweepGoesOn(t *testing.T) { // I3
	f := setup(t)
	f.bus("dead")
	living := f.bus("living")
	s := f.put("a")
	for field, ref := range map[string]string{"entry": "b", "service": "c"} {
		f.must(f.client.HDel(t.Context(), "intent:session:"+f.put(ref).ID, field).Err())
	}
	odd := f.put("d")
	f.must(f.client.HSet(t.Context(), "intent:session:"+odd.ID, "entry", "none").Err())
	f.must(f.client.Del(t.Context(), "intent:bus").Err())
	f.must(f.client.ZAdd(t.Context(), "intent:workers", redis.Z{Member: "dead"}).Err())
	for _, id := range f.client.ZRange(t.Context(), "intent:waiting", 0, -1).Val() {
		f.must(f.client.ZAdd(t.Context(), "intent:waiting", redis.Z{Member: id}).Err())
	}
	f.must(f.client.Do(t.Context(), "ACL", "SETUSER", "lim", "on", ">p", "~*", "&*", "+@all", "-info").Err())
	o := *f.client.Options()
	o.Username, o.Password = "lim", "p"
	limited := redis.NewClient(&o)
	defer limited.Close()
	st, err := New(limited, f.store.Options())
	f.must(err)
	defer st.Close()
	by, err := st.open("living")
	f.must(err)
	defer by.Close()
	f.sweep(by)
	if all, err := as(f.store, "").Workers(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v %v", all, err)
	}
	f.must(living.Create(t.Context()))
	if got := f.fetch(living); len(got) != 2 || got[0].Session != s.ID || got[1].Session != odd.ID {
		t.Errorf("%+v, want the starts of %s and %s", got, s.ID, odd.ID)
	}
}
