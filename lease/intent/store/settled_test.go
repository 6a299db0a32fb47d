package store

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// again puts a start on the bus a second time, as an older copy of the data has it.
func (f *fixture) again(s intent.Session) {
	f.Helper()
	f.must(f.client.XAdd(f.Context(), &redis.XAddArgs{Stream: "intent:bus", Values: []string{
		"type", "start", "session", s.ID, "service", s.Resource, "profile", "default", "start", "0"}}).Err())
}

// A sweep removes the entries of running and ended sessions from the bus and delivers them to nobody. It keeps those of waiting and unknown
// sessions.
func TestSweepIsDoneWithWhatIsSettled(t *testing.T) { // I3
	f := setup(t)
	dead, living := f.bus("dead"), f.bus("living")
	states := []intent.State{intent.StateNew, intent.StateStarting, intent.StateRunning, intent.StateEnded}
	for _, b := range []*bus{living, dead} {
		want := map[string]bool{}
		for i, state := range states {
			s := f.put(fmt.Sprint(b.worker, i))
			if state != intent.StateNew {
				f.write(living, intentbus.Write{Session: s.ID, Resource: s.Resource, State: state, Reason: intent.ReasonStopped, Fence: 10, SlotFence: 5})
			}
			want[s.ID] = state == intent.StateNew || state == intent.StateStarting
		}
		unknown := session("unknown")
		f.again(unknown)
		want[unknown.ID] = true
		f.fetch(b)
		f.must(dead.Leave(t.Context(), "dead"))
		got, _ := f.sweep(living)
		for _, e := range got {
			if !want[e.Session] {
				t.Errorf("%s is told of %+v", b.worker, e)
			}
			f.must(living.Bury(t.Context(), e, "told", 10, ""))
		}
		for id, open := range want { // as if it still waited
			if !open {
				f.must(f.client.ZAdd(t.Context(), "intent:waiting", redis.Z{Member: id}).Err())
			}
		}
		f.sweep(living)
		if len(got) != 3 || f.length("intent:bus") != 0 {
			t.Errorf("of %s: %d entries told, %d left; want three and none", b.worker, len(got), f.length("intent:bus"))
		}
	}
}

// A new stream may give a start the number of an earlier one. Writes for the earlier session still count, even hours later, and remove no
// other session's entry from the bus.
func TestEntriesNumberedAlikeAreNotSettled(t *testing.T) { // I3
	f := setup(t)
	w, other := f.bus("w"), f.bus("other")
	for i, step := range []struct {
		before, then intent.State
		want         intentbus.Wrote
	}{
		{"", intent.StateRunning, intentbus.WroteOK},
		{"", intent.StateEnded, intentbus.WroteOK},
		{intent.StateRunning, intent.StateEnded, intentbus.WroteOK},
		{intent.StateEnded, intent.StateEnded, intentbus.WroteOver},
	} {
		s, next := f.put(fmt.Sprint("a", i)), f.put(fmt.Sprint("b", i))
		said := intentbus.Write{Session: s.ID, Resource: s.Resource, Reason: intent.ReasonStopped, Slot: "1", Fence: 10, SlotFence: 5, Ack: f.fetch(w)[0].ID}
		if said.State = step.before; step.before != "" {
			f.write(w, said)
		}
		f.must(f.client.Del(t.Context(), "intent:bus").Err())
		f.must(other.Create(t.Context()))
		f.must(f.client.XAdd(t.Context(), &redis.XAddArgs{Stream: "intent:bus", ID: said.Ack, Values: []string{
			"type", "start", "session", next.ID, "service", next.Resource, "profile", "default", "start", "0"}}).Err())
		f.fetch(other)
		said.State = step.then
		if got := f.write(w, said); got != step.want || f.get(s.ID).State != step.then {
			t.Errorf("%s after %q: %s, %+v", step.then, step.before, got, f.get(s.ID))
		}
		pending, err := f.client.XPending(t.Context(), "intent:bus", group).Result()
		if err != nil || f.length("intent:bus") != 1 || pending.Count != 1 {
			t.Errorf("%s after %q: %d on the bus, %d of them in hand, %v; want the start of another", step.then, step.before,
				f.length("intent:bus"), pending.Count, err)
		}
		f.write(other, intentbus.Write{Session: next.ID, Resource: next.Resource, State: intent.StateEnded, Reason: intent.ReasonStopped, Ack: said.Ack})
		if f.length("intent:bus") != 0 {
			t.Errorf("%s after %q: the start is left on the bus that its own session has ended", step.then, step.before)
		}
	}
}

