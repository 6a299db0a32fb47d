package virtual

import (
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// rogue is a core that a mutant bends once the process is asked to stop; when it wants a tick, from its twentieth second on.
type rogue struct {
	*core.Core
	asked bool
	began core.Time
	now   core.Now
	bend  func(r *rogue, ev *core.Event, eff *core.Effects)
	next  func(r *rogue) core.Time
}

func (r *rogue) Step(ev core.Event) core.Effects {
	r.asked, r.now = r.asked || ev.Kind == core.EvDrain, ev.Now
	if r.began == 0 {
		r.began = ev.Now.Mono
	}
	eff := r.Core.Step(ev)
	if r.asked && r.bend != nil {
		r.bend(r, &ev, &eff)
	}
	return eff
}

func (r *rogue) Next() core.Time {
	if r.next != nil && r.now.Mono >= r.began+core.Time(20*time.Second) {
		return r.next(r)
	}
	return r.Core.Next()
}

// yields asks for the end of work that has ended.
func yields(r *rogue, ev *core.Event, eff *core.Effects) {
	if ev.Kind == core.EvDrain || ev.Kind == core.EvDrop {
		eff.Tells = append(eff.Tells, core.Tell{Kind: core.TellYield, ID: "of nobody", Cause: core.CauseDrain})
	}
}

// Rules that take their process down do not take the engine along: the process ends, by name, the others go on to the end of the run,
// and all is judged, but nothing passes.
func TestRulesThatTakeTheirProcessDownAreJudged(t *testing.T) {
	for _, m := range []struct {
		name, why string
		hung      bool
		breaks    string // the guarantee that sees it, "" for none
		bend      func(r *rogue, ev *core.Event, eff *core.Effects)
		next      func(r *rogue) core.Time
	}{
		{name: "panics", why: "panic: out of order", breaks: "G13", bend: func(*rogue, *core.Event, *core.Effects) { panic("out of order") }},
		{name: "panics when it is asked for a time", why: "panic: no time", next: func(*rogue) core.Time { panic("no time") }},
		{name: "yields for ever", why: "hang: ", hung: true, bend: yields},
		{name: "asks for ever", why: "hang: ", hung: true, breaks: "G14", bend: func(r *rogue, ev *core.Event, eff *core.Effects) {
			yields(r, ev, eff)
			eff.Ops = append(eff.Ops, core.Op{Kind: core.OpNodes, Sent: r.now.Mono, Deadline: r.now.Mono + core.Time(time.Second)})
		}},
		{name: "ticks for ever", why: "hang: ", hung: true, next: func(r *rogue) core.Time { return r.now.Mono }},
		{name: "ticks every microsecond", why: "hang: ", hung: true, next: func(r *rogue) core.Time { return r.now.Mono + 1000 }},
	} {
		t.Run(m.name, func(t *testing.T) {
			cfg := Config{Nodes: 3, Sessions: 12, Poll: 5 * time.Second, Serve: time.Second, Storm: 60 * time.Second, Calm: 60 * time.Second}
			cfg.New = func(c core.Config) Machine {
				r := &rogue{Core: core.New(c)}
				if strings.HasPrefix(c.Instance, "node-2-") {
					r.bend, r.next = m.bend, m.next
				}
				return r
			}
			plan := fault.Plan{Faults: []fault.Fault{{At: 20 * time.Second, Kind: fault.Terminate, Target: fault.NodeTarget(2)}}}
			var events []history.Event
			out, err := Run(cfg, plan, 1, func(e history.Event) { events = append(events, e) })
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(out.Fell, "node-2 (node-2-") || !strings.Contains(out.Fell, m.why) || out.Hung != m.hung {
				t.Errorf("fell: %q, hung %v", out.Fell, out.Hung)
			}
			if last := events[len(events)-1]; last.Kind != history.Phase || last.Reason != "end" || out.Alive != 2 {
				t.Errorf("%d instances live at the end, the last event is %v", out.Alive, last)
			}
			p := params(cfg, plan)
			p.Counted = true
			r, err := check.Judge(p, inOrder(events), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Verdicts {
				if v.Verdict == check.Pass || v.ID == m.breaks && v.Verdict != check.Fail {
					t.Errorf("%s %s: %s", v.ID, v.Verdict, v.Detail)
				}
			}
			if v, _ := r.Verdict("G1"); r.Complete || !strings.Contains(v.Detail, "node-2 (node-2-") || !strings.Contains(v.Detail, m.why) {
				t.Errorf("complete %v, G1: %s", r.Complete, v.Detail)
			}
		})
	}
}
