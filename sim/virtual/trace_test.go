package virtual_test

import (
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual"
	"github.com/leasestorm/leasestorm/sim/virtual/virtualtest"
)

// The flags of TestTrace: how to look at a run that a test found.
var (
	traceSeed = flag.Int64("look", -1, "print the run with this seed")
	traceFrom = flag.Duration("from", 0, "print from here")
	traceTo   = flag.Duration("to", 24*time.Hour, "to here")
	traceOnly = flag.String("only", "", "print lines that contain this")
	traceNode = flag.String("node", "", "print also what this slot's core is told and asks")
)

// TestTrace prints a run: `go test ./sim/virtual -run Trace -v -look 111 -from 17s -to 19s -node node-1`.
func TestTrace(t *testing.T) {
	if *traceSeed < 0 {
		t.Skip("without -look there is nothing to print")
	}
	seed := uint64(*traceSeed)
	cfg, plan := virtualtest.Swarm(seed)
	for _, f := range plan.Faults {
		t.Logf("plan: at %v %s %s for %v, ms %d, jitter %d", cfg.TTL/3+f.At, f.Kind, f.Target, f.For, f.Ms, f.Jitter)
	}
	p := &printer{T: t}
	cfg.New = func(c core.Config) virtual.Machine { return &watched{core.New(c), c.Instance, p} }
	out, err := virtual.Run(cfg, plan, seed, p.event)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", out)
}

type printer struct {
	*testing.T
	now time.Duration
}

func (p *printer) on(line string) bool {
	return p.now >= *traceFrom && p.now <= *traceTo && strings.Contains(line, *traceOnly)
}

func (p *printer) event(e history.Event) {
	p.now = time.Duration(e.T)
	who := e.Node
	if who == "" {
		who, _, _ = strings.Cut(e.Instance, "-17")
	}
	line := strings.Join([]string{e.Kind.String(), who, e.Session, e.Reason}, " ")
	if p.on(line) {
		p.Logf("%14v %-60s fence %d until %v n %d", p.now, line, e.Fence, time.Duration(e.Until), e.N)
	}
}

// watched prints what goes in and out of one core.
type watched struct {
	*core.Core
	instance string
	p        *printer
}

func (w *watched) Step(ev core.Event) core.Effects {
	show := *traceNode != "" && strings.HasPrefix(w.instance, *traceNode+"-") && w.p.on(*traceOnly)
	if show && ev.Kind != core.EvTick {
		w.p.Logf("%14v   told %d %s answer %+v notice %+v", w.p.now, ev.Kind, ev.ID, ev.Answer, ev.Notice)
	}
	eff := w.Core.Step(ev)
	if show {
		for _, t := range eff.Tells {
			w.p.Logf("%14v   tells %d %s fence %d %v %s", w.p.now, t.Kind, t.ID, t.Fence, t.Cause, t.Text)
		}
		for _, op := range eff.Ops {
			w.p.Logf("%14v   asks %d: kind %d %v", w.p.now, op.Seq, op.Kind, op.Items)
		}
	}
	return eff
}
