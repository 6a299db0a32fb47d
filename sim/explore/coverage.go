package explore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
)

// CoverageVersion is the format of an exploration's state that this program writes and reads. A state is resumed by the
// program that made it and by no other, so any change of its fields raises it.
const CoverageVersion = 6

// Coverage is what an exploration, a shard of one, or shards merged came to so far.
type Coverage struct {
	Version  int             `json:"version"`
	Draw     int             `json:"draw"`   // the version of what seeds draw
	Commit   string          `json:"commit"` // what the program was built from; where that is not all, with the hash of its file
	Seeds    SeedRange       `json:"seeds"`
	Shard    Shard           `json:"shard"`
	Scenario json.RawMessage `json:"scenario"` // what was given; the rest is drawn

	Total  uint64   `json:"total"`            // seeds of the shard
	Done   uint64   `json:"done"`             // of these
	Next   uint64   `json:"next"`             // all before this one are done, counted from 0
	Beyond []uint64 `json:"beyond,omitempty"` // done ones behind it

	Criteria    []string         `json:"criteria"`
	Guarantees  []GuaranteeCount `json:"guarantees"`
	Failed      []FailedSeed     `json:"failed,omitempty"`
	Repeated    uint64           `json:"repeated"`    // run twice and compared
	Interpreted uint64           `json:"interpreted"` // run twice, the second time with the .lua files themselves, and compared
	Events      int64            `json:"events"`
	VirtualMs   int64            `json:"virtualMs"`
	WallMs      int64            `json:"wallMs"`
	Verdict     check.Outcome    `json:"verdict"`
	Hash        SeedsHash        `json:"hash"`           // of all done seeds and their histories, whatever the shards
	Last        *LastSeed        `json:"last,omitempty"` // the one done last, which tells whether it is the same program that goes on

	File string        `json:"-"` // the state file
	Rate float64       `json:"-"` // seeds a second since the start or the resumption
	Left time.Duration `json:"-"` // estimated, 0 if not known
	Old  uint64        `json:"-"` // done before the resumption
}

// GuaranteeCount is how many seeds put a guarantee to the test, and how many broke it.
type GuaranteeCount struct {
	ID        string `json:"id"`
	Exercised uint64 `json:"exercised"`
	Judged    uint64 `json:"judged"`              // changes, of all seeds
	Prolonged []int  `json:"prolonged,omitempty"` // of those: whose limit other faults moved, by at most ½, 1, 1½ and 2 TTL
	Excused   uint64 `json:"excused"`             // changes that no limit could be computed for, or none that judges anything
	Broken    uint64 `json:"broken"`

	Kinds []check.KindCount `json:"kinds,omitempty"` // the same changes, and breaks, by the kind of fault
	Times []check.Times     `json:"times,omitempty"` // measured, of all seeds
}

// count adds what one seed's verdict says.
func (g *GuaranteeCount) count(v *check.Verdict) {
	g.join(&GuaranteeCount{
		Exercised: min(uint64(v.Exercised), 1), Judged: uint64(v.Exercised), Prolonged: v.Prolonged, Excused: uint64(v.Excused),
		Kinds: v.Kinds, Times: v.Times,
	})
}

// join adds the seeds of another count.
func (g *GuaranteeCount) join(o *GuaranteeCount) {
	g.Exercised += o.Exercised
	g.Judged += o.Judged
	g.Excused += o.Excused
	g.Broken += o.Broken
	if g.Prolonged == nil && len(o.Prolonged) > 0 {
		g.Prolonged = make([]int, len(o.Prolonged))
	}
	for i, n := range o.Prolonged {
		g.Prolonged[i] += n
	}
	g.Kinds, g.Times = check.JoinKinds(g.Kinds, o.Kinds), check.JoinTimes(g.Times, o.Times)
}

// LastSeed is a seed and the sum of its history, "" if it has none.
type LastSeed struct {
	Seed   uint64 `json:"seed"`
	SHA256 string `json:"historySha256"`
}

// Missing returns the criteria that no seed has put to the test yet.
func (c *Coverage) Missing() []string {
	var ids []string
	for _, g := range c.Guarantees {
		if g.Exercised == 0 && slices.Contains(c.Criteria, g.ID) {
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// Covered says in words which seeds are done.
func (c *Coverage) Covered() string {
	var parts []string
	if c.Next > 0 {
		parts = append(parts, fmt.Sprintf("seeds %d to %d are covered", c.Seeds.From, c.Seeds.seed(c.Shard, c.Next-1)))
		if c.Shard.Of > 1 {
			parts[0] += fmt.Sprintf(" as far as they are in shard %d/%d", c.Shard.Index, c.Shard.Of)
		}
	}
	if n := len(c.Beyond); n > 0 {
		parts = append(parts, fmt.Sprintf("%d behind them", n))
	}
	if len(parts) == 0 {
		return "no seed is covered"
	}
	return strings.Join(parts, " and ")
}

func (c *Coverage) decide() check.Outcome {
	switch {
	case len(c.Failed) > 0:
		return check.Fail
	case c.Done < c.Total || len(c.Missing()) > 0:
		return check.Unknown
	}
	return check.Pass
}
