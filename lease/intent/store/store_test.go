package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/intent"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const keyTTL = time.Minute

type fixture struct {
	*testing.T
	server *redistest.Server
	client *redis.Client
	store  *Store
}

func setup(t *testing.T) *fixture {
	f := &fixture{T: t, server: redistest.Start(t)}
	f.client = f.server.Client()
	f.store = f.open(Options{Leases: lease.Config{TTL: 2 * time.Second}})
	return f
}

func (f *fixture) open(o Options) *Store {
	f.Helper()
	st, err := New(f.client, o)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { st.Close() })
	return st
}

func session(ref string) intent.Session {
	start, err := intent.Request{Resource: ref}.Canonical(intent.Names{})
	if err != nil {
		panic(err)
	}
	return intent.Session{ID: uuid.Must(uuid.NewV7()).String(), Request: start, Key: start.Key(intent.Names{})}
}

func (f *fixture) put(ref string) intent.Session {
	f.Helper()
	s := session(ref)
	id, exists, err := f.store.Put(f.Context(), s.ID, s.Request, keyTTL)
	if err != nil || exists || id != s.ID {
		f.Fatalf("put %s: %q %v %v", ref, id, exists, err)
	}
	return s
}

func (f *fixture) bus(worker string) *bus {
	f.Helper()
	b, err := f.store.open(worker)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { b.Close() })
	f.must(b.Create(f.Context()))
	if _, _, _, err := b.Beat(f.Context(), `{"name":"`+worker+`"}`); err != nil {
		f.Fatal(err)
	}
	return b
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) fetch(b *bus) []intentbus.Entry {
	f.Helper()
	entries, err := b.Fetch(f.Context(), 100, time.Millisecond)
	f.must(err)
	return entries
}

func (f *fixture) write(b *bus, w intentbus.Write) intentbus.Wrote {
	f.Helper()
	if w.Resource == "" {
		w.Resource = "a"
	}
	got, err := b.Write(f.Context(), w)
	f.must(err)
	return got
}

func (f *fixture) get(id string) intent.Session {
	f.Helper()
	s, err := f.store.Get(f.Context(), id)
	f.must(err)
	return s
}

func (f *fixture) length(key string) int64 {
	f.Helper()
	n, err := f.client.XLen(f.Context(), key).Result()
	f.must(err)
	return n
}

// Two hundred concurrent equal starts give one session and one entry.
func TestOneKeyOneSession(t *testing.T) {
	f := setup(t)
	var mu sync.Mutex
	ids, accepted := map[string]int{}, 0
	var wg sync.WaitGroup
	for range 200 {
		wg.Go(func() {
			s := session("a")
			id, exists, err := f.store.Put(t.Context(), s.ID, s.Request, keyTTL)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			ids[id]++
			if !exists {
				accepted++
			}
		})
	}
	wg.Wait()
	if len(ids) != 1 || accepted != 1 || f.length("intent:bus") != 1 {
		t.Errorf("%d sessions, %d accepted, %d entries", len(ids), accepted, f.length("intent:bus"))
	}
}

// A start that is sent twice, because its answer was lost, is accepted once and has the same answer.
func TestPutSentTwice(t *testing.T) { // I2
	f := setup(t)
	s := f.put("a")
	id, exists, err := f.store.Put(t.Context(), s.ID, s.Request, keyTTL)
	if err != nil || exists || id != s.ID || f.length("intent:bus") != 1 {
		t.Errorf("%q %v %v, %d entries", id, exists, err, f.length("intent:bus"))
	}
}

