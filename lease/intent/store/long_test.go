package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// tooLong is longer than what is told of any value, or any ID.
var tooLong = strings.Repeat("x", RecordMax+1)

// Nor is what a record says of who has a start, or who it was taken from: a sweep tells the start.
func TestLongOwnersAreNotTold(t *testing.T) { // I3
	f := setup(t)
	living, dead := f.bus("living"), f.bus(tooLong)
	put := f.put("a")
	f.fetch(dead)
	f.must(dead.Leave(t.Context(), tooLong))
	f.must(f.client.HSet(t.Context(), "v3:session:"+put.ID, "owner", tooLong, "fence", tooLong).Err())
	got, _, err := living.Sweep(t.Context(), time.Hour, time.Hour)
	if err != nil || len(got) != 1 || got[0].Session != put.ID || got[0].From+got[0].Owner != "" || got[0].Fence != 0 {
		t.Errorf("%.300v, %v; want the start, and nobody who has it", got, err)
	}
}

// A member of what a worker has begun that is longer than any ID keeps it from no stop and from no end of what does not run there.
func TestLongMembersOfWhatIsBegun(t *testing.T) { // I5
	f := setup(t)
	b := f.bus("w")
	s := f.put("a")
	f.run(b, s)
	f.must(f.client.ZAdd(t.Context(), "v3:owned:w", redis.Z{Member: tooLong}).Err())
	var told []string
	f.must(b.Disown(t.Context(), func(ids []string) []string {
		told = ids
		return ids
	}))
	if got := f.get(s.ID); !slices.Equal(told, []string{s.ID}) || got.State != intent.StateEnded {
		t.Errorf("%.300v are told, and it is %+v; want the session, ended", told, got)
	}
	if n := f.client.ZCard(t.Context(), "v3:owned:w").Val(); n != 0 {
		t.Errorf("%d count as begun, want none", n)
	}
}

// Of the registry a worker is read as it is, whatever a foreign hand has put beside it, and it is in the way of who deletes leases.
func TestLongMembersOfTheRegistry(t *testing.T) { // I1, I5
	f := setup(t)
	f.must(f.client.ZAdd(t.Context(), "v3:workers", redis.Z{Member: tooLong, Score: 1}).Err())
	if _, beats, err := f.store.DeleteAllLeases(t.Context(), "me", nil); err != nil || beats != "" {
		t.Errorf("%.60q is in the way, %v; want nobody", beats, err)
	}
	for _, worker := range []string{"w", "long"} {
		_, _, _, err := f.bus(worker).Beat(t.Context(), "{}")
		f.must(err)
	}
	f.must(f.client.HSet(t.Context(), "v3:worker:info", "long", tooLong, "foreign", tooLong).Err())
	all, err := f.store.Workers(t.Context())
	if err != nil || len(all) != 2 {
		t.Fatalf("%.300v, %v; want two workers", all, err)
	}
	for _, w := range all {
		if want := map[string]string{"w": "{}", "long": ""}[w.Instance]; w.Info != want || w.Left || w.Age < 0 || w.Age > time.Minute {
			t.Errorf("%.300v, want what describes it to be %q", w, want)
		}
	}
	if _, beats, err := f.store.DeleteAllLeases(t.Context(), "long", nil); err != nil || beats != "w" {
		t.Errorf("%.60q is in the way, %v; want the other worker", beats, err)
	}
}

