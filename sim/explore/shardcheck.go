package explore

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
)

var errContradicts = errors.New("it contradicts itself")

// shardDone is which seeds of a shard are done, counted from 0 in the order of the shard.
type shardDone struct {
	next   uint64          // all before it
	beyond map[uint64]bool // and these
	failed map[uint64]bool // of them, those that were read
}

// consistent refuses numbers that no exploration could have written, before any of what failed is read. It returns which seeds are done.
func (c *Coverage) consistent() (shardDone, error) {
	done := shardDone{c.Next, map[uint64]bool{}, map[uint64]bool{}}
	if err := checkRange(c.Seeds, c.Shard); err != nil {
		return done, err
	}
	ids, err := c.ids()
	if err != nil {
		return done, err
	}
	same := len(c.Guarantees) == len(ids) && len(c.Criteria) > 0 && len(c.Failed) == 0
	for i := 0; same && i < len(ids); i++ {
		same = c.Guarantees[i].ID == ids[i] && max(c.Guarantees[i].Exercised, c.Guarantees[i].Broken) <= c.Done && c.Guarantees[i].sums()
	}
	for _, id := range c.Criteria {
		same = same && slices.Contains(ids, id)
	}
	for _, i := range c.Beyond {
		same = same && i > c.Next && i < c.Total && !done.beyond[i]
		done.beyond[i] = true
	}
	if !same || c.Total != c.Seeds.count(c.Shard) || c.Next > c.Total || c.Done > c.Total ||
		c.Done != c.Next+uint64(len(c.Beyond)) || max(c.Repeated, c.Interpreted) > c.Done {
		return done, errContradicts
	}
	return done, nil
}

// sums reports whether the counts by kind add up to those of all, and the measured times to what their buckets hold.
func (g *GuaranteeCount) sums() bool {
	var all check.KindCount
	last := ""
	if len(g.Kinds) > kindsMax || len(g.Times) > kindsMax {
		return false
	}
	for _, k := range g.Kinds {
		if all.Join(k); k.Kind <= last || len(k.Kind) > nameMax {
			return false
		}
		last = k.Kind
	}
	for i, t := range g.Times {
		if !t.Consistent() || len(t.Of) > nameMax || slices.ContainsFunc(g.Times[:i], func(o check.Times) bool { return o.Of == t.Of }) {
			return false
		}
	}
	moved := uint64(0)
	for _, n := range g.Prolonged {
		moved += n
	}
	return all.Exercised == g.Judged && all.Excused == g.Excused && all.Prolonged == moved
}

// More kinds, and longer names of them or of what is measured, than there are.
const (
	kindsMax = 200
	nameMax  = 80
)

// ids are the guarantees of the system that was explored.
func (c *Coverage) ids() ([]string, error) {
	var scenario struct{ System string }
	if err := json.Unmarshal(c.Scenario, &scenario); err != nil {
		return nil, fmt.Errorf("scenario: %w", err)
	}
	system := cmp.Or(scenario.System, sim.SystemPolling)
	if !slices.Contains(check.Systems(), system) {
		return nil, fmt.Errorf("it is of system %q, which this program does not know", system)
	}
	return check.IDs(system), nil
}

// admit refuses a failed seed that is not one of those that are done, is there already, or is longer than one can be.
func (c *Coverage) admit(s *FailedSeed, done shardDone) error {
	at := s.Seed - c.Seeds.From - (c.Shard.Index - 1) // of a seed before the range more than any shard has
	i := at / c.Shard.Of
	if s.Seed < c.Seeds.From || s.Seed > c.Seeds.To || at%c.Shard.Of != 0 || i >= done.next && !done.beyond[i] || done.failed[i] {
		return fmt.Errorf("%w: seed %d is none of those that are done, or failed before", errContradicts, s.Seed)
	}
	done.failed[i] = true
	for n, id := range s.Broke {
		known := slices.Contains(brokenBeside, id) || slices.ContainsFunc(c.Guarantees, func(g GuaranteeCount) bool { return g.ID == id })
		if !known || slices.Contains(s.Broke[:n], id) {
			return fmt.Errorf("%w: seed %d broke %.20q", errContradicts, s.Seed, id)
		}
	}
	if len(s.Broke) == 0 || len(s.Detail) > shardDetailMax || len(s.Dir) > shardDirMax {
		return fmt.Errorf("%w: seed %d broke nothing, or says more of it than is ever said", errContradicts, s.Seed)
	}
	return nil
}

// accounted holds how many seeds broke each guarantee against those that are named.
func (c *Coverage) accounted() error {
	broken := map[string]uint64{}
	for i := range c.Failed {
		for _, id := range c.Failed[i].Broke {
			broken[id]++
		}
	}
	for _, g := range c.Guarantees {
		if g.Broken != broken[g.ID] {
			return fmt.Errorf("%w: %d seeds broke %s, and %d are named", errContradicts, g.Broken, g.ID, broken[g.ID])
		}
	}
	return nil
}