// However many entries of running sessions are on the bus, a sweep delivers a start whose answer was lost.
func TestSweepComesToWhatIsBehindACrowd(t *testing.T) { // I3
	f := setup(t)
	b := f.bus("w")
	for i := range sweepMax + 10 {
		s := f.put(fmt.Sprint("s", i))
		f.run(b, s)
	}
	lost := f.put("lost")
	f.fetch(b)
	f.fetch(b)
	for range 2 {
		if got, _ := f.sweep(b); len(got) == 1 && got[0].Session == lost.ID {
			return
		}
	}
	t.Errorf("%d entries are left, and %s is not told", f.length("intent:bus"), lost.ID)
}

// A running session does not start again: a STARTING that arrives after RUNNING changes nothing. When its worker is dead, the session ends.
func TestLateStarting(t *testing.T) { // I5
	f := setup(t)
	dead, living := f.bus("dead"), f.bus("living")
	s := f.put("a")
	starting := intentbus.Write{Session: s.ID, State: intent.StateStarting, Slot: "1", Fence: 10, SlotFence: 5}
	for _, want := range []intentbus.Wrote{intentbus.WroteOK, intentbus.WroteOK} {
		if got := f.write(dead, starting); got != want {
			t.Fatalf("STARTING: %s", got)
		}
	}
	entry := f.fetch(dead)[0].ID
	f.write(dead, intentbus.Write{Session: s.ID, State: intent.StateRunning, Slot: "1", Fence: 10, SlotFence: 5, Ack: entry})
	if got := f.write(dead, starting); got != intentbus.WroteOver || f.get(s.ID).State != intent.StateRunning {
		t.Errorf("late: %s, %+v; want it to run", got, f.get(s.ID))
	}
	f.run(dead, s)
	f.must(dead.Leave(t.Context(), "dead"))
	f.sweep(living)
	if got := f.get(s.ID); got.State != intent.StateEnded || got.Reason != intent.ReasonLeaseLost {
		t.Errorf("%+v, want it ended with its worker", got)
	}
}

// A late RUNNING of a swept worker counts while that worker has the lease on the service, and the session ends with the lease. Without the
// lease, the start belongs to the worker that took it over.
func TestLateRunning(t *testing.T) { // I3
	for _, held := range []bool{false, true} {
		f := setup(t)
		dead, other := f.bus("dead"), f.bus("other")
		s := f.put("a")
		entry := f.fetch(dead)[0].ID
		w := intentbus.Write{Session: s.ID, State: intent.StateStarting, Slot: "1", Fence: 10, SlotFence: 5}
		f.write(dead, w)
		f.must(dead.Leave(t.Context(), "dead"))
		if got, _ := f.sweep(other); len(got) != 1 {
			t.Fatalf("taken over: %+v", got)
		}
		want, then := intentbus.WroteOver, intentbus.WroteOK
		if held {
			want, then = intentbus.WroteOK, intentbus.WroteOver
			f.must(f.client.Set(t.Context(), "intent:lease:resource:"+"a", "dead", 0).Err())
		}
		w.State, w.Ack = intent.StateRunning, entry
		if got := f.write(dead, w); got != want {
			t.Errorf("late RUNNING, lease held %v: %s, want %s", held, got, want)
		}
		if got := f.write(other, intentbus.Write{Session: s.ID, State: intent.StateStarting, Slot: "2", Fence: 20, SlotFence: 6}); got != then {
			t.Errorf("STARTING of who has taken it over, lease held %v: %s, want %s", held, got, then)
		}
		if !held {
			continue
		}
		f.must(f.client.Del(t.Context(), "intent:lease:resource:"+"a").Err())
		f.must(f.client.ZAddXX(t.Context(), "intent:workers", redis.Z{Score: 1, Member: "dead"}).Err())
		f.must(f.client.Set(t.Context(), "intent:run", strings.Fields(f.client.Get(t.Context(), "intent:run").Val())[0]+" 1", 0).Err())
		f.sweep(other)
		if got := f.get(s.ID); got.State != intent.StateEnded || got.Reason != intent.ReasonLeaseLost {
			t.Errorf("%+v, want it ended with its worker", got)
		}
	}
}
