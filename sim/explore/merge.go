package explore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/check"
)

// ErrShard: the file of a shard cannot be read, or does not belong to the others.
var ErrShard = errors.New("shard file")

// Merged is what shards came to together.
type Merged struct {
	Coverage
	Files   int          `json:"files"`
	Missing []MissedPart `json:"missing"` // seeds between the first and the last that no file has, or has not done yet
	Causes  []Cause      `json:"causes"`  // what failed, each once
}

// MissedPart is a part of a range that was not explored.
type MissedPart struct {
	Seeds  SeedRange `json:"seeds"`
	Shards SeedRange `json:"shards"` // the first and the last of these that are missing
	Of     uint64    `json:"of"`
	Count  uint64    `json:"count"`          // seeds that are missing
	File   string    `json:"file,omitempty"` // of the one shard that is not complete, "" where there is no file
}

// Cause is what several seeds failed by: the same guarantees broken, the same words but for names and numbers.
type Cause struct {
	Broke []string   `json:"broke"`
	Count uint64     `json:"count"`
	Seeds []uint64   `json:"seeds"` // the first ones, in order
	First FailedSeed `json:"first"` // the lowest
}

// causeSeeds is how many seeds of a cause are named.
const causeSeeds = 20

// Merge adds up the files of shards. It refuses files of another program or another exploration, and files that overlap, and names
// all of them. If seeds are missing the verdict is unknown at best.
func Merge(files []string) (Merged, error) {
	m := merging{causes: map[string]*Cause{}}
	var wrong []error
	for _, file := range files {
		if err := m.add(file); err != nil {
			wrong = append(wrong, fmt.Errorf("%w: %w", ErrShard, err))
		}
	}
	wrong = append(wrong, m.twice()...)
	if len(wrong) > 0 || len(m.shards) == 0 {
		return Merged{}, errors.Join(wrong...)
	}
	return m.result(), nil
}

type merging struct {
	sum    Coverage
	shards []Coverage // without what failed
	causes map[string]*Cause
}

func (m *merging) add(file string) error {
	c, err := readCoverage(file)
	if err != nil {
		return err
	}
	if len(m.shards) > 0 {
		switch first := &m.shards[0]; {
		case c.Commit != first.Commit:
			return fmt.Errorf("%s was made by commit %q, %s by %q: other programs run other seeds", file, c.Commit, first.File, first.Commit)
		case !bytes.Equal(c.Scenario, first.Scenario) || !slices.Equal(c.Criteria, first.Criteria):
			return fmt.Errorf("%s explored %s, %s explored %s", file, c.Scenario, first.File, first.Scenario)
		}
	}
	for i := range c.Failed {
		m.failed(&c.Failed[i])
	}
	m.sum.join(&c)
	c.Failed = nil
	m.shards = append(m.shards, c)
	return nil
}

// join adds what another shard came to.
func (c *Coverage) join(o *Coverage) {
	if c.Guarantees == nil {
		c.Guarantees = make([]GuaranteeCount, len(o.Guarantees))
	}
	for i, g := range o.Guarantees {
		s := &c.Guarantees[i]
		s.ID = g.ID
		s.Exercised += g.Exercised
		s.Judged += g.Judged
		s.Excused += g.Excused
		prolong(s, g.Prolonged)
		s.join(g.Kinds, g.Times)
		s.Broken += g.Broken
	}
	c.Done += o.Done
	c.Repeated += o.Repeated
	c.Interpreted += o.Interpreted
	c.Events += o.Events
	c.VirtualMs += o.VirtualMs
	c.WallMs += o.WallMs
	c.Hash.join(o.Hash)
}

