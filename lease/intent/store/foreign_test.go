package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// A record that a foreign hand replaced by a key of another type stops neither a sweep nor the writes of its worker.
func TestForeignRecord(t *testing.T) { // I3
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
	if err != nil || len(got) != 1 || got[0].Session != replaced.ID {
		t.Fatalf("%+v %v, want the entry of the one that was replaced", got, err)
	}
	if s := f.get(ran.ID); s.State != intent.StateEnded {
		t.Errorf("%+v: the sweep did not come to it", s)
	}
}

// Of a session whose record a foreign hand replaced, nothing is known; the others are told, and the start is accepted anew.
func TestForeignRecordIsLeftOut(t *testing.T) {
	f := setup(t)
	f.must(lease.Bootstrap(t.Context(), f.client, f.store.Options().Leases))
	replaced, kept := f.put("a"), f.put("b")
	key := "v3:session:" + replaced.ID
	f.must(f.client.Set(t.Context(), key, "foreign", 0).Err())
	got, _, err := f.store.List(t.Context(), "", 10)
	skipped := (*lease.SkippedError)(nil)
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
	f.must(f.client.Del(t.Context(), "v3:idem:"+kept.Key).Err())
	f.must(f.client.LPush(t.Context(), "v3:idem:"+kept.Key, "foreign").Err())
	if id, exists, err := f.store.PutSessionWithLease(t.Context(), other, other.Key, keyTTL); err != nil || exists || id != other.ID {
		t.Errorf("a start whose key is foreign: %q %v %v", id, exists, err)
	}
}

// Without the sets of stops and of what has ended, a stop is heard, a session ends, and the keys are named; without the dead letters, what
// cannot be done leaves the bus.
func TestForeignSets(t *testing.T) { // I5
	f := setup(t)
	w := f.bus("w")
	s, other := f.put("a"), f.put("b")
	entries := f.fetch(w)
	f.write(w, Write{Session: s.ID, State: intent.StateRunning, Slot: "1", Fence: 10, TunerFence: 5, Ack: entries[0].ID})
	f.run(w, other)
	for _, key := range []string{"v3:stops", "v3:ended", "v3:dead"} {
		f.must(f.client.Set(t.Context(), key, "foreign", 0).Err())
	}
	if ended, err := f.store.Stop(t.Context(), s.ID); err != nil || ended {
		t.Fatalf("stop: %v %v", ended, err)
	}
	stops, begun, _, err := w.Beat(t.Context(), "{}")
	if err != nil || begun != 2 || !slices.Equal(stops, []string{s.ID}) {
		t.Errorf("beat: %v, %d, %v; want the one stop", stops, begun, err)
	}
	if got := w.Foreign(); !slices.Equal(got, []string{"v3:stops", "v3:ended", "v3:dead"}) {
		t.Errorf("named: %v", got)
	}
	f.write(w, Write{Session: s.ID, State: intent.StateEnded, Reason: intent.ReasonStopped, Fence: 10})
	if got := f.get(s.ID); got.State != intent.StateEnded {
		t.Errorf("%+v, want it ended", got)
	}
	buried := f.put("c")
	f.must(w.Bury(t.Context(), f.fetch(w)[0], "why", 0, intent.ReasonPipelineFailed))
	if got := f.get(buried.ID); got.State != intent.StateEnded || f.length("v3:bus") != 1 {
		t.Errorf("%+v, %d entries on the bus; want it ended, and that of the other session", got, f.length("v3:bus"))
	}
	f.must(f.client.Del(t.Context(), "v3:stops", "v3:ended", "v3:dead").Err())
	if _, _, _, err := w.Beat(t.Context(), "{}"); err != nil || len(w.Foreign()) != 0 {
		t.Errorf("mended: %v %v", w.Foreign(), err)
	}
}

