package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// A worker was frozen while it began a start, and counted as dead. After its thaw it ends nothing that another worker has taken over,
// neither before its first write nor after STARTING. It may still record and end what it runs, and end a start that nobody has taken over.
func TestTakenOverStartIsNotEnded(t *testing.T) { // I3
	f := setup(t)
	frozen, other := f.bus("frozen"), f.bus("other")
	fetched, begun, runs, kept := f.put("a"), f.put("b"), f.put("c"), f.put("d")
	entries := f.fetch(frozen)
	end := func(b *bus, i int, s intent.Session) intentbus.Wrote {
		return f.write(b, intentbus.Write{Session: s.ID, Resource: s.Resource, State: intent.StateEnded, Reason: intent.ReasonLeaseBusy, Fence: 10,
			Ack: entries[i].ID})
	}
	f.write(frozen, intentbus.Write{Session: begun.ID, Resource: "b", State: intent.StateStarting, Slot: "1", Fence: 10, SlotFence: 5})
	f.run(frozen, runs)
	if got := end(frozen, 3, kept); got != intentbus.WroteOK {
		t.Errorf("what nobody has taken over: %s", got)
	}
	for _, e := range entries { // as a sweep does; one entry has the number of the running session's
		f.must(f.client.Do(t.Context(), "XCLAIM", "intent:bus", group, "other", 0, e.ID).Err())
	}
	if got := end(frozen, 2, runs); got != intentbus.WroteOK {
		t.Errorf("what ran: %s", got)
	}
	for i, s := range []intent.Session{fetched, begun} {
		if got := end(frozen, i, s); got != intentbus.WroteOver {
			t.Errorf("what another has taken over: %s", got)
		}
		if got := f.get(s.ID); got.State == intent.StateEnded {
			t.Errorf("%+v", got)
		}
		if again, _, err := other.Sweep(t.Context(), time.Hour, 0); err != nil || len(again) != 2-i {
			t.Errorf("%d entries are left to who has taken them over, %v", len(again), err)
		}
		if got := end(other, i, s); got != intentbus.WroteOK {
			t.Errorf("by who has taken it over: %s", got)
		}
	}
}

// If Redis' clock is set back, or another server's clock is behind, recorded times in the future count as now. A worker is then dead a life
// later, and waiting and ended sessions keep their usual time.
func TestClockThatIsSetBack(t *testing.T) { // I3
	f := setup(t)
	dead, living := f.bus("dead"), f.bus("living")
	given, lost, ended := f.put("a"), f.put("b"), f.put("c")
	entries := f.fetch(dead)
	f.must(f.client.XDel(t.Context(), "intent:bus", entries[1].ID).Err())
	f.must(f.client.XAck(t.Context(), "intent:bus", group, entries[1].ID).Err())
	f.write(dead, intentbus.Write{Session: ended.ID, Resource: "c", State: intent.StateEnded, Reason: intent.ReasonStopped, Ack: entries[2].ID})
	f.sweep(living) // the first one of this server
	hour := f.client.Time(t.Context()).Val().Add(time.Hour).UnixMilli()
	for key, member := range map[string]string{"workers": "dead", "waiting": lost.ID, "ended": ended.ID} {
		f.must(f.client.ZAddXX(t.Context(), "intent:"+key, redis.Z{Score: float64(hour), Member: member}).Err())
	}
	run, _, _ := strings.Cut(f.client.Get(t.Context(), "intent:run").Val(), " ")
	f.must(f.client.Set(t.Context(), "intent:run", fmt.Sprint(run, " ", hour), 0).Err())
	if entries, _ := f.sweep(living); len(entries) > 0 {
		t.Errorf("%+v: whoever may have beaten a moment ago lives", entries)
	}
	if _, _, _, err := living.Beat(t.Context(), "{}"); err != nil {
		t.Fatal(err)
	}
	now := f.client.Time(t.Context()).Val()
	if all, err := as(f.store, "").Workers(t.Context()); err != nil || len(all) != 2 || all[0].Age < 0 {
		t.Errorf("%+v %v", all, err)
	}
	if n := f.client.ZCount(t.Context(), "intent:ended", "-inf", fmt.Sprint(now.UnixMilli())).Val(); n != 1 {
		t.Errorf("%d have ended by now, want 1", n)
	}
	got, _, err := living.Sweep(t.Context(), 0, time.Hour)
	f.must(err)
	if len(got) != 1 || got[0].Session != given.ID {
		t.Errorf("%+v, want the start that the dead one had", got)
	}
	if all, err := as(f.store, "").Workers(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("%+v %v, want the living one alone", all, err)
	}
	if got := f.fetch(living); len(got) != 1 || got[0].Session != lost.ID {
		t.Errorf("%+v, want the start whose entry is gone", got)
	}
}
