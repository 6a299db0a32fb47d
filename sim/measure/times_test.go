package measure

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A time read from the buckets is the measured time, or up to a 64th and a microsecond more, and never more than the largest. Adding up
// times gives the same as collecting them together, also after encoding.
func TestTimesAreWhatWasMeasured(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Int64Range(0, int64(30*time.Hour)), 1, 60).Draw(t, "times")
		cut := rapid.IntRange(0, len(all)-1).Draw(t, "of another run")
		collect := func(ns []int64) Times {
			c := NewTimes("a time")
			for _, x := range ns {
				c.Add(x)
			}
			c.Read()
			return *c
		}
		got, other := collect(all[:cut]), collect(all[cut:])
		got.Join(other)
		if diff := cmp.Diff(collect(all), got); diff != "" {
			t.Fatalf("added up they are others:\n%s", diff)
		}
		text, err := got.Buckets.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var again Buckets
		if err := again.UnmarshalText(text); err != nil || !maps.Equal(again, got.Buckets) {
			t.Fatalf("%s was read as %v: %v", text, again, err)
		}
		slices.Sort(all)
		for percent, q := range map[int]Millis{50: got.P50, 99: got.P99} {
			exact := all[(len(all)*percent+99)/100-1]
			if most := exact + exact/64 + int64(time.Microsecond); int64(q) < exact-exact%1000 || int64(q) > most || q > got.Max {
				t.Fatalf("p%d is %d of %v, want %d to %d", percent, q, all, exact, most)
			}
		}
	})
}

func TestBucketsAreRefused(t *testing.T) {
	for _, text := range []string{
		"1", "1:", ":1", "1:0", "-1:1", "2:1 1:1", "1:1 1:1", "1:-1", "2048:1", "1:x", "1:1,2:1", "99999999999999999999:1",
		"1:18446744073709551615", "1:1125899906842624 2:1",
	} {
		var b Buckets
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, b)
		}
	}
}
