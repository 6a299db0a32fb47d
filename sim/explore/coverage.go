package explore

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// CoverageVersion is the format of a saved exploration. Any change of the fields raises it: only the same program may resume a state.
const CoverageVersion = 6

// Identity says which program explored what. Only coverages with equal programs and values may be joined or resumed.
type Identity struct {
	Version  int             `json:"version"`
	Draw     int             `json:"draw"`   // version of the draws
	Commit   string          `json:"commit"` // source of the program, with the hash of its file if that is not enough
	Seeds    SeedRange       `json:"seeds"`
	Shard    Shard           `json:"shard"`
	Scenario json.RawMessage `json:"scenario"` // the given values; the rest is drawn
}

// Coverage is the result so far of an exploration, of a shard, or of merged shards.
type Coverage struct {
	Identity

	Total  uint64   `json:"total"`            // seeds of the shard
	Done   uint64   `json:"done"`             // finished seeds
	Next   uint64   `json:"next"`             // index of the first unfinished seed, from 0
	Beyond []uint64 `json:"beyond,omitempty"` // indices of finished seeds after Next

	Criteria    []string         `json:"criteria"`
	Guarantees  []GuaranteeCount `json:"guarantees"`
	Failed      []FailedSeed     `json:"failed,omitempty"`
	Repeated    uint64           `json:"repeated"`    // seeds run twice and compared
	Interpreted uint64           `json:"interpreted"` // seeds compared with a second run of the .lua files
	Events      int64            `json:"events"`
	VirtualMs   int64            `json:"virtualMs"`
	WallMs      int64            `json:"wallMs"`
	Verdict     check.Outcome    `json:"verdict"`
	Hash        SeedsHash        `json:"hash"`           // of all finished seeds and their histories, independent of shards
	Last        *LastSeed        `json:"last,omitempty"` // last finished seed, to detect another program at a resumption

	File string `json:"-"` // the state file
}

// Progress is the coverage of a running exploration.
type Progress struct {
	Coverage
	Rate float64       // seeds a second since the start or resumption
	Left time.Duration // estimate; 0: unknown
}

// GuaranteeCount counts the seeds that exercised a guarantee, and those that broke it.
type GuaranteeCount struct {
	ID        string `json:"id"`
	Exercised uint64 `json:"exercised"`
	Judged    uint64 `json:"judged"`              // judged changes of all seeds
	Prolonged []int  `json:"prolonged,omitempty"` // judged changes whose limit other faults prolonged, by at most ½, 1, 1½ and 2 TTL
	Excused   uint64 `json:"excused"`             // changes without a computable limit, or without a judging limit
	Broken    uint64 `json:"broken"`

	Kinds []check.KindCount `json:"kinds,omitempty"` // the same changes, and breaks, by kind of fault
	Times []measure.Times   `json:"times,omitempty"` // measured times of all seeds
}

func (g *GuaranteeCount) count(v *check.Verdict) {
	g.join(&GuaranteeCount{
		Exercised: min(uint64(v.Exercised), 1), Judged: uint64(v.Exercised), Prolonged: v.Prolonged, Excused: uint64(v.Excused),
		Kinds: v.Kinds, Times: v.Times,
	})
}

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
	g.Kinds, g.Times = joined(g.Kinds, o.Kinds), measure.JoinAll(g.Times, o.Times)
}

// joined adds counts by kind and sorts them by kind.
func joined(a, b []check.KindCount) (all []check.KindCount) {
	for _, c := range slices.Concat(a, b) {
		i, ok := slices.BinarySearchFunc(all, c.Kind, func(k check.KindCount, kind string) int { return cmp.Compare(k.Kind, kind) })
		if !ok {
			all = slices.Insert(all, i, check.KindCount{Kind: c.Kind})
		}
		all[i].Exercised += c.Exercised
		all[i].Prolonged += c.Prolonged
		all[i].Excused += c.Excused
		all[i].Broken += c.Broken
	}
	return all
}

// LastSeed is a seed and the sum of its history, "" if it has none.
type LastSeed struct {
	Seed   uint64 `json:"seed"`
	SHA256 string `json:"historySha256"`
}

// Missing returns the criteria that no seed has exercised yet.
func (c *Coverage) Missing() []string {
	var ids []string
	for _, g := range c.Guarantees {
		if g.Exercised == 0 && slices.Contains(c.Criteria, g.ID) {
			ids = append(ids, g.ID)
		}
	}
	return ids
}

// unfinished returns the present indices of the seeds that are not finished.
func (c *Coverage) unfinished() iter.Seq[uint64] {
	next, total, beyond := c.Next, c.Total, slices.Clone(c.Beyond)
	return func(yield func(uint64) bool) {
		for i := next; i < total; i++ {
			if _, finished := slices.BinarySearch(beyond, i); !finished && !yield(i) {
				return
			}
		}
	}
}

// Covered describes the finished seeds.
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

// FailedSeed is a seed that broke a guarantee or panicked.
type FailedSeed struct {
	Seed   uint64   `json:"seed"`
	Broke  []string `json:"broke"`         // guarantees, or one of the constants below
	Detail string   `json:"detail"`        // of the first broken one
	Dir    string   `json:"dir,omitempty"` // folder of the run, "" for none
	SHA256 string   `json:"historySha256,omitempty"`

	Plan json.RawMessage `json:"plan,omitempty"` // drawn fault.Plan
}

// Values of FailedSeed.Broke besides guarantees.
const (
	brokePanic       = "panic" // the tested code or the engine panicked
	brokeHang        = "hang"  // the tested code looped at one instant
	brokeDeterminism = "determinism"
	brokeScripts     = "scripts"
)

// SeedsHash is the sum of the hashes of seeds and their histories, in any order. It detects another program or damage, not forgery.
type SeedsHash [sha256.Size]byte

func (h *SeedsHash) add(seed uint64, sum string) {
	h.join(sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), sum...)))
}

func (h *SeedsHash) join(o SeedsHash) {
	carry := 0
	for i := len(h) - 1; i >= 0; i-- {
		carry += int(h[i]) + int(o[i])
		h[i] = byte(carry)
		carry >>= 8
	}
}

// MarshalText implements encoding.TextMarshaler.
func (h SeedsHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *SeedsHash) UnmarshalText(text []byte) error {
	digits, err := hex.DecodeString(string(text))
	copy(h[:], digits)
	return err
}
