package virtual

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/history"
)

type traced struct {
	Machine
	t   *testing.T
	who string
	w   *time.Duration
}

func TestTraceX(t *testing.T) {
	s := os.Getenv("SEED")
	if s == "" {
		t.Skip()
	}
	seed, _ := strconv.ParseUint(s, 10, 64)
	cfg, plan := Swarm(seed)
	from, _ := time.ParseDuration(os.Getenv("T0"))
	to, _ := time.ParseDuration(os.Getenv("T1"))
	grep := os.Getenv("GREP")
	t.Logf("%+v", cfg)
	for _, f := range plan.Faults {
		t.Logf("at %v %+v", cfg.withDefaults().Start+f.At, f)
	}
	kinds := map[core.OpKind]int{}
	cfg.New = func(c core.Config) Machine {
		return &counting{core.New(c), kinds, c.Instance, t, os.Getenv("OPS") != ""}
	}
	out, _ := Run(cfg, plan, seed, func(e history.Event) {
		now = time.Duration(e.T)
		if now < from || now > to {
			return
		}
		line := e.Kind.String() + " " + e.Instance + " " + e.Session + " " + e.Reason
		if grep != "" && !strings.Contains(line, grep) && e.Kind != history.FaultStart && e.Kind != history.FaultEnd && e.Kind < history.RedisFlushed {
			return
		}
		t.Logf("%14v %-13v %s %s f%d until %v n%d %s", now, e.Kind, e.Instance, e.Session, e.Fence, time.Duration(e.Until), e.N, e.Reason)
	})
	t.Logf("%+v %v", out, kinds)
}

var now time.Duration

type counting struct {
	Machine
	n   map[core.OpKind]int
	who string
	t   *testing.T
	ops bool
}

func (c *counting) Step(ev core.Event) core.Effects {
	if ev.Kind == core.EvAnswer && c.ops {
		from, _ := time.ParseDuration(os.Getenv("T0"))
		to, _ := time.ParseDuration(os.Getenv("T1"))
		if now >= from && now <= to && strings.Contains(c.who, os.Getenv("WHO")) {
			c.t.Logf("  ~%v %s answer %d fail %d %s stale %v epoch %s quar %v res %v", now, c.who, ev.Answer.Seq, ev.Answer.Failure, ev.Answer.Text, ev.Answer.Stale, ev.Answer.Epoch, time.Duration(ev.Answer.Quarantine), ev.Answer.Results)
		}
	}
	eff := c.Machine.Step(ev)
	for _, o := range eff.Ops {
		c.n[o.Kind]++
		if c.ops {
			from, _ := time.ParseDuration(os.Getenv("T0"))
			to, _ := time.ParseDuration(os.Getenv("T1"))
			if now >= from && now <= to && strings.Contains(c.who, os.Getenv("WHO")) {
				c.t.Logf("  ~%v %s op %d kind %d items %v", now, c.who, o.Seq, o.Kind, o.Items)
			}
		}
	}
	return eff
}