// A key that nothing can be done without is named.
func TestForeignKeyIsNamed(t *testing.T) {
	for _, key := range []string{"v3:bus", "v3:sessions", "v3:waiting"} {
		f := setup(t)
		f.must(lease.Bootstrap(t.Context(), f.client, f.store.Options().Leases))
		f.must(f.client.Set(t.Context(), key, "foreign", 0).Err())
		s := session("a")
		_, _, plain := f.store.PutSessionWithIdempotency(t.Context(), s, s.Key, keyTTL)
		_, _, leased := f.store.PutSessionWithLease(t.Context(), s, s.Key, keyTTL)
		for _, err := range []error{plain, leased} {
			if named := (*ForeignKeyError)(nil); !errors.As(err, &named) || named.Key != key || !errors.Is(err, ErrUnavailable) ||
				Refused(err) != "WRONGTYPE" {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}

// What a foreign hand puts among the sessions, however much, is on no page, and none ends with it: an API takes no such cursor.
func TestPagesEndWithSessions(t *testing.T) {
	f := setup(t)
	var want []string
	for i := range 7 {
		want = append([]string{f.put(fmt.Sprint("s", i)).ID}, want...)
	}
	var foreign []redis.Z
	for i := range 2 * pastCount {
		foreign = append(foreign, redis.Z{Member: fmt.Sprint("x", i)}, redis.Z{Member: fmt.Sprint(want[2], i)}, redis.Z{Member: fmt.Sprint(i)})
	}
	f.must(f.client.ZAdd(t.Context(), "v3:sessions", foreign...).Err())
	f.pages(3, want...)
}

// pages reads all sessions, so many to a page: they are those, on as many pages as that takes, of which each ends with one of them.
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

// A record that a foreign hand has made long is not read, whichever field it is in, and named; a field that no record has is not read
// at all, and harms nothing.
func TestRecordTooLongToRead(t *testing.T) { // I5
	f := setup(t)
	long, beside, kept := f.put("a"), f.put("b"), f.put("c")
	set := func(s intent.Session, field string, bytes int) string {
		key := "v3:session:" + s.ID
		f.must(f.client.HSet(t.Context(), key, field, strings.Repeat("x", bytes)).Err())
		return key
	}
	set(kept, "detail", RecordMax/2)
	set(beside, "foreign", 2*RecordMax)
	for _, field := range []string{"detail", "profile"} {
		key := set(long, field, RecordMax)
		got, _, err := f.store.List(t.Context(), "", 10)
		skipped := (*lease.SkippedError)(nil)
		if !errors.As(err, &skipped) || skipped.Count != 1 || !strings.Contains(skipped.Names[0], key) || len(got) != 2 ||
			got[0].ID != kept.ID || len(got[0].Detail) != RecordMax/2 || got[1].ID != beside.ID {
			t.Errorf("%s: %+v, %v; want the other two, and %s named", field, got, err, key)
		}
		if _, err := f.store.Get(t.Context(), long.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: get: %v, want ErrNotFound", field, err)
		}
		set(long, field, 1)
	}
	if got := f.get(long.ID); got.Detail != "x" || got.Profile != "x" {
		t.Errorf("short again: %+v", got)
	}
}

// A foreign key in the place of the life of the server, or of what a dead worker has begun, stops no sweep.
func TestForeignKeysStopNoSweep(t *testing.T) { // I3
	f := setup(t)
	dead, living := f.bus("dead"), f.bus("living")
	put := f.put("a")
	f.fetch(dead)
	_, _, _, err := dead.Beat(t.Context(), "{}")
	f.must(err)
	f.must(f.client.Del(t.Context(), "v3:run", "v3:owned:dead").Err())
	f.must(f.client.RPush(t.Context(), "v3:run", "foreign").Err())
	f.must(f.client.Set(t.Context(), "v3:owned:dead", "foreign", 0).Err())
	f.must(dead.Leave(t.Context(), "dead"))
	if got, _, err := living.Sweep(t.Context(), time.Hour, time.Hour); err != nil || len(got) != 1 || got[0].Session != put.ID {
		t.Errorf("%+v, %v; want the dead worker's entry", got, err)
	}
}

// What a foreign hand puts on the bus, or among the stops, and is longer than any answer may be, is not told: the other entries and
// stops are.
func TestLongEntriesAreNotTold(t *testing.T) { // I3, I5
	f := setup(t)
	w := f.bus("w")
	f.must(w.Create(t.Context()))
	long := strings.Repeat("x", RecordMax+1)
	values := []string{"type", long, "session", long, "service", long}
	foreign := f.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "v3:bus", Values: values}).Val()
	put := f.put("a")
	f.fetch(w)
	got, _, err := w.Sweep(t.Context(), time.Hour, 0)
	if err != nil || len(got) != 2 || got[0].ID != foreign || got[0].Type+got[0].Session+got[0].Start.ServiceRef != "" ||
		got[1].Session != put.ID {
		t.Errorf("%.300v, %v; want both entries, and nothing of what the foreign one says", got, err)
	}
	f.must(f.client.SAdd(t.Context(), "v3:stops", long, put.ID).Err())
	if stops, _, _, err := w.Beat(t.Context(), "{}"); err != nil || !slices.Equal(stops, []string{put.ID}) {
		t.Errorf("stops %.300v, %v", stops, err)
	}
}

// A fence that is no number is a foreign hand's, and counts as none: the session runs on, and ends.
func TestForeignFence(t *testing.T) { // I3, I5
	f := setup(t)
	b := f.bus("w")
	written, buried := f.put("a"), f.put("b")
	entries := f.fetch(b)
	for _, s := range []intent.Session{written, buried} {
		f.must(f.client.HSet(t.Context(), "v3:session:"+s.ID, "fence", "foreign").Err())
	}
	f.write(b, Write{Session: written.ID, State: intent.StateRunning, Slot: "1", Fence: 10, TunerFence: 5, Ack: entries[0].ID})
	if got := f.get(written.ID); got.State != intent.StateRunning || got.Fence != 10 {
		t.Errorf("%+v, want it to run under the fence 10", got)
	}
	f.must(b.Bury(t.Context(), entries[1], "why", 9, intent.ReasonPipelineFailed))
	if got := f.get(buried.ID); got.State != intent.StateEnded || f.length("v3:dead") != 1 {
		t.Errorf("%+v, %d dead letters; want it ended, and its entry among them", got, f.length("v3:dead"))
	}
}

// Of a value that holds a service and is longer than any ID, a byte more than an ID has is told.
func TestLongHolderIsCut(t *testing.T) { // I4
	f := setup(t)
	f.must(lease.Bootstrap(t.Context(), f.client, f.store.Options().Leases))
	long := "session:" + strings.Repeat("x", 1<<20)
	f.must(f.client.Set(t.Context(), "lease:service:a", long, 0).Err())
	f.must(f.client.HSet(t.Context(), "v3:"+long, "state", string(intent.StateRunning)).Err())
	of, named := session("a"), session("b")
	f.must(f.client.Set(t.Context(), "v3:idem:"+named.Key, strings.TrimPrefix(long, "session:"), 0).Err())
	for _, s := range []intent.Session{of, named} {
		var busy *BusyError
		_, _, err := f.store.PutSessionWithLease(t.Context(), s, s.Key, keyTTL)
		if !errors.As(err, &busy) || busy.Holder != long[:redisstore.NameMax+1] {
			t.Errorf("%s: an error of %d bytes, want one that names %d of the holder", s.ServiceRef, len(fmt.Sprint(err)), redisstore.NameMax+1)
		}
	}
}

// says is a hook of a client whose scripts are answered with the same, whatever they are.
type says []any

func (s says) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s says) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.(*redis.Cmd).SetVal([]any(s))
		return nil
	}
}

