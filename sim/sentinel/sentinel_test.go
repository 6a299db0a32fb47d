package sentinel

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/redistest"
)

// TestRounds is for make soak, which asks for ten rounds of each kind (about fourteen minutes); make chaos plays one, and two with
// Replicas. MIN_REPLICAS sets min-replicas-to-write, REPLICAS the instances' Config.Replicas, CLUSTER has them on a cluster.
func TestRounds(t *testing.T) {
	text := os.Getenv("SENTINEL_ROUNDS")
	if text == "" {
		t.Skip("for make soak: SENTINEL_ROUNDS=10 go test -count=1 -timeout 30m -v ./sim/sentinel -run TestRounds")
	}
	rounds, err := strconv.Atoi(text)
	if err != nil || rounds < 1 {
		t.Fatalf("SENTINEL_ROUNDS is %q; it must be a number of rounds", text)
	}
	var opts []redistest.Option
	if least := os.Getenv("MIN_REPLICAS"); least != "" {
		opts = append(opts, redistest.Args("--min-replicas-to-write", least))
	}
	replicas, _ := strconv.Atoi(os.Getenv("REPLICAS"))
	var f *Fleet
	kinds := Kinds()
	switch {
	case os.Getenv("CLUSTER") != "":
		f, kinds = StartClustered(t, replicas, opts...), append(kinds, Move)
	case replicas > 0:
		kinds = append(kinds, Cut)
		fallthrough
	default:
		f = Start(t, replicas, opts...)
	}
	for _, kind := range kinds {
		for _, r := range f.Play(slices.Repeat([]Kind{kind}, rounds)...) {
			if r.Doubled > 0 {
				t.Errorf("two owners: %s", r)
			}
		}
	}
}

func TestJudge(t *testing.T) {
	at := func(seconds float64) time.Time {
		return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
	}
	w := func(owner string, from, to float64) window { return window{owner, at(from), at(to)} }
	for _, tt := range []struct {
		name           string
		windows        []window
		together, idle float64
	}{
		{"nobody", nil, 0, 10},
		{"one after the other", []window{w("a", -1, 4), w("b", 4, 11)}, 0, 0},
		{"a gap", []window{w("a", 0, 4), w("b", 5.5, 12)}, 0, 1.5},
		{"the end of it", []window{w("a", 0, 7)}, 0, 3},
		{"two at once", []window{w("a", 0, 6), w("b", 4, 12)}, 2, 0},
		{"one inside the other", []window{w("a", 0, 10), w("b", 4, 5)}, 1, 0},
		{"two inside the other", []window{w("a", 0, 10), w("b", 4, 5), w("c", 6, 8)}, 3, 0},
		{"the first again, inside", []window{w("a", 0, 6), w("b", 4, 12), w("a", 8, 9)}, 3, 0},
		{"told out of order", []window{w("b", 4, 12), w("a", 0, 6)}, 2, 0},
		{"one owner's terms", []window{w("a", 0, 6), w("a", 5, 12)}, 0, 0},
		{"before the round", []window{w("a", -5, 0), w("b", -3, 12)}, 0, 0},
	} {
		together, idle := judge(tt.windows, at(0), at(10))
		if together.Seconds() != tt.together || idle.Seconds() != tt.idle {
			t.Errorf("%s: together for %v, idle for %v; want %v s, %v s", tt.name, together, idle, tt.together, tt.idle)
		}
	}
}