// A session from start to end. Its key ends with it, so a repeated start makes a new session.
func TestLifeOfASession(t *testing.T) { // I5
	f := setup(t)
	s := f.put("a")
	b := f.bus("w1")
	entries := f.fetch(b)
	if len(entries) != 1 || entries[0].Session != s.ID || entries[0].Type != "start" || entries[0].Resource != "a" {
		t.Fatalf("%+v", entries)
	}
	w := intentbus.Write{Session: s.ID, State: intent.StateStarting, Slot: "1", Fence: 10, SlotFence: 5}
	if got := f.write(b, w); got != intentbus.WroteOK || f.get(s.ID).State != intent.StateStarting {
		t.Errorf("STARTING: %s %+v", got, f.get(s.ID))
	}
	w.State, w.Ack = intent.StateRunning, entries[0].ID
	if got := f.write(b, w); got != intentbus.WroteOK || f.length("intent:bus") != 0 {
		t.Errorf("RUNNING: %s, %d entries", got, f.length("intent:bus"))
	}
	if ttl := f.client.TTL(t.Context(), "intent:idem:"+s.Key).Val(); ttl != -1 {
		t.Errorf("a running session's key expires in %v", ttl)
	}
	got := f.get(s.ID)
	if got.State != intent.StateRunning || got.Slot != "1" || got.Fence != 10 || got.SlotFence != 5 || got.Worker != "w1" {
		t.Errorf("%+v", got)
	}
	end := intentbus.Write{Session: s.ID, State: intent.StateEnded, Reason: intent.ReasonStopped, Detail: "d", Fence: 10}
	if got := f.write(b, end); got != intentbus.WroteOK {
		t.Errorf("ENDED: %s", got)
	}
	if got := f.get(s.ID); got.State != intent.StateEnded || got.Reason != intent.ReasonStopped || got.Slot != "1" {
		t.Errorf("%+v", got)
	}
	if again := f.put("a"); again.ID == s.ID || f.length("intent:bus") != 1 {
		t.Error("a repeated start after the end is no new session")
	}
	if n := f.client.Exists(t.Context(), "intent:owned:w1").Val(); n != 0 {
		t.Error("an ended session is still owned")
	}
}

// An old worker cannot overwrite a newer one's writes, and nobody can overwrite the end.
func TestWritesAreFenced(t *testing.T) { // I3
	f := setup(t)
	s := f.put("a")
	w1, w2 := f.bus("w1"), f.bus("w2")
	f.write(w1, intentbus.Write{Session: s.ID, State: intent.StateStarting, Slot: "1", Fence: 10, SlotFence: 5})
	f.write(w2, intentbus.Write{Session: s.ID, State: intent.StateStarting, Slot: "2", Fence: 11, SlotFence: 6})
	for _, state := range []intent.State{intent.StateStarting, intent.StateRunning, intent.StateEnded} {
		if got := f.write(w1, intentbus.Write{Session: s.ID, State: state, Slot: "1", Fence: 10, SlotFence: 5}); got != intentbus.WroteOver {
			t.Errorf("%s under the older fence: %s", state, got)
		}
	}
	if got := f.get(s.ID); got.Worker != "w2" || got.Slot != "2" || got.Fence != 11 {
		t.Errorf("%+v", got)
	}
	f.write(w2, intentbus.Write{Session: s.ID, State: intent.StateEnded, Reason: intent.ReasonStopped, Fence: 11})
	if got := f.write(w2, intentbus.Write{Session: s.ID, State: intent.StateRunning, Slot: "2", Fence: 11, SlotFence: 6}); got != intentbus.WroteOver {
		t.Errorf("RUNNING after the end: %s", got)
	}
	if got := f.write(w2, intentbus.Write{Session: uuid.NewString(), State: intent.StateRunning, Fence: 1}); got != intentbus.WroteMissing {
		t.Errorf("no such session: %s", got)
	}
	if got := f.write(w2, intentbus.Write{Session: s.ID, Resource: "b", State: intent.StateRunning, Fence: 12}); got != intentbus.WroteMissing {
		t.Errorf("another service's session: %s", got)
	}
}

