package core_test

import (
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual"
)

// Instances of which only half works: what they cannot do must not cost the others more than they held.

// half is an instance whose Redis user may not do everything: from a time on, the ops of some kinds are refused.
type half struct {
	*core.Core
	from    core.Time
	kinds   []core.OpKind
	failure core.Failure
	once    bool // only the first of them
	hit     map[uint64]bool
}

func (m *half) Step(ev core.Event) core.Effects {
	if ev.Kind == core.EvAnswer && m.hit[ev.Answer.Seq] && ev.Answer.Failure == core.FailNone {
		ev.Answer = core.Answer{Seq: ev.Answer.Seq, Failure: m.failure, Text: "half"}
	}
	eff := m.Core.Step(ev)
	for i := range eff.Ops {
		op := &eff.Ops[i]
		if ev.Now.Mono < m.from || m.once && len(m.hit) > 0 {
			continue
		}
		for _, k := range m.kinds {
			if op.Kind != k {
				continue
			}
			if m.hit == nil {
				m.hit = map[uint64]bool{}
			}
			m.hit[op.Seq] = true
			if m.failure == core.FailRefused {
				op.Items = nil // nor is it executed
			}
		}
	}
	return eff
}

// halved makes the core of the instances in a slot a half one.
func halved(slot string, h half) func(core.Config) virtual.Machine {
	return func(c core.Config) virtual.Machine {
		m := core.New(c)
		if !strings.HasPrefix(c.Instance, slot+"-") {
			return m
		}
		mine := h
		mine.Core = m
		return &mine
	}
}

// Nobody gives up what nobody asked for: beside an instance that beats and neither asks nor takes, the others keep
// what they have above their share (G6: nothing moves any more).
func TestStormNobodyGivesUnasked(t *testing.T) { // G6
	for seed := range uint64(12) {
		cfg := calmFleet(4, 30)
		cfg.New = halved("node-5", half{kinds: []core.OpKind{core.OpAcquire, core.OpAsk, core.OpRenew}, failure: core.FailRefused})
		r := play(t, cfg, fault.Plan{Faults: []fault.Fault{{At: 20 * time.Second, Kind: fault.Join}}}, seed)
		if moved := r.moves(start+20*time.Second, time.Hour); len(moved) > 0 {
			t.Errorf("%s: %d moves for an instance that never asked, the first %+v", r.name, len(moved), moved[0])
		}
	}
}

// An acquisition that was executed and not answered is found out about, and its lease owned, long before it expires (G8).
func TestStormGrantThatWasNotHeard(t *testing.T) { // G8
	for seed := range uint64(12) {
		cfg := calmFleet(2, 10)
		cfg.New = halved("node-1", half{kinds: []core.OpKind{core.OpAcquire}, failure: core.FailUnknown, once: true})
		r := play(t, cfg, fault.Plan{}, seed)
		if counts := r.holders(interval * 12 / 10); total(counts) != 10 || !balanced(counts, 10) {
			t.Errorf("%s: 1.2 discovery intervals after a grant that was not heard, instances hold %v", r.name, counts)
		}
	}
}
