package lease

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/inner"
)

// tableShards is how many copy-on-write maps the trust table has. A single map would be copied whole at every change.
const tableShards = 64

// table is the trust table. IsOwned reads it without a lock; only the loop writes.
type table struct {
	in     *instance
	counts *renewalCounts
	shards [tableShards]atomic.Pointer[map[string]*Lease]
	staged [tableShards]map[string]*Lease // copies changed by this step, published together
}

func shardOf(id string) int {
	if len(id) < 2 {
		return 0
	}
	return int(id[len(id)-1]*31+id[len(id)-2]) % tableShards
}

func (t *table) get(id string) *Lease {
	if m := t.shards[shardOf(id)].Load(); m != nil {
		return (*m)[id]
	}
	return nil
}

// stage returns the map that replaces id's shard at the next publish.
func (t *table) stage(id string) map[string]*Lease {
	i := shardOf(id)
	if t.staged[i] == nil {
		if m := t.shards[i].Load(); m != nil {
			t.staged[i] = maps.Clone(*m)
		} else {
			t.staged[i] = map[string]*Lease{}
		}
	}
	return t.staged[i]
}

// current is get for the loop: it includes staged changes.
func (t *table) current(id string) *Lease {
	if m := t.staged[shardOf(id)]; m != nil {
		return m[id]
	}
	return t.get(id)
}

func (t *table) publish() {
	for i := range t.staged {
		if t.staged[i] != nil {
			m := t.staged[i]
			t.shards[i].Store(&m)
			t.staged[i] = nil
		}
	}
}

func (t *table) empty() bool {
	for i := range t.shards {
		if m := t.shards[i].Load(); m != nil && len(*m) > 0 {
			return false
		}
	}
	return true
}

// holds returns all terms, ascending by name.
func (t *table) holds() []*Lease {
	var all []*Lease
	for i := range t.shards {
		if m := t.shards[i].Load(); m != nil {
			all = slices.AppendSeq(all, maps.Values(*m))
		}
	}
	slices.SortFunc(all, func(a, b *Lease) int { return strings.Compare(a.name, b.name) })
	return all
}

// apply applies tells to the trust table and returns their terms in holds. After apply, nobody believes in a finished term.
func (t *table) apply(tells []core.Tell, holds []*Lease) []*Lease {
	t.counts.mu.Lock()
	for i := range tells {
		holds = append(holds, t.trust(&tells[i]))
	}
	t.counts.mu.Unlock()
	t.publish()
	return holds
}

func (t *table) trust(tell *core.Tell) *Lease {
	switch tell.Kind {
	case core.TellAcquired:
		h := &Lease{in: t.in, name: tell.ID, fence: tell.Fence, acquiredAt: tell.At}
		h.until.Store(int64(tell.Until))
		h.believe(h.belief().After(tell))
		t.stage(tell.ID)[tell.ID] = h
		return h
	case core.TellRenewed:
		h := t.believe(tell)
		if h != nil {
			h.renewedAt.Store(int64(tell.At))
		}
		return h
	case core.TellUncertain:
		return t.believe(tell)
	case core.TellYield:
		h := t.current(tell.ID)
		if h != nil {
			h.yields++
			h.yielding.Store(h.yields)
		}
		return h
	case core.TellKept:
		h := t.current(tell.ID)
		if h != nil {
			h.yielding.Store(0)
		}
		return h
	case core.TellLost, core.TellReleased:
		h := t.believe(tell)
		if h != nil {
			delete(t.stage(tell.ID), tell.ID)
		}
		return h
	default:
		return nil
	}
}

// believe updates the term that tell is about, and returns it.
func (t *table) believe(tell *core.Tell) *Lease {
	h := t.current(tell.ID)
	if h == nil {
		return nil
	}
	if tell.Kind == core.TellRenewed {
		t.counts.renewed(h, tell)
	}
	if tell.Until != 0 {
		h.until.Store(int64(tell.Until))
	}
	h.believe(h.belief().After(tell))
	return h
}

// attempting records that an attempt to renew is about to be sent: unless Redis answers, belief ends at the attempt's deadline.
func (t *table) attempting(op *core.Op) {
	for i := range op.Items {
		if h := t.get(op.Items[i].ID); h != nil {
			h.believe(h.belief().During(op))
		}
	}
}

// Bounds of the histograms. A renewal takes between a fraction of a millisecond and a tenth of the TTL. The TTL, and so the window,
// is the user's choice.
var (
	tookBounds   = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	marginBounds = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600}
)

// renewalCounts counts renewals. The loop writes all counts of a step at once.
type renewalCounts struct {
	mu     sync.Mutex
	counts inner.Renewals
}

func newRenewals() *renewalCounts {
	return &renewalCounts{counts: inner.Renewals{Took: inner.Histogram{Bounds: tookBounds}, Margin: inner.Histogram{Bounds: marginBounds}}}
}

// renewed counts a renewal of h. The caller holds mu, and the window has not moved yet.
func (r *renewalCounts) renewed(h *Lease, t *core.Tell) {
	r.counts.Took.Observe(time.Duration(t.At - t.Sent))
	r.counts.Margin.Observe(time.Duration(max(0, core.Time(h.until.Load())-t.At)))
	h.renewals.Add(1)
}

func (r *renewalCounts) now() inner.Renewals {
	r.mu.Lock()
	defer r.mu.Unlock()
	return inner.Renewals{Took: r.counts.Took.Copy(), Margin: r.counts.Margin.Copy()}
}