func TestStop(t *testing.T) { // I5
	f := setup(t)
	s := f.put("a")
	heard := make(chan string, 8)
	ctx, cancel := context.WithCancel(t.Context())
	b := f.bus("w1")
	up := make(chan struct{}, 8)
	var wg sync.WaitGroup
	wg.Go(func() {
		b.Listen(ctx, func(id string) { heard <- id }, func(string) {}, func() { up <- struct{}{} })
	})
	<-up
	if ended, err := f.store.Stop(t.Context(), s.ID); err != nil || ended {
		t.Fatal(ended, err)
	}
	if id := <-heard; id != s.ID {
		t.Errorf("heard %q", id)
	}
	cancel()
	wg.Wait()
	if stops, _, _, err := b.Beat(t.Context(), "{}"); err != nil || !slices.Equal(stops, []string{s.ID}) {
		t.Error(stops, err)
	}
	if got := f.write(b, intentbus.Write{Session: s.ID, State: intent.StateStarting, Slot: "1", Fence: 10, SlotFence: 5}); got != intentbus.WroteStop {
		t.Errorf("STARTING of what is to stop: %s", got)
	}
	f.write(b, intentbus.Write{Session: s.ID, State: intent.StateEnded, Reason: intent.ReasonStopped, Fence: 10})
	if stops, begun, _, err := b.Beat(t.Context(), "{}"); err != nil || len(stops) != 0 || begun != 0 {
		t.Error(stops, begun, err)
	}
	if ended, err := f.store.Stop(t.Context(), s.ID); err != nil || !ended {
		t.Error(ended, err)
	}
	if _, err := f.store.Stop(t.Context(), uuid.NewString()); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// The running sessions of a dead worker end. Other workers get the starts that it had begun or only fetched.
func TestSweep(t *testing.T) { // I3
	f := setup(t)
	dead, living := f.bus("dead"), f.bus("living")
	fetched, begun, ran := f.put("a"), f.put("b"), f.put("c")
	entries := f.fetch(dead)
	f.write(dead, intentbus.Write{Session: begun.ID, Resource: "b", State: intent.StateStarting, Slot: "1", Fence: 10, SlotFence: 5})
	f.write(dead, intentbus.Write{Session: ran.ID, Resource: "c", State: intent.StateRunning, Slot: "2", Fence: 11, SlotFence: 6, Ack: entries[2].ID})
	got, _, err := living.Sweep(t.Context(), time.Hour, time.Hour)
	if err != nil || len(got) != 0 {
		t.Fatalf("a living worker's entries were taken: %+v %v", got, err)
	}
	f.must(dead.Leave(t.Context(), "dead"))
	got, _, err = living.Sweep(t.Context(), time.Hour, time.Hour)
	f.must(err)
	if len(got) != 2 || got[0].Session != fetched.ID || got[1].Session != begun.ID || got[1].Owner != "dead" ||
		got[1].Fence != 10 || got[0].From != "dead" || got[0].Tries != 2 {
		t.Errorf("%+v", got)
	}
	if s := f.get(ran.ID); s.State != intent.StateEnded || s.Reason != intent.ReasonLeaseLost {
		t.Errorf("%+v", s)
	}
	if s := f.get(begun.ID); s.State != intent.StateStarting {
		t.Errorf("%+v", s)
	}
	if all, err := as(f.store, "").Workers(t.Context()); err != nil || len(all) != 1 || all[0].Instance != "living" {
		t.Errorf("%+v %v", all, err)
	}
	// After a lost answer, the caller gets its own entries again, and that counts as no further delivery.
	again, _, err := living.Sweep(t.Context(), time.Hour, 0)
	f.must(err)
	if len(again) != 2 || again[0].Tries != 2 || again[0].From != "" {
		t.Errorf("%+v", again)
	}
}

func TestSweepIsBounded(t *testing.T) { // I7
	f := setup(t)
	dead, living := f.bus("dead"), f.bus("living")
	for i := range 2*sweepMax + 1 {
		f.put(fmt.Sprint("s", i))
	}
	for range 3 {
		f.fetch(dead)
	}
	f.must(dead.Leave(t.Context(), "dead"))
	total := 0
	for more := true; more; {
		var got []intentbus.Entry
		var err error
		got, more, err = living.Sweep(t.Context(), time.Hour, time.Hour)
		f.must(err)
		if len(got) > sweepMax {
			t.Errorf("%d entries in one call", len(got))
		}
		total += len(got)
	}
	if total != 2*sweepMax+1 {
		t.Errorf("%d entries taken", total)
	}
}

func TestDeadLetters(t *testing.T) {
	f := setup(t)
	b := f.bus("w1")
	s := f.put("a")
	f.must(f.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "intent:bus", Values: []string{"nonsense", "1"}}).Err())
	entries := f.fetch(b)
	for _, e := range entries {
		f.must(b.Bury(t.Context(), e, "why", 0, intent.ReasonPipelineFailed))
	}
	if got := f.get(s.ID); got.State != intent.StateEnded || got.Reason != intent.ReasonPipelineFailed || got.Detail != "why" {
		t.Errorf("%+v", got)
	}
	letters, err := f.store.DeadLetters(t.Context(), "", 10)
	f.must(err)
	if len(letters) != 2 || letters[0].Session != s.ID || letters[0].Why != "why" || letters[1].Fields["nonsense"] != "1" ||
		time.Since(letters[0].At) > time.Minute || f.length("intent:bus") != 0 {
		t.Fatalf("%+v, %d entries", letters, f.length("intent:bus"))
	}
	if _, err := f.store.Requeue(t.Context(), letters[1].ID, keyTTL); !errors.Is(err, ErrRequeue) {
		t.Error(err)
	}
	if id, err := f.store.Requeue(t.Context(), letters[0].ID, keyTTL); err != nil || id != s.ID || f.get(id).State != intent.StateNew {
		t.Error(id, err)
	}
	if got := f.fetch(b); len(got) != 1 || got[0].Session != s.ID {
		t.Errorf("%+v", got)
	}
	if _, err := f.store.Requeue(t.Context(), letters[0].ID, keyTTL); !errors.Is(err, ErrRequeue) {
		t.Error(err)
	}
	if ok, err := f.store.Drop(t.Context(), letters[1].ID); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, err := f.store.Drop(t.Context(), letters[1].ID); ok || err != nil {
		t.Error(ok, err)
	}
}

