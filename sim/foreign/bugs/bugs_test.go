package bugs

import (
	"cmp"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/leasestorm/leasestorm/examples/leases"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/leasenode"
	"github.com/leasestorm/leasestorm/sim/real"
	"github.com/leasestorm/leasestorm/sim/report"
)

var (
	all     = flag.Bool("all", false, "ten seeds of each, not one")
	repeats = flag.Int("repeats", 1, "play each seed so often, and count how often its verdicts agree")
	only    = flag.String("only", "", "only the `BUG`; sound: that without one; lease: all adapters")
)

// leaseArg makes the test binary the node of a lease command.
const leaseArg = "__lease"

func TestMain(m *testing.M) {
	real.ReaperMain()
	if len(os.Args) > 1 && os.Args[1] == leaseArg {
		os.Exit(leasenode.Main(os.Args[2:]))
	}
	os.Exit(m.Run())
}

const (
	foreignNode = "../../../scenarios/testdata/foreign_node.py"
	atOnce      = 3  // storms at a time
	seeds       = 10 // of -all
	agreed      = 9  // of ten seeds must be judged as the table says
	sound       = "sound"
)

// row is one line of the table: a fault of a node, the scenario that provokes it and the guarantee that must see it. Those of the
// sound node, separated by commas, must hold; where there are none the whole verdict must be pass.
type row struct{ bug, scenario, guarantees string }

// table is what "make foreign" plays.
var table = []row{
	{sound, "safety", ""},
	{sound, "locks", ""},
	{sound, "late-release", "G10"},
	{sound, "partitions", "G1,G2,G3,G4,G10"},
	{sound, "slow", "G1"},
	{sound, "deleted", "G10"},
	{sound, "flushed", "G3,G10"},
	{sound, "alone", "G3,G10"},
	{"believe-forever", "partitions", "G1"},
	{"release-any", "safety", "G10"},
	{"release-any", "partitions", "G10"},
	{"release-any", "late-release", "G10"},
	{"ignore-failed", "partitions", "G4"},
	{"poll-after-lost", "partitions", "G2"},
	{"trust-from-answer", "slow", "G1"},
	{"renew-any", "deleted", "G10"},
	{"recreate", "alone", "G10"},
	{"fence-incr", "flushed", "G3"},
	{soundLease, "safety", ""},
	{soundLease, "locks", ""},
	{soundLease, "partitions", "G1,G2,G3,G10"},
	{soundLease, "robbed", "G10"},
	{"lease: believes after its deadline", "partitions", "G1"},
	{"lease: ignores a failed renewal", "partitions", "G1"},
	{"lease: renews without comparing", "robbed", "G10"},
	{"lease: releases without comparing", "partitions", "G10"},
	{"lease: no TTL", "crashes", "G10"},
	{"lease: TTL never renewed", "partitions", "G1"},
	{"lease: a fence that falls", "partitions", "G3"},
	{"lease: acquires without NX", "partitions", "G1"},
}

// soundLease is examples/leases/lock.py.
const soundLease = "lease: sound"

const renews = `"renew": IF_OWNED + "redis.call('pexpire', KEYS[1], ARGV[2]) end return 0"`

// edits break soundLease: each replaces texts of it.
var edits = map[string][]string{
	soundLease:                           {},
	"lease: believes after its deadline": {"sent + q[\"ttl_ms\"]", "sent + 1e7"},
	"lease: ignores a failed renewal": {
		"ok=got > 0", `ok=got > 0 or q["op"] == "renew"`,
		"ok=False, error=str(err), retry=True", `ok=q["op"] == "renew", until_unix_ms=int(sent + q["ttl_ms"] * 0.99)`,
	},
	"lease: renews without comparing":   {renews, `"renew": "return redis.call('pexpire', KEYS[1], ARGV[2])"`},
	"lease: releases without comparing": {`IF_OWNED + "redis.call('del', KEYS[1]) end return 0"`, `"return redis.call('del', KEYS[1])"`},
	"lease: no TTL":                     {"'nx', 'px', ARGV[2]", "'nx'", renews, `"renew": IF_OWNED + "1 end return 0"`},
	"lease: TTL never renewed":          {renews, `"renew": IF_OWNED + "1 end return 0"`},
	"lease: a fence that falls": {
		"math.max((redis.call('get', KEYS[2]) or 0) + 1, t[1] * 1e6 + t[2])", "4e15 - t[1] * 1e6 - t[2]",
	},
	"lease: acquires without NX": {"'nx', ", ""},
}

