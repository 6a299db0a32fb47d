package explore

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
)

// shardOf returns the coverage of an honest shard, with done of its seeds done.
func shardOf(seeds SeedRange, shard Shard, done uint64) Coverage {
	c := Coverage{
		Identity: Identity{CoverageVersion, sim.DrawVersion, "abc", seeds, shard, json.RawMessage(`{}`)},
		Total:    seeds.count(shard), Done: done, Next: done, Criteria: []string{"G1"},
	}
	for _, id := range check.IDs(sim.SystemPolling) {
		c.Guarantees = append(c.Guarantees, GuaranteeCount{ID: id, Exercised: done})
	}
	for i := range done {
		seed := seeds.seed(shard, i)
		c.Hash.add(seed, fmt.Sprint(seed))
	}
	return c
}

// fails adds a failed seed.
func fails(c *Coverage, s FailedSeed) {
	c.Failed = append(c.Failed, s)
	for i := range c.Guarantees {
		if slices.Contains(s.Broke, c.Guarantees[i].ID) {
			c.Guarantees[i].Broken++
		}
	}
}

func saved(t interface {
	Helper()
	Fatal(args ...any)
}, dir string, c Coverage,
) string {
	t.Helper()
	file := filepath.Join(dir, fmt.Sprintf("%d-%d-%d-%d", c.Seeds.From, c.Seeds.To, c.Shard.Index, c.Shard.Of))
	if err := writeCoverage(file, &c); err != nil {
		t.Fatal(err)
	}
	return file
}

// A program without build information, such as this test, is identified by its file. Otherwise all of them would look equal.
func TestShardsNameTheProgramThatMadeThem(t *testing.T) {
	x := Exploration{Scenario: sim.Scenario{Nodes: 2, Sessions: 2, Duration: time.Minute}, Seeds: SeedRange{1, 1}, Shard: Shard{1, 1}, Parallel: 1,
		Reports: t.TempDir()}
	if _, err := Run(t.Context(), x); err != nil {
		t.Fatal(err)
	}
	c, err := readCoverage(x.StateFile())
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256(self)); !strings.Contains(c.Commit, want) {
		t.Errorf("made by %q, want what names the file's hash %s", c.Commit, want)
	}
}

// However a range is divided, its shards add up to the whole. Each missing or incomplete shard is counted to the seed.
func TestMergeCountsEachSeedOnce(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		var files []string
		from := rapid.Uint64Range(1, 1<<40).Draw(t, "from")
		first, last := uint64(0), uint64(0)
		want, gone := SeedsHash{}, uint64(0)
		covered := map[uint64]bool{}
		for range rapid.IntRange(1, 3).Draw(t, "ranges") {
			r := SeedRange{from, from + rapid.Uint64Range(0, 40).Draw(t, "length")}
			of := rapid.Uint64Range(1, 12).Draw(t, "of")
			for i := uint64(1); i <= of; i++ {
				s := Shard{i, of}
				n := r.count(s)
				if n == 0 || rapid.IntRange(0, 3).Draw(t, "lost") == 0 {
					continue
				}
				done := n - min(n, rapid.Uint64Range(0, 2).Draw(t, "undone"))
				files = append(files, saved(t, dir, shardOf(r, s, done)))
				for k := range done {
					covered[r.seed(s, k)] = true
				}
				if first == 0 {
					first = r.From
				}
				last = r.To
			}
			from = r.To + 1 + rapid.Uint64Range(0, 5).Draw(t, "gap")
		}
		if len(files) == 0 {
			t.Skip("no file is left")
		}
		for seed := first; seed <= last; seed++ {
			if covered[seed] {
				want.add(seed, fmt.Sprint(seed))
			} else {
				gone++
			}
		}
		m, err := Merge(rapid.Permutation(files).Draw(t, "order"))
		if err != nil {
			t.Fatal(err)
		}
		missing := uint64(0)
		for _, p := range m.Missing {
			missing += p.Count
		}
		if m.Hash != want || missing != gone || m.Total-m.Done != gone || m.Seeds != (SeedRange{first, last}) {
			t.Fatalf("hash %v, missing %d, %d of %d of %v; want %v and %d of %d-%d", m.Hash, missing, m.Done, m.Total, m.Seeds, want, gone,
				first, last)
		}
		if verdict := m.Verdict; (verdict == check.Pass) != (gone == 0) {
			t.Fatalf("verdict %s with %d missing", verdict, gone)
		}
	})
}