// A letter is requeued only if no other session has its key.
func TestRequeueAgainstANewerSession(t *testing.T) {
	f := setup(t)
	b := f.bus("w1")
	f.put("a")
	f.must(b.Bury(t.Context(), f.fetch(b)[0], "why", 0, intent.ReasonPipelineFailed))
	newer := f.put("a")
	letters, err := f.store.DeadLetters(t.Context(), "", 1)
	f.must(err)
	if _, err := f.store.Requeue(t.Context(), letters[0].ID, keyTTL); !errors.Is(err, ErrRequeue) || !strings.Contains(err.Error(), newer.ID) {
		t.Error(err)
	}
}

func TestListIsPagedNewestFirst(t *testing.T) {
	f := setup(t)
	var want []string
	for i := range 7 {
		want = append([]string{f.put(fmt.Sprint("s", i)).ID}, want...)
	}
	f.pages(3, want...)
}

func TestEndedSessionsAreForgotten(t *testing.T) { // I5
	f := setup(t)
	f.store = f.open(Options{Retention: time.Second})
	b := f.bus("w1")
	old := f.put("a")
	f.write(b, intentbus.Write{Session: old.ID, State: intent.StateEnded, Reason: intent.ReasonStopped})
	f.must(f.client.ZAdd(t.Context(), "intent:ended", redis.Z{Score: 1, Member: old.ID}).Err())
	s := f.put("a")
	f.write(b, intentbus.Write{Session: s.ID, State: intent.StateEnded, Reason: intent.ReasonStopped})
	if _, err := f.store.Get(t.Context(), old.ID); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if page, _, err := f.store.List(t.Context(), "", 10); err != nil || len(page) != 1 || page[0].ID != s.ID {
		t.Errorf("%+v %v", page, err)
	}
}