// named matches what differs between two seeds with the same cause: numbers with their units, and names that end with one.
var named = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]+|(?:\d[\d.,]*(?:ns|µs|ms|[smh])?)+`)

func (m *merging) failed(s *FailedSeed) {
	words := strings.Join(s.Broke, ",") + " " + named.ReplaceAllString(s.Detail, "#")
	c := m.causes[words]
	if c == nil {
		c = &Cause{Broke: s.Broke, First: *s}
		m.causes[words] = c
	}
	if s.Seed < c.First.Seed {
		c.First = *s
	}
	c.Count++
	at, _ := slices.BinarySearch(c.Seeds, s.Seed)
	c.Seeds = slices.Insert(c.Seeds, at, s.Seed)
	c.Seeds = c.Seeds[:min(len(c.Seeds), causeSeeds)]
}

// byRange sorts the shards by what they are shards of, and then by their number.
func (m *merging) byRange() {
	slices.SortStableFunc(m.shards, func(a, b Coverage) int {
		return cmp.Or(cmp.Compare(a.Seeds.From, b.Seeds.From), cmp.Compare(a.Seeds.To, b.Seeds.To), cmp.Compare(a.Shard.Of, b.Shard.Of),
			cmp.Compare(a.Shard.Index, b.Shard.Index))
	})
}

// twice names the files that have seeds which another has too.
func (m *merging) twice() []error {
	m.byRange()
	var wrong []error
	var widest *Coverage // of those before, the one that reaches furthest
	for i := range m.shards {
		c := &m.shards[i]
		switch {
		case widest == nil || c.Seeds.From > widest.Seeds.To:
		case c.Seeds != widest.Seeds || c.Shard.Of != widest.Shard.Of:
			wrong = append(wrong, fmt.Errorf("%w: %s has seeds %s, %s has seeds %s: they overlap", ErrShard, widest.File, widest.part(),
				c.File, c.part()))
		case c.Shard == m.shards[i-1].Shard:
			wrong = append(wrong, fmt.Errorf("%w: %s and %s are the same seeds, %s", ErrShard, m.shards[i-1].File, c.File, c.part()))
		}
		if widest == nil || c.Seeds.To > widest.Seeds.To {
			widest = c
		}
	}
	return wrong
}

func (c *Coverage) part() string {
	return fmt.Sprintf("%d-%d shard %d/%d", c.Seeds.From, c.Seeds.To, c.Shard.Index, c.Shard.Of)
}

// result counts what is missing between the first seed and the last.
func (m *merging) result() Merged {
	first, last := &m.shards[0], &m.shards[len(m.shards)-1]
	r := Merged{Coverage: m.sum, Files: len(m.shards), Missing: []MissedPart{}, Causes: []Cause{}}
	r.Version, r.Draw, r.Commit, r.Scenario, r.Criteria = first.Version, first.Draw, first.Commit, first.Scenario, first.Criteria
	r.Seeds, r.Shard = SeedRange{first.Seeds.From, last.Seeds.To}, Shard{1, 1}
	r.Total = r.Seeds.count(r.Shard)
	next := r.Seeds.From // nothing was seen of it yet, nor of what follows
	for rest := m.shards; len(rest) > 0; {
		seeds := rest[0].Seeds
		r.missing(SeedRange{next, seeds.From - 1}, 1, 1, 1)
		next = seeds.To + 1
		shard := uint64(1)
		of := rest[0].Shard.Of
		for ; len(rest) > 0 && rest[0].Seeds == seeds; rest = rest[1:] {
			c := &rest[0]
			r.missing(seeds, shard, c.Shard.Index-1, of)
			shard = c.Shard.Index + 1
			if c.Done < c.Total {
				r.Missing = append(r.Missing, MissedPart{seeds, SeedRange{c.Shard.Index, c.Shard.Index}, of, c.Total - c.Done, c.File})
			}
		}
		r.missing(seeds, shard, of, of)
	}
	for _, c := range m.causes {
		r.Causes = append(r.Causes, *c)
	}
	slices.SortFunc(r.Causes, func(a, b Cause) int { return cmp.Compare(a.First.Seed, b.First.Seed) })
	r.Verdict = r.decide()
	return r
}

// missing notes that the shards from to last of a range have no file. One beyond the range's end has no seed.
func (r *Merged) missing(seeds SeedRange, from, last, of uint64) {
	n := uint64(0)
	for i := from; i <= last && seeds.From <= seeds.To; i++ {
		n += seeds.count(Shard{i, of})
	}
	if n > 0 {
		last = min(last, seeds.To-seeds.From+1)
		r.Missing = append(r.Missing, MissedPart{Seeds: seeds, Shards: SeedRange{from, last}, Of: of, Count: n})
	}
}

func (r *Merged) decide() check.Outcome {
	c := r.Coverage
	for i := range r.Causes {
		c.Failed = append(c.Failed, r.Causes[i].First)
	}
	return c.decide()
}