// broken writes the example with its edits, and returns the command that starts it.
func broken(t *testing.T, bug string) []string {
	text := string(leases.Adapter("python").Source)
	for old, now := range pairs(edits[bug]) {
		if strings.Count(text, old) != 1 {
			t.Errorf("%s: the example has not once %s", bug, old)
		}
		text = strings.Replace(text, old, now, 1)
	}
	file := filepath.Join(t.TempDir(), "lock.py")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Error(err)
	}
	return sim.LeaseNode([]string{"python3", file})
}

func pairs(all []string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		for two := range slices.Chunk(all, 2) {
			if !yield(two[0], two[1]) {
				return
			}
		}
	}
}

const (
	ttl     = 3 * time.Second
	settled = 4 * time.Second // after a cold start
)

// short is a storm in which every node, one after another, or Redis three times, meets the faults. Those say when after the first
// of them each strikes.
func short(every time.Duration, strike func(i int) []fault.Fault) sim.Scenario {
	s := sim.Scenario{
		Nodes: 3, Sessions: 9, Speed: 1, Duration: settled + 3*every + 3*ttl,
		Timings: sim.Timings{
			TTL: ttl, Renew: ttl / 3, Discovery: ttl / 3, Poll: ttl / 6, PollTimeout: ttl / 6, Serve: 10 * time.Millisecond,
		},
	}
	for i := range 3 {
		for _, f := range strike(i + 1) {
			f.At += settled + time.Duration(i)*every
			s.Plan = append(s.Plan, f)
		}
	}
	return s
}

// scenarios are those that are not built in.
var scenarios = map[string]sim.Scenario{
	"partitions": short(2*ttl, func(i int) []fault.Fault {
		return []fault.Fault{{Kind: fault.BlackHole, Target: fault.NodeTarget(i), For: ttl + ttl/2}}
	}),
	"slow": short(2*ttl, func(i int) []fault.Fault {
		return []fault.Fault{
			{Kind: fault.Latency, Target: fault.NodeTarget(i), For: 2 * ttl, Ms: 60},
			{Kind: fault.Freeze, Target: fault.NodeTarget(i), At: ttl / 2, For: ttl + ttl/3},
		}
	}),
	"deleted": short(ttl/2, func(i int) []fault.Fault {
		return []fault.Fault{{Kind: fault.KeyDelete, Target: fault.SessionTarget(i)}}
	}),
	"robbed": short(ttl, func(i int) (all []fault.Fault) {
		for n := range 3 {
			all = append(all, fault.Fault{Kind: fault.KeyDelete, Target: fault.SessionTarget(3*n + i), At: time.Duration(n) * ttl / 4})
		}
		return all
	}),
	"flushed": short(ttl, flushed),
	"crashes": short(3*ttl, func(i int) []fault.Fault {
		return []fault.Fault{{Kind: fault.Crash, Target: fault.NodeTarget(i), For: ttl / 2}}
	}),
	"alone": alone(short(ttl, flushed)),
}

func flushed(int) []fault.Fault { return []fault.Fault{{Kind: fault.RedisFlush, Target: fault.Redis}} }

// alone has one node: nobody else may take what is gone before the node renews it.
func alone(s sim.Scenario) sim.Scenario {
	s.Nodes = 1
	return s
}

// played is what became of one storm.
type played struct {
	outcome check.Outcome // of the row's guarantees together
	dir     string
}

