package explore

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Merged is the combined result of shards.
type Merged struct {
	Coverage
	Files   int          `json:"files"`
	Missing []MissedPart `json:"missing"` // seeds between the first and the last that no file contains or that are unfinished
	Causes  []*Cause     `json:"causes"`  // causes of failed seeds
}

// MissedPart is an unexplored part of a range.
type MissedPart struct {
	Seeds  SeedRange `json:"seeds"`
	Shards SeedRange `json:"shards"` // first and last missing shard
	Of     uint64    `json:"of"`
	Count  uint64    `json:"count"`          // number of missing seeds
	File   string    `json:"file,omitempty"` // file of an incomplete shard; "": no file
}

// Cause groups failed seeds with the same broken guarantees and, apart from names and numbers, the same text.
type Cause struct {
	Broke []string   `json:"broke"`
	Count uint64     `json:"count"`
	Seeds []uint64   `json:"seeds"` // the lowest ones, in order
	First FailedSeed `json:"first"` // lowest seed
}

// causeSeeds is the maximum number of a cause's seeds that are listed.
const causeSeeds = 20

// Merge combines the files of shards. It refuses overlaps and files of another program or exploration, and the error names all of them.
// If seeds are missing, the verdict cannot be pass.
func Merge(files []string) (Merged, error) {
	var shards []Coverage
	var wrong []error
	for _, file := range files {
		c, err := readCoverage(file)
		if err == nil && len(shards) > 0 {
			err = c.belongs(&shards[0])
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("shard file: %w", err))
		} else {
			shards = append(shards, c)
		}
	}
	slices.SortStableFunc(shards, func(a, b Coverage) int {
		return cmp.Or(cmp.Compare(a.Seeds.From, b.Seeds.From), cmp.Compare(a.Seeds.To, b.Seeds.To), cmp.Compare(a.Shard.Of, b.Shard.Of),
			cmp.Compare(a.Shard.Index, b.Shard.Index))
	})
	m := Merged{Files: len(shards), Missing: []MissedPart{}}
	if len(shards) > 0 {
		wrong = append(wrong, m.cover(shards)...)
	}
	if len(wrong) > 0 || len(shards) == 0 {
		return Merged{}, errors.Join(wrong...)
	}
	m.sum(shards)
	return m, nil
}

func (c *Coverage) belongs(to *Coverage) error {
	switch {
	case c.Commit != to.Commit:
		return fmt.Errorf("%s was made by commit %q, %s by %q: other programs run other seeds", c.File, c.Commit, to.File, to.Commit)
	case !bytes.Equal(c.Scenario, to.Scenario) || !slices.Equal(c.Criteria, to.Criteria):
		return fmt.Errorf("%s explored %s, %s explored %s", c.File, c.Scenario, to.File, to.Scenario)
	}
	return nil
}

// cover records the seeds between the first and the last that the sorted shards miss, and returns an error for each overlap.
func (m *Merged) cover(shards []Coverage) (wrong []error) {
	last := &Coverage{} // no seed
	last.Seeds, last.Shard = SeedRange{shards[0].Seeds.From, shards[0].Seeds.From - 1}, Shard{1, 1}
	for i := range shards {
		c := &shards[i]
		switch {
		case c.Seeds == last.Seeds && c.Shard.Of == last.Shard.Of && c.Shard.Index > last.Shard.Index:
			m.missing(c.Seeds, last.Shard.Index+1, c.Shard.Index-1, c.Shard.Of)
		case c.Seeds.From <= last.Seeds.To:
			wrong = append(wrong, fmt.Errorf("shard files %s and %s overlap: both have seeds of %d-%d", last.File, c.File,
				c.Seeds.From, min(c.Seeds.To, last.Seeds.To)))
			continue
		default:
			m.missing(last.Seeds, last.Shard.Index+1, last.Shard.Of, last.Shard.Of)
			m.missing(SeedRange{last.Seeds.To + 1, c.Seeds.From - 1}, 1, 1, 1)
			m.missing(c.Seeds, 1, c.Shard.Index-1, c.Shard.Of)
		}
		if c.Done < c.Total {
			m.Missing = append(m.Missing, MissedPart{c.Seeds, SeedRange{c.Shard.Index, c.Shard.Index}, c.Shard.Of, c.Total - c.Done, c.File})
		}
		last = c
	}
	m.missing(last.Seeds, last.Shard.Index+1, last.Shard.Of, last.Shard.Of)
	return wrong
}

// missing records that the shards from to last of a range have no file.
func (m *Merged) missing(seeds SeedRange, from, last, of uint64) {
	last = min(last, seeds.To+1-seeds.From) // shards beyond the range's end have no seed
	if from > last {
		return
	}
	part := MissedPart{Seeds: seeds, Shards: SeedRange{from, last}, Of: of}
	for i := from; i <= last; i++ {
		part.Count += seeds.count(Shard{i, of})
	}
	m.Missing = append(m.Missing, part)
}

func (m *Merged) sum(shards []Coverage) {
	m.Coverage = shards[0]
	m.Seeds, m.Shard = SeedRange{m.Seeds.From, shards[len(shards)-1].Seeds.To}, Shard{1, 1}
	m.Total = m.Seeds.count(m.Shard)
	for _, c := range shards[1:] {
		for k := range c.Guarantees {
			m.Guarantees[k].join(&c.Guarantees[k])
		}
		m.Done += c.Done
		m.Repeated += c.Repeated
		m.Interpreted += c.Interpreted
		m.Events += c.Events
		m.VirtualMs += c.VirtualMs
		m.WallMs += c.WallMs
		m.Hash.join(c.Hash)
		m.Failed = append(m.Failed, c.Failed...)
	}
	m.Verdict = m.decide()
	m.Causes = causes(m.Failed)
	m.Failed, m.Beyond, m.Last, m.Next = nil, nil, nil, 0 // Failed is in Causes; the others belong to one shard
}

// named matches the differences between seeds with the same cause: numbers with units, and names that end in a number.
var named = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]+|(?:\d[\d.,]*(?:ns|µs|ms|[smh])?)+`)

func causes(failed []FailedSeed) []*Cause {
	slices.SortFunc(failed, func(a, b FailedSeed) int { return cmp.Compare(a.Seed, b.Seed) })
	all, of := []*Cause{}, map[string]*Cause{}
	for _, s := range failed {
		words := strings.Join(s.Broke, ",") + " " + named.ReplaceAllString(s.Detail, "#")
		c := of[words]
		if c == nil {
			c = &Cause{Broke: s.Broke, First: s}
			of[words], all = c, append(all, c)
		}
		c.Count++
		if len(c.Seeds) < causeSeeds {
			c.Seeds = append(c.Seeds, s.Seed)
		}
	}
	return all
}
