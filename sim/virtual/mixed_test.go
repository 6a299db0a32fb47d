package virtual

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

var scriptName = regexp.MustCompile(`(?m)^-- (\w+)\.lua `)

// earlier returns the scripts of the version before the group's record, by name.
func earlier(t *testing.T) func(redisstore.Call) (text string, keys []string) {
	t.Helper()
	dir := filepath.Join("..", "..", "internal", "redisstore", "testdata", "lua-159fa90")
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, name+".lua"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	epoch, known := read("epoch"), map[string]string{}
	return func(c redisstore.Call) (string, []string) {
		names := scriptName.FindAllStringSubmatch(c.Text(), -1)
		name := names[len(names)-1][1]
		if known[name] == "" {
			known[name] = epoch + read(name)
		}
		return known[name], c.Keys[:len(c.Keys)-1]
	}
}

// ofEarlierVersion is an instance without the rules that came with the group's record.
type ofEarlierVersion struct{ *core.Core }

func (m ofEarlierVersion) Step(ev core.Event) core.Effects {
	eff := m.Core.Step(ev)
	eff.Ops = slices.DeleteFunc(eff.Ops, func(op core.Op) bool { return op.Kind == core.OpSupersede })
	return eff
}

func isOld(instance string) bool {
	n, _ := strconv.Atoi(strings.Split(instance, "-")[1])
	return n%2 == 0
}

// In a fleet half of which runs the scripts of an earlier version there is one owner and one poller, fences rise, and quarantines
// end: each loss begins one epoch, and at most one more that has a record.
func TestFleetOfTwoVersions(t *testing.T) { // G1, G2, G3
	losses := []fault.Kind{
		fault.RedisFlush, fault.RedisWipe, fault.RedisRestart, fault.RedisFailover, fault.RedisOutage, fault.RedisLoading,
	}
	script := earlier(t)
	for seed := range uint64(4) {
		cfg, plan := drawn(seed, 10)
		cfg.Lua = true
		cfg.New = func(c core.Config) Machine {
			c.ReadAll = isOld(c.Instance)
			if c.ReadAll {
				return ofEarlierVersion{core.New(c)}
			}
			return core.New(c)
		}
		plan.Faults = append(plan.Faults, fault.Fault{At: 40 * time.Second, Kind: fault.RedisFlush})
		lost := 0
		for _, f := range plan.Faults {
			if slices.Contains(losses, f.Kind) {
				lost++
			}
		}
		var events []history.Event
		var w *world
		epochs := map[string]bool{}
		cfg.Seams.older = func(op *core.Op, c redisstore.Call) (string, []string, bool) {
			epochs[w.servers.master.Epoch] = true
			if isOld(op.Owner) {
				text, keys := script(c)
				return text, keys, true
			}
			return c.Text(), c.Keys, false
		}
		w = newWorld(cfg.withDefaults(), plan, seed, func(e history.Event) { events = append(events, e) })
		w.run()
		r, err := check.Judge(params(cfg, plan), inOrder(events), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"G1", "G2", "G3"} {
			if v, _ := r.Verdict(id); v.Verdict != check.Pass {
				t.Errorf("seed %d: %s is %s: %s", seed, id, v.Verdict, v.Detail)
			}
		}
		if len(epochs) > 3+2*lost {
			t.Errorf("seed %d: %d epochs after %d losses: %v", seed, len(epochs), lost, slices.Sorted(maps.Keys(epochs)))
		}
		if out := w.outcome(); out.Unowned > 0 {
			t.Errorf("seed %d: at the end %d sessions are nobody's", seed, out.Unowned)
		}
	}
}

var mixed = flag.Int("mixed", 20, "seeds of TestFleetOfTwoDiscoveries")

// In a fleet half of which reads everything at each discovery, and whose notices have no numbers, all guarantees hold.
func TestFleetOfTwoDiscoveries(t *testing.T) {
	const number = "if type(counted) == 'number' then try('PUBLISH'"
	for seed := range uint64(*mixed) {
		cfg, plan := drawn(seed, 10)
		cfg.Lua = true
		cfg.Tune = func(c *core.Config) { c.ReadAll = isOld(c.Instance) }
		cfg.Seams.older = func(op *core.Op, c redisstore.Call) (string, []string, bool) {
			if !isOld(op.Owner) {
				return c.Text(), c.Keys, false
			}
			return strings.Replace(c.Text(), number, "if false then try('PUBLISH'", 1), c.Keys, false
		}
		var events []history.Event
		w := newWorld(cfg.withDefaults(), plan, seed, func(e history.Event) { events = append(events, e) })
		w.run()
		r, err := check.Judge(params(cfg, plan), inOrder(events), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range r.Verdicts {
			if v.Verdict == check.Fail {
				t.Errorf("seed %d: %s fails: %s", seed, v.ID, v.Detail)
			}
		}
	}
}