// A node of another program with one known fault is caught by the guarantee that the fault breaks, and one without is found sound.
func TestKnownFaultsAreCaught(t *testing.T) {
	for _, needs := range []string{"redis-server", "python3"} {
		if _, err := exec.LookPath(needs); err != nil && os.Getenv("CI") != "true" {
			t.Skip("no " + needs + " in PATH")
		}
	}
	n := 1
	if *all {
		n = seeds
	}
	var storms sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	results := map[row][][]played{}
	for _, r := range table {
		if *only != "" && *only != r.bug && !(*only == "lease" && strings.HasPrefix(r.bug, "lease:")) {
			continue
		}
		results[r] = make([][]played, n)
		for seed := range n {
			results[r][seed] = make([]played, *repeats)
			for i := range *repeats {
				storms.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					results[r][seed][i] = play(t, r, uint64(seed+1))
				})
			}
		}
	}
	storms.Wait()
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tscenario\tguarantee\tas it should\trepeats agree\tverdicts")
	for _, r := range table {
		if seen := results[r]; seen != nil {
			judge(t, w, r, seen)
		}
	}
	_ = w.Flush()
}

// judge writes a row's line, and fails the test where too few of its seeds are judged as they should.
func judge(t *testing.T, w *tabwriter.Writer, r row, seen [][]played) {
	right, same := 0, 0
	var verdicts, others []string
	for _, repeats := range seen {
		agree, good := true, true
		for _, p := range repeats {
			agree = agree && p.outcome == repeats[0].outcome
			if p.outcome != r.want() {
				good = false
				others = append(others, p.dir)
			}
			verdicts = append(verdicts, string(p.outcome))
		}
		if agree {
			same++
		}
		if good {
			right++
		}
	}
	n := len(seen)
	fmt.Fprintf(w, "%s\t%s\t%s\t%d/%d\t%d/%d\t%s\n", r.bug, r.scenario, cmp.Or(r.guarantees, "verdict"), right, n, same, n,
		strings.Join(verdicts, " "))
	least := (n*agreed + seeds - 1) / seeds
	if r.want() == check.Pass {
		least = n
	}
	if right < least || same < (n*agreed+seeds-1)/seeds {
		t.Errorf("%s under %s: %d of %d seeds are judged as they should, at least %d are wanted; see %v", r.bug, r.scenario, right, n,
			least, others)
	}
}

func (r row) want() check.Outcome {
	if r.bug == sound || r.bug == soundLease {
		return check.Pass
	}
	return check.Fail
}

// play plays one storm.
func play(t *testing.T, r row, seed uint64) played {
	s, ok := scenarios[r.scenario]
	if !ok {
		var err error
		if s, err = sim.Load(r.scenario); err != nil {
			t.Error(err)
			return played{}
		}
	}
	s.Name, s.Seed = strings.NewReplacer(": ", "-", " ", "-").Replace(strings.ToLower(r.bug))+"-"+r.scenario, seed
	if _, ok := edits[r.bug]; ok {
		s.NodeCmd = broken(t, r.bug)
	} else {
		s.NodeCmd = []string{"BUG=" + strings.TrimPrefix(r.bug, sound), "python3", foreignNode}
	}
	c, err := s.Resolve()
	if err != nil {
		t.Error(err)
		return played{}
	}
	self, err := os.Executable()
	if err != nil {
		t.Error(err)
		return played{}
	}
	res, err := sim.Run(t.Context(), c, sim.Options{
		Engine: sim.NewReal(real.RedisChoice{}, sim.Launcher{Lease: []string{self, leaseArg}}), Reports: filepath.Join("..", "..", "..", "reports", "foreign"),
	})
	if err != nil {
		t.Error(err)
		return played{}
	}
	return played{outcome(r, res.Report), res.Dir}
}

// outcome is that of the row's guarantees: pass if all do, fail if one does.
func outcome(r row, rep report.Report) check.Outcome {
	if r.guarantees == "" {
		return rep.Verdict
	}
	out := check.Pass
	for _, v := range rep.Guarantees {
		switch {
		case v.Verdict == check.Pass || !slices.Contains(strings.Split(r.guarantees, ","), v.ID):
		case v.Verdict == check.Fail:
			return check.Fail
		default:
			out = check.Unknown
		}
	}
	return out
}
