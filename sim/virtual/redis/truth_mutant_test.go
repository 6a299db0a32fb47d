package redis

import (
	"testing"

	"github.com/leasestorm/leasestorm/internal/core"
)

// wrong are twins that are not what the scripts say: what a slip in scripts.go would be.
var wrong = []struct {
	name string
	op   func(r *Server, op *core.Op)                 // changes the op before it is executed
	then func(r *Server, op *core.Op, a *core.Answer) // and what came of it
}{
	{name: "renews for anybody", op: func(r *Server, op *core.Op) {
		if k := r.leaseOf(op); op.Kind == core.OpRenew && k != nil && k.owner != "" {
			op.Owner = k.owner
		}
	}},
	{name: "releases by owner alone", op: func(r *Server, op *core.Op) {
		if k := r.leaseOf(op); op.Kind == core.OpRelease && k != nil {
			op.Items[0].Fence = k.fence
		}
	}},
	{name: "adopts what the owner never asked for", op: func(_ *Server, op *core.Op) {
		for i := range op.Items {
			op.Items[i].Fresh = false
		}
	}},
	{name: "knows no epoch", op: func(r *Server, op *core.Op) {
		if run, _ := parseEpoch(r.Epoch); run == r.RunID {
			op.Epoch = r.Epoch
		}
	}},
	{name: "ignores the fence carried", op: func(_ *Server, op *core.Op) { op.Fence = 0 }},
	{name: "lives a millisecond longer", op: func(_ *Server, op *core.Op) { op.TTL += core.Millisecond }},
	{name: "grants in quarantine", then: func(r *Server, op *core.Op, a *core.Answer) {
		if len(a.Results) > 0 && a.Results[0].Outcome == core.OutQuarantine {
			a.Results[0].Outcome = core.OutGranted
		}
	}},
	{name: "tells no remaining life", then: func(_ *Server, _ *core.Op, a *core.Answer) {
		for i := range a.Results {
			a.Results[i].PTTL = 0
		}
	}},
	{name: "lets a fence live for ever", then: func(r *Server, _ *core.Op, _ *core.Answer) {
		for i := range r.leases {
			r.leases[i].fenceExpire = Forever
		}
	}},
	{name: "keeps the fence when it adopts", then: func(r *Server, op *core.Op, a *core.Answer) {
		if len(a.Results) > 0 && a.Results[0].Outcome == core.OutAdopted {
			a.Results[0].Fence--
		}
	}},
	{name: "forgets the heirs", op: func(_ *Server, op *core.Op) {
		for i := range op.Items {
			if op.Kind == core.OpRelease {
				op.Items[i].Peer = ""
			}
		}
	}},
	{name: "is never full", op: func(r *Server, _ *core.Op) { r.Full = 0 }},
	{name: "can always save", op: func(r *Server, _ *core.Op) { r.Unsaved = 0 }},
	{name: "wants no replicas", op: func(r *Server, _ *core.Op) { r.Lonely = 0 }},
	{name: "knows no ACL", op: func(r *Server, _ *core.Op) { r.NoSet, r.NoLeases, r.NoFences = 0, 0, 0 }},
	{name: "takes what is another's type", op: func(r *Server, op *core.Op) {
		if k := r.leaseOf(op); k != nil {
			k.foreign = false
		}
	}},
	{name: "ends no epoch", op: func(_ *Server, op *core.Op) {
		if op.Kind == core.OpSupersede {
			op.Kind = core.OpObserve
		}
	}},
	{name: "begins no quarantine longer than its own", op: func(_ *Server, op *core.Op) { op.Quarantine = 0 }},
	{name: "tells no agreement", then: func(_ *Server, _ *core.Op, a *core.Answer) { a.Group = 0 }},
	{name: "believes in an epoch without a record", op: func(r *Server, op *core.Op) {
		if _, ok := (twin{r}).agreed(epochNs); !ok && r.Epoch != "" {
			cmdHSet(r, epochNs, []string{groupKey, "epoch", r.Epoch, "quarantine", "30900000"})
		}
	}},
	{name: "shows a heartbeat that is over", then: func(r *Server, _ *core.Op, _ *core.Answer) {
		for i := range r.beats {
			r.beats[i].expire += 50_000
		}
	}},
}

// leaseOf is the lease of an op's first item, nil if it has none.
func (r *Server) leaseOf(op *core.Op) *leaseKey {
	if len(op.Items) == 0 || op.Kind == core.OpNodes {
		return nil
	}
	return &r.leases[r.Lease(op.Items[0].ID)]
}

// sequences is how many sequences of steps a wrong twin may survive.
const sequences = 300

// A twin that differs from its script is found by the sequences of TestModelIsLikeRedis.
func TestWrongTwinsAreFound(t *testing.T) {
	gen := drawSteps()
	for _, m := range wrong {
		t.Run(m.name, func(t *testing.T) {
			for seed := range sequences {
				now := epochNs / 1000
				twins, scripts := newModelSide(false), newModelSide(true)
				twins.op, twins.then = m.op, m.then
				c := comparison{
					clock: func() int64 { now += 137; return now }, pause: func() { now += 5000 },
					sides: []side{scripts, twins}, names: []string{"scripts", "twins"},
				}
				if diff := c.play(gen.Example(seed)); diff != "" {
					t.Logf("after %d sequences: %s", seed+1, diff)
					return
				}
			}
			t.Errorf("not found by %d sequences", sequences)
		})
	}
}

// TestTwinsAreLikeTheScripts is TestModelIsLikeRedis without Redis: more sequences in less time.
func TestTwinsAreLikeTheScripts(t *testing.T) {
	gen := drawSteps()
	for seed := range sequences {
		now := epochNs / 1000
		c := comparison{
			clock: func() int64 { now += 137; return now }, pause: func() { now += 5000 },
			sides: []side{newModelSide(true), newModelSide(false)}, names: []string{"scripts", "twins"},
		}
		if diff := c.play(gen.Example(seed)); diff != "" {
			t.Fatalf("sequence %d: %s", seed, diff)
		}
	}
}