// Phase 1: the lease on the service names the session. A second start of the service changes nothing, even with the same key.
func TestPutWithLease(t *testing.T) { // I4
	f := setup(t)
	f.must(admin.Bootstrap(t.Context(), f.client, f.store.Options()))
	s := session("a")
	if id, exists, err := f.store.PutLeased(t.Context(), s.ID, s.Request, keyTTL); err != nil || exists || id != s.ID {
		t.Fatal(id, exists, err)
	}
	if owner := f.client.Get(t.Context(), "intent:lease:resource:a").Val(); owner != "session:"+s.ID {
		t.Errorf("the lease is held by %q", owner)
	}
	if id, exists, err := f.store.PutLeased(t.Context(), s.ID, s.Request, keyTTL); err != nil || exists || id != s.ID {
		t.Error("the same call, sent twice:", id, exists, err)
	}
	other := session("a")
	other.Profile = "hd"
	for _, again := range []intent.Session{session("a"), other} {
		var busy *BusyError
		_, _, err := f.store.PutLeased(t.Context(), again.ID, again.Request, keyTTL)
		if !errors.As(err, &busy) || busy.Holder != "session:"+s.ID {
			t.Error(err)
		}
	}
	if f.length("intent:bus") != 1 {
		t.Errorf("%d entries", f.length("intent:bus"))
	}
	f.must(f.client.Set(t.Context(), "intent:lease:resource:b", "worker-7", 0).Err())
	b := session("b")
	if _, _, err := f.store.PutLeased(t.Context(), b.ID, b.Request, keyTTL); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
}

func TestPutWithLeaseInQuarantine(t *testing.T) { // I1
	f := setup(t)
	s := session("a")
	if _, _, err := f.store.PutLeased(t.Context(), s.ID, s.Request, keyTTL); !errors.Is(err, ErrQuarantine) {
		t.Error(err)
	}
	if f.client.Exists(t.Context(), "intent:bus", "intent:lease:resource:a").Val() != 0 {
		t.Error("something was written")
	}
}

// An epoch that phase 1 begins has the group's number of acknowledgements.
func TestPutWithLeaseBeginsAnEpochOfReplicas(t *testing.T) {
	f := setup(t)
	st, err := New(f.client, Options{Leases: lease.Config{Replicas: 3}})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s := session("a")
	if _, _, err := st.PutLeased(t.Context(), s.ID, s.Request, keyTTL); !errors.Is(err, ErrQuarantine) {
		t.Error(err)
	}
	if epoch := f.client.Get(t.Context(), "intent:epoch").Val(); !strings.Contains(epoch, ":2 ") {
		t.Errorf("the epoch is %q; a majority is the master and two replicas", epoch)
	}
}

func TestRedisIsAway(t *testing.T) {
	f := setup(t)
	f.server.Kill()
	s := session("a")
	if _, _, err := f.store.Put(t.Context(), s.ID, s.Request, keyTTL); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
	if err := f.store.Ping(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Error(err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	c := redis.NewClient(&redis.Options{})
	defer c.Close()
	for _, o := range []Options{
		{KeyPrefix: "lease:x", Names: intent.ADR003()}, {KeyPrefix: "a b"}, {Retention: 1}, {OpTimeout: 1}, {PoolSize: -1}, {Batches: -1}, {DeadLetters: -1},
		{Leases: lease.Config{TTL: 1}}, {Leases: lease.Config{Replicas: -1}}, {Leases: lease.Config{Replicas: 10}}, {Leases: lease.Config{LeasePrefix: "i"}},
	} {
		if _, err := New(c, o); !errors.Is(err, lease.ErrInvalidConfig) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