// A dead letter has no more of an entry than can be told, and one that is longer all the same is listed with the others, by its ID.
func TestLongDeadLetters(t *testing.T) {
	f := setup(t)
	b := f.bus("w")
	f.must(b.Create(t.Context()))
	values := []string{tooLong, "a", "session", "b", "service", tooLong}
	f.must(f.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "v3:bus", Values: values}).Err())
	f.must(b.Bury(t.Context(), f.fetch(b)[0], "why", 0, ""))
	if kept := fmt.Sprint(f.client.XRange(t.Context(), "v3:dead", "-", "+").Val()); len(kept) > 1000 {
		t.Errorf("the letter has %d bytes", len(kept))
	}
	values = append(values, "session", tooLong)
	for i := range 40 {
		values = append(values, fmt.Sprint("f", i), "v")
	}
	foreign := f.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "v3:dead", Values: values}).Val()
	letters, err := f.store.DeadLetters(t.Context(), "", 10)
	if err != nil || len(letters) != 2 || letters[0].Session != "b" || letters[0].Why != "why" || letters[1].ID != foreign ||
		letters[1].Session != "" || len(letters[1].Fields) > 19 || len(fmt.Sprint(letters)) > 2000 {
		t.Errorf("%.300v, %v; want two letters, and little of the second", letters, err)
	}
	if next, err := f.store.DeadLetters(t.Context(), letters[0].ID, 1); err != nil || len(next) != 1 || next[0].ID != foreign {
		t.Errorf("after the first: %.300v, %v", next, err)
	}
	if _, err := f.store.Requeue(t.Context(), foreign, keyTTL); !errors.Is(err, ErrRequeue) || len(err.Error()) > 1000 {
		t.Errorf("the second on the bus again: %.300v", err)
	}
}

// Nor does an error say all of what stands for another session in the place of a key.
func TestLongKeyIsNotToldOfARequeue(t *testing.T) {
	f := setup(t)
	b := f.bus("w")
	s := f.put("a")
	f.must(b.Bury(t.Context(), f.fetch(b)[0], "why", 0, intent.ReasonPipelineFailed))
	f.must(f.client.Set(t.Context(), "v3:idem:"+s.Key, tooLong, 0).Err())
	letters, err := f.store.DeadLetters(t.Context(), "", 1)
	f.must(err)
	if _, err := f.store.Requeue(t.Context(), letters[0].ID, keyTTL); !errors.Is(err, ErrRequeue) || len(err.Error()) > 1000 {
		t.Errorf("%.300v, want ErrRequeue", err)
	}
}

// A member of the sessions that is longer than any ID is on no page, and read past.
func TestLongMembersOfTheSessions(t *testing.T) {
	f := setup(t)
	older, newer := f.put("a"), f.put("b")
	beside := older.ID + strings.Repeat("x", 1<<20) // between the two
	f.must(f.client.ZAdd(t.Context(), "v3:sessions", redis.Z{Member: beside}, redis.Z{Member: beside + "x"}, redis.Z{Member: tooLong}).Err())
	f.must(f.client.ConfigResetStat(t.Context()).Err())
	f.pages(1, newer.ID, older.ID)
	var bytes int
	_, stats, _ := strings.Cut(f.client.Info(t.Context(), "stats").Val(), "total_net_output_bytes:")
	if _, err := fmt.Sscanf(stats, "%d", &bytes); err != nil || bytes > 20_000 {
		t.Errorf("Redis has sent %d bytes, %v", bytes, err)
	}
}

// Who is in the registry, with another type in the place of what it has begun, is dealt with once it is dead: ten of them would keep all
// others from it.
func TestForeignMembersOfTheRegistryGo(t *testing.T) { // I3
	f := setup(t)
	b := f.bus("w")
	for i := range 10 {
		worker := fmt.Sprint("a", i)
		f.must(f.client.ZAdd(t.Context(), "v3:workers", redis.Z{Member: worker}).Err())
		f.must(f.client.Set(t.Context(), "v3:owned:"+worker, "foreign", 0).Err())
	}
	s, dead := f.put("a"), f.bus("z")
	f.run(dead, s)
	f.must(dead.Leave(t.Context(), "z"))
	for range 2 {
		_, _, err := b.Sweep(t.Context(), time.Hour, time.Hour)
		f.must(err)
	}
	if got := f.get(s.ID); got.State != intent.StateEnded {
		t.Errorf("%+v, want it ended: its worker is dead", got)
	}
}
