package place

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/internal/member"
)

// world is a placement and what comes of carrying it out.
type world struct {
	sessions  *Sessions
	instances []string
	owner     map[string]string
}

func drawWorld(t *rapid.T) *world {
	n := rapid.IntRange(1, 12).Draw(t, "instances")
	m := rapid.IntRange(0, 200).Draw(t, "sessions")
	w := &world{owner: map[string]string{}}
	ids := make([]string, m)
	for i := range ids {
		ids[i] = rapid.StringMatching(`[0-9a-f]{8}`).Draw(t, "id")
	}
	w.sessions = NewSessions(ids)
	for i := range n {
		w.instances = append(w.instances, fmt.Sprintf("host-%s-%d", rapid.StringMatching(`[0-9a-f]{4}`).Draw(t, "host"), i))
	}
	slices.Sort(w.instances)
	return w
}

// place carries out one placement and returns what moved from one living owner to another, and what was free.
func (w *world) place() (moved, taken int) {
	hashes := make([]uint64, len(w.instances))
	at := map[string]int32{}
	for i, id := range w.instances {
		hashes[i] = member.Hash(id)
		at[id] = int32(i)
	}
	owner := make([]int32, len(w.sessions.IDs))
	for i, s := range w.sessions.IDs {
		owner[i] = Nobody
		if o, ok := at[w.owner[s]]; ok {
			owner[i] = o
		}
	}
	var p Placer
	target, _ := p.Place(w.sessions, hashes, owner)
	for i, t := range target {
		if t == Nobody {
			continue
		}
		if owner[i] == Nobody {
			taken++
		} else {
			moved++
		}
		w.owner[w.sessions.IDs[i]] = w.instances[t]
	}
	return moved, taken
}

func (w *world) counts() map[string]int {
	n := map[string]int{}
	for _, id := range w.instances {
		n[id] = 0
	}
	for _, s := range w.sessions.IDs {
		n[w.owner[s]]++
	}
	return n
}

func (w *world) checkBalance(t *rapid.T) {
	lo, hi := 1<<30, 0
	for _, n := range w.counts() {
		lo, hi = min(lo, n), max(hi, n)
	}
	if hi-lo > 1 {
		t.Fatalf("shares lie between %d and %d: %v", lo, hi, w.counts())
	}
	for _, s := range w.sessions.IDs {
		if !slices.Contains(w.instances, w.owner[s]) {
			t.Fatalf("session %s belongs to %q, which is no live instance", s, w.owner[s])
		}
	}
}

// TestPlaceBalance: within one of the ideal for all N and M, no session without a target, and what is reached stays (G6).
func TestPlaceBalance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		if moved, taken := w.place(); moved != 0 || taken != len(w.sessions.IDs) {
			t.Fatalf("a first placement of %d moved %d and took %d", len(w.sessions.IDs), moved, taken)
		}
		w.checkBalance(t)
		if moved, taken := w.place(); moved+taken != 0 {
			t.Fatalf("a reached placement moved: %d, %d", moved, taken)
		}
	})
}

// TestPlaceMinimal: a join moves what the newcomer needs and a leave what the leaver held, not one session more (G7).
func TestPlaceMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.place()
		newcomer := "host-new"
		w.instances = append(w.instances, newcomer)
		slices.Sort(w.instances)
		moved, taken := w.place()
		w.checkBalance(t)
		if got := w.counts()[newcomer]; moved != got || taken != 0 || got != len(w.sessions.IDs)/len(w.instances) {
			t.Fatalf("join: moved %d, took %d; the newcomer owns %d of %d among %d", moved, taken, got, len(w.sessions.IDs),
				len(w.instances))
		}
		leaver := rapid.SampledFrom(w.instances).Draw(t, "leaver")
		held := w.counts()[leaver]
		w.instances = slices.DeleteFunc(w.instances, func(id string) bool { return id == leaver })
		if len(w.instances) == 0 {
			return
		}
		if moved, taken := w.place(); moved != 0 || taken != held {
			t.Fatalf("leave: moved %d, took %d of the leaver's %d", moved, taken, held)
		}
		w.checkBalance(t)
	})
}

// TestPlaceSessions: a session that comes moves none that was there; one that goes (or is paused) at most one.
func TestPlaceSessions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		w.place()
		w.sessions = NewSessions(append(slices.Clone(w.sessions.IDs), "ffffffffff"))
		if moved, taken := w.place(); moved != 0 || taken != 1 {
			t.Fatalf("a new session moved %d and took %d", moved, taken)
		}
		w.checkBalance(t)
		i := rapid.IntRange(0, len(w.sessions.IDs)-1).Draw(t, "gone")
		w.sessions = NewSessions(slices.Delete(slices.Clone(w.sessions.IDs), i, i+1))
		if moved, taken := w.place(); moved > 1 || taken != 0 {
			t.Fatalf("a session that went moved %d and took %d", moved, taken)
		}
		w.checkBalance(t)
	})
}

// TestPlaceFromAnything: whatever the owners are, foreign ones among them, one placement balances, moving only excess.
func TestPlaceFromAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		choices := append([]string{"", "dead"}, w.instances...)
		for _, s := range w.sessions.IDs {
			w.owner[s] = rapid.SampledFrom(choices).Draw(t, "owner")
		}
		quota := (len(w.sessions.IDs) + len(w.instances) - 1) / len(w.instances)
		excess, floor := 0, len(w.sessions.IDs)/len(w.instances)
		for _, id := range w.instances {
			excess += max(0, w.counts()[id]-floor)
		}
		moved, _ := w.place()
		w.checkBalance(t)
		if moved > excess {
			t.Fatalf("moved %d, more than the %d above %d..%d", moved, excess, floor, quota)
		}
	})
}

// TestPlaceMidway: whoever looks while a placement is being carried out, in whatever order, wants the rest of the same one.
// Were it another, instances that look at different times would ask for different shares, and the last of them would be
// settled an interval late (G6).
func TestPlaceMidway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t)
		choices := append([]string{"", "dead"}, w.instances...)
		for _, s := range w.sessions.IDs {
			w.owner[s] = rapid.SampledFrom(choices).Draw(t, "owner")
		}
		before := maps.Clone(w.owner)
		w.place()
		planned := maps.Clone(w.owner)
		w.owner = before
		for _, s := range w.sessions.IDs {
			if rapid.Bool().Draw(t, "carried out") {
				w.owner[s] = planned[s]
			}
		}
		w.place()
		for _, s := range w.sessions.IDs {
			if w.owner[s] != planned[s] {
				t.Fatalf("session %s was to go to %s, and half way to %s", s, planned[s], w.owner[s])
			}
		}
	})
}

func BenchmarkPlace(b *testing.B) {
	const n, m = 100, 100_000
	ids := make([]string, m)
	for i := range ids {
		ids[i] = fmt.Sprintf("%08x-0000-4000-8000-%012x", rank(uint64(i), 1)>>32, i)
	}
	s := NewSessions(ids)
	hashes := make([]uint64, n+1)
	for i := range hashes {
		hashes[i] = member.Hash(fmt.Sprintf("host-%d", i))
	}
	free := make([]int32, m)
	for i := range free {
		free[i] = Nobody
	}
	var p Placer
	target, _ := p.Place(s, hashes[:n], free)
	settled := slices.Clone(target)
	for _, bm := range []struct {
		name  string
		n     int
		owner []int32
	}{{"cold", n, free}, {"join", n + 1, settled}, {"settled", n, settled}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Place(s, hashes[:bm.n], bm.owner)
			}
		})
	}
}