func (s says) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.(*redis.Cmd).SetVal([]any(s))
		}
		return nil
	}
}

// What a hostile server says in the place of a number may be the password, and is not repeated.
func TestQuarantineIsANumber(t *testing.T) {
	f := setup(t)
	s := session("a")
	for said, want := range map[string]error{"5000": ErrQuarantine, "secret": ErrUnavailable} {
		st := f.open(Options{})
		st.client.AddHook(says{"Q", said})
		if _, _, err := st.PutSessionWithLease(t.Context(), s, s.Key, keyTTL); !errors.Is(err, want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want %v", said, err, want)
		}
	}
	st := f.open(Options{})
	st.client.AddHook(says{"secret", "run", ""})
	b, err := st.Bus("w")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := b.Beat(t.Context(), "{}"); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("a beat: %v", err)
	}
}

// What a key stands for is a session, or nobody is told of it.
func TestOddSessionsAreNotTold(t *testing.T) {
	f := setup(t)
	s := session("a")
	f.must(f.client.Set(t.Context(), "v3:idem:"+s.Key, "no session", 0).Err())
	f.must(f.client.HSet(t.Context(), "v3:session:no session", "state", string(intent.StateRunning)).Err())
	if id, _, err := f.store.PutSessionWithIdempotency(t.Context(), s, s.Key, keyTTL); !errors.Is(err, ErrUnavailable) || id != "" {
		t.Errorf("%q, %v; want ErrUnavailable", id, err)
	}
}

// A key that stands for what is longer than any ID stands for no session, whatever a foreign hand has put beside it: the start is a new one.
func TestLongKeyIsNotTold(t *testing.T) { // I2
	f := setup(t)
	long, s := strings.Repeat("x", 1<<20), session("a")
	f.must(f.client.Set(t.Context(), "v3:idem:"+s.Key, long, 0).Err())
	f.must(f.client.HSet(t.Context(), "v3:session:"+long, "state", string(intent.StateRunning)).Err())
	id, exists, err := f.store.PutSessionWithIdempotency(t.Context(), s, s.Key, keyTTL)
	if err != nil || exists || id != s.ID {
		t.Errorf("%.60q (%d bytes), exists: %v, %v; want a new session", id, len(id), exists, err)
	}
	if id, exists, err = f.store.PutSessionWithIdempotency(t.Context(), session("a"), s.Key, keyTTL); err != nil || !exists || id != s.ID {
		t.Errorf("an equal start: %.60q, exists: %v, %v; want the session", id, exists, err)
	}
}