// Shards of other programs, explorations and ranges are refused, and the error names each of them.
func TestMergeRefusesWhatDoesNotBelong(t *testing.T) {
	dir := t.TempDir()
	r := SeedRange{1, 100}
	first := saved(t, dir, shardOf(r, Shard{1, 2}, 50))
	for _, other := range []struct {
		says string
		bend func(*Coverage)
	}{
		{"made by commit", func(c *Coverage) { c.Commit = "other" }},
		{"explored", func(c *Coverage) { c.Scenario = json.RawMessage(`{"nodes":3}`) }},
		{"has version", func(c *Coverage) { c.Version++ }},
		{"shard: 0/2 is out of range", func(c *Coverage) { c.Shard.Index = 0 }},
		{"draws 99", func(c *Coverage) { c.Draw = 99 }},
		{"overlap", func(c *Coverage) { *c = shardOf(r, Shard{1, 2}, 50) }},
		{"overlap", func(c *Coverage) { *c = shardOf(r, Shard{2, 3}, 33) }},
		{"overlap", func(c *Coverage) { *c = shardOf(SeedRange{100, 120}, Shard{1, 1}, 21) }},
	} {
		c := shardOf(r, Shard{2, 2}, 50)
		other.bend(&c)
		file := filepath.Join(dir, "other")
		if err := writeCoverage(file, &c); err != nil {
			t.Fatal(err)
		}
		_, err := Merge([]string{first, file, filepath.Join(dir, "none")})
		if err == nil || !strings.Contains(err.Error(), other.says) || !strings.Contains(err.Error(), file) ||
			!strings.Contains(err.Error(), "none: no such file") {
			t.Errorf("%s: %v", other.says, err)
		}
	}
}

// Equal failures are one cause, whatever shard and time they are from.
func TestMergeNamesEachCauseOnce(t *testing.T) {
	dir := t.TempDir()
	var files []string
	for i := uint64(1); i <= 3; i++ {
		c := shardOf(SeedRange{1, 300}, Shard{i, 3}, 100)
		for k := range uint64(30) {
			fails(&c, FailedSeed{
				Seed: c.Seeds.seed(c.Shard, k), Broke: []string{"G1"},
				Detail: fmt.Sprintf("G1: session 0f%06d-aaaa had node-%d and node-%d for 1m%d.5s", k, k, i, k),
			})
		}
		fails(&c, FailedSeed{Seed: 297 + i, Broke: []string{"panic"}, Detail: "panic: broken"})
		files = append(files, saved(t, dir, c))
	}
	m, err := Merge(files)
	if err != nil || m.Verdict != check.Fail || len(m.Causes) != 2 {
		t.Fatalf("%+v, %v", m.Causes, err)
	}
	if c := m.Causes[0]; c.Count != 90 || c.First.Seed != 1 || len(c.Seeds) != causeSeeds || !slices.IsSorted(c.Seeds) || c.Seeds[19] != 20 {
		t.Errorf("%+v", c)
	}
	if c := m.Causes[1]; c.Count != 3 || !slices.Equal(c.Seeds, []uint64{298, 299, 300}) {
		t.Errorf("%+v", c)
	}
}

// BenchmarkMerge adds up ten thousand shards of 10^8 seeds, as in docs/scale.md.
func BenchmarkMerge(b *testing.B) {
	dir, files := b.TempDir(), []string(nil)
	for i := uint64(1); i <= 10_000; i++ {
		c := shardOf(SeedRange{1, 100_000_000}, Shard{i, 10_000}, 0)
		c.Done, c.Next = c.Total, c.Total
		files = append(files, saved(b, dir, c))
	}
	for b.Loop() {
		if m, err := Merge(files); err != nil || m.Done != 100_000_000 {
			b.Fatal(err)
		}
	}
}
