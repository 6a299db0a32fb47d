package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// G1, G2, G3 and G10 decide, because they hold whatever an operator does. A release disturbs the others on purpose: a lease moves in an
// otherwise stable fleet (G6, G7) or is released again during its handover (G13), and leasectl's commands count as those of the node
// whose connection it uses (G14).
var _ = Describe("An operator releases leases while everything breaks", Label("leasectl"), func() {
	It("and no lease has two owners", func(ctx SpecContext) {
		o := newOperator()
		stop := o.work(ctx)
		DeferCleanup(stop)
		holds(ctx, sim.Scenario{
			Name: "operator", Nodes: 4, Sessions: 12, Duration: 5 * time.Minute, NodeCmd: o.nodeCmd(),
			// Owners that are frozen, cut off or dead keep their leases. No fault hits node-4, whose connection leasectl uses.
			Plan: []fault.Fault{
				{At: settled, Kind: fault.Freeze, Target: "node-2", For: 2 * ttl},
				{At: settled + 10*time.Second, Kind: fault.ScriptFlush},
				{At: settled + 65*time.Second, Kind: fault.BlackHole, Target: "node-1", For: 2 * ttl},
				{At: settled + 70*time.Second, Kind: fault.Crash, Target: "node-3", For: 5 * time.Second},
				{At: settled + 130*time.Second, Kind: fault.RedisFreeze, For: 5 * time.Second},
				{At: settled + 140*time.Second, Kind: fault.ClientKill},
				{At: settled + 145*time.Second, Kind: fault.Cut, Target: "node-3", For: ttl},
				{At: settled + 150*time.Second, Kind: fault.Freeze, Target: "node-1", For: ttl},
				{At: settled + 170*time.Second, Kind: fault.RedisOutage, For: 10 * time.Second},
			},
		}, "G1", "G2", "G3", "G10")
		stop()
		AddReportEntry("what the operator did", o.String())
		Expect(o.odd).To(BeEmpty(), "commands that ended otherwise than a storm explains")
		Expect(o.ends["given-back"]).To(BeNumerically(">", 0), "leases that their owners released")
		Expect(o.ends["kept"]).To(BeNumerically(">", 0), "owners that were asked in vain")
		Expect(o.ran).To(And(HaveKey("status"), HaveKey("check"), HaveKey("watch")))
		Expect(o.watched).To(BeNumerically(">", 0), "changes that watch has shown")
	})
})

type operator struct {
	leasectl string
	lines    string // folder in which each node writes its Redis URL

	mu      sync.Mutex
	ran     map[string]int // commands that were answered
	failed  map[string]int // commands that failed because of Redis
	ends    map[string]int // results of releases
	watched int            // changes that watch showed
	odd     []string
}

func newOperator() *operator {
	leasectl, err := gexec.Build("github.com/leasestorm/leasestorm/cmd/leasectl")
	Expect(err).NotTo(HaveOccurred())
	return &operator{
		leasectl: leasectl, lines: GinkgoT().TempDir(), ran: map[string]int{}, failed: map[string]int{}, ends: map[string]int{},
	}
}

// nodeCmd is the reference node, which first writes its Redis URL. Only the nodes of a run learn the URL of its Redis.
func (o *operator) nodeCmd() []string {
	return []string{
		"LINES=" + o.lines, "sh", "-c", `printf %s "$LEASESTORM_REDIS_URL" >"$LINES/$LEASESTORM_NODE"; exec "$0"`, referenceNode,
	}
}

// work starts three goroutines that release leases and one that checks and watches. stop ends them and waits for them.
func (o *operator) work(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	for hand := range 4 {
		drawn := rand.New(rand.NewPCG(uint64(GinkgoRandomSeed()), uint64(hand)))
		all.Go(func() {
			pause := time.NewTicker(100 * time.Millisecond)
			defer pause.Stop()
			for range pause.C {
				if ctx.Err() != nil {
					return
				}
				if hand == 0 {
					o.look(ctx)
				} else {
					o.release(ctx, drawn)
				}
			}
		})
	}
	return func() { cancel(); all.Wait() }
}

// release requests up to four drawn leases, with a short or a longer time limit.
func (o *operator) release(ctx context.Context, drawn *rand.Rand) {
	names := o.leases(ctx)
	drawn.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	if names = names[:min(len(names), 1+drawn.IntN(4))]; len(names) == 0 {
		return
	}
	within := []string{"200ms", "500ms"}[drawn.IntN(2)]
	var told struct {
		Leases []struct{ Result string }
	}
	o.run(ctx, &told, append([]string{"release", "--within", within}, names...)...)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range told.Leases {
		o.ends[l.Result]++
	}
}

func (o *operator) leases(ctx context.Context) (names []string) {
	var told struct{ Leases []struct{ Lease string } }
	o.run(ctx, &told, "status")
	for _, l := range told.Leases {
		names = append(names, l.Lease)
	}
	return names
}

// look runs check, and watch for two seconds.
func (o *operator) look(ctx context.Context) {
	var told struct{ Findings []struct{ Finding string } }
	o.run(ctx, &told, "check")
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	changes := strings.Count(o.run(ctx, nil, "watch", "--every", "100ms"), "\n")
	o.mu.Lock()
	defer o.mu.Unlock()
	o.watched += max(0, changes-1) // the first line is the present state
}

// Exit codes of leasectl (docs/leasectl.md).
const (
	exitFindings = 1
	exitRedis    = 2
)

// run runs one command, which the end of ctx interrupts, and decodes any JSON output into told.
func (o *operator) run(ctx context.Context, told any, args ...string) (out string) {
	line, err := os.ReadFile(filepath.Join(o.lines, "node-4"))
	if err != nil || len(line) == 0 {
		return "" // node-4 has not started
	}
	cmd := exec.CommandContext(ctx, o.leasectl, append(args, "--system", "polling", "--json", "--timeout", "1s")...)
	cmd.Env = append(os.Environ(), "LEASESTORM_REDIS_URL="+string(line))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // the exit code below says more
	if cmd.ProcessState == nil {
		return "" // interrupted before its start
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if code := cmd.ProcessState.ExitCode(); code == 0 || code == exitFindings {
		o.ran[args[0]]++
	} else if code == exitRedis {
		o.failed[args[0]]++
	} else if killed := -1; code != killed && ctx.Err() == nil { // the end of node-4 kills all processes with its variable
		o.odd = append(o.odd, fmt.Sprintf("leasectl %s: exit code %d: %s", strings.Join(args, " "), code, &stderr))
	}
	if told != nil && stdout.Len() > 0 {
		if err := json.Unmarshal(stdout.Bytes(), told); err != nil {
			o.odd = append(o.odd, fmt.Sprintf("leasectl %s: %v: %s", strings.Join(args, " "), err, &stdout))
		}
	}
	return stdout.String()
}

// String returns the counts. It needs no lock, because it is called after stop.
func (o *operator) String() string {
	var parts []string
	for what, counts := range map[string]map[string]int{"leases": o.ends, "commands": o.ran, "failed": o.failed} {
		parts = append(parts, fmt.Sprint(what, " ", counts))
	}
	slices.Sort(parts)
	return fmt.Sprint(strings.Join(parts, ", "), ", changes watched ", o.watched)
}
