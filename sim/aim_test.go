package sim

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

var aimSeeds = flag.Int("aim", 40, "seeds of which TestLoneInjectionsHitOwners counts whom lone injections hit")

// breaks are the kinds whose lone injection should break an owner: it ends, or cannot renew for longer than it may be trusted.
var breaks = []fault.Kind{
	fault.Crash, fault.Freeze, fault.CheckSend, fault.Cut, fault.BlackHole, fault.RequestsLost, fault.RepliesLost, fault.Suspend,
}

// A lone injection of a node hits an owner of leases. If it should break the owner, it outlasts the owner's trust, so that others acquire
// its leases. With -v, the test prints how many did, by kind: go test ./sim -run LoneInjectionsHitOwners -v -aim 200.
func TestLoneInjectionsHitOwners(t *testing.T) {
	safety := func(seed uint64) (Config, fault.Plan, error) {
		all := Builtin()
		s := all[slices.IndexFunc(all, func(s Scenario) bool { return s.Name == "safety" })]
		s.Engine, s.Seed, s.Speed = EngineVirtual, seed, DefaultSpeed
		c, err := s.Resolve()
		if err != nil {
			return c, fault.Plan{}, err
		}
		plan, err := c.Draw(func(k fault.Kind) error { return k.AvailableOn(true) })
		return c, plan, err
	}
	drawn := func(system string) func(uint64) (Config, fault.Plan, error) {
		return func(seed uint64) (Config, fault.Plan, error) { return Scenario{System: system}.Swarm(seed) }
	}
	for name, draw := range map[string]func(uint64) (Config, fault.Plan, error){
		"safety": safety, SystemPolling: drawn(SystemPolling), SystemElection: drawn(SystemElection), SystemIntents: drawn(SystemIntents),
	} {
		t.Run(name, func(t *testing.T) {
			hits := map[fault.Kind]*hit{}
			for seed := range *aimSeeds {
				c, plan, err := draw(uint64(seed + 1))
				if err != nil {
					t.Fatal(err)
				}
				o := owners{c: c, plan: plan, hits: hits, holds: map[string]string{}, open: map[int64]*owned{}}
				if _, err := runVirtual(t.Context(), c, plan, nil, o.see, nil); err != nil {
					t.Fatal(err)
				}
			}
			t.Log("\n" + table(hits))
			for _, k := range breaks {
				h := hits[k]
				if h == nil {
					continue
				}
				passed := h.passed
				if name == SystemIntents { // nobody may want the lease any more
					passed = h.owner
				}
				if least := h.planned * 8 / 10; h.owner < least || passed < least {
					t.Errorf("of %d lone injections of %s %d hit an owner, and from %d what it owned passed on", h.planned, k, h.owner, h.passed)
				}
			}
		})
	}
}

// hit counts the lone injections of a kind: planned ones, those that hit an owner, and those before whose end another instance acquired one
// of the owner's leases.
type hit struct{ planned, owner, passed int }

type owned struct {
	hit    *hit
	owned  []string
	by     string
	passed bool
	until  int64
}

// owners follows the holders that Redis shows, and the leases of the instances that are hit.
type owners struct {
	c     Config
	plan  fault.Plan
	hits  map[fault.Kind]*hit
	holds map[string]string
	open  map[int64]*owned
}

func (o *owners) see(e history.Event) {
	switch e.Kind {
	case history.Phase:
		for _, f := range o.plan.Faults {
			if e.Reason == "storm" && f.Lone && f.Kind.Scope() == fault.ScopeNode && f.Kind != fault.Join && f.Kind != fault.Leave {
				if o.hits[f.Kind] == nil {
					o.hits[f.Kind] = &hit{}
				}
				o.hits[f.Kind].planned++
			}
		}
	case history.RedisGranted:
		o.holds[e.Session] = e.Instance
		for _, s := range o.open {
			if !s.passed && e.Instance != s.by && e.T <= s.until && slices.Contains(s.owned, e.Session) {
				s.passed = true
				s.hit.passed++
			}
		}
	case history.RedisDeleted:
		delete(o.holds, e.Session)
	case history.RedisFlushed:
		clear(o.holds)
	case history.FaultStart:
		o.start(e)
	case history.FaultEnd:
		if s := o.open[e.N]; s != nil {
			s.until = min(s.until, e.T)
		}
	}
}

func (o *owners) start(e history.Event) {
	f := o.plan.Faults[e.N]
	h := o.hits[f.Kind]
	if h == nil || !f.Lone {
		return
	}
	s := &owned{hit: h, by: e.Instance, until: e.T + int64(3*o.c.TTL)}
	for session, by := range o.holds {
		if by == e.Instance {
			s.owned = append(s.owned, session)
		}
	}
	if len(s.owned) > 0 {
		h.owner++
		o.open[e.N] = s
	}
}

func table(hits map[fault.Kind]*hit) string {
	var text strings.Builder
	for k, h := range hits {
		fmt.Fprintf(&text, "%-15s %3d lone, %3d hit an owner, %3d until what it owned was another's\n", k, h.planned, h.owner, h.passed)
	}
	lines := strings.SplitAfter(text.String(), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}
