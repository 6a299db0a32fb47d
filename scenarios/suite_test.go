package scenarios

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gexec"

	"github.com/leasestorm/leasestorm/internal/containertest"
	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/real"
)

// foreignNode is a node without the library's code.
var foreignNode = absolute("testdata/foreign_node.py")

var referenceNode string

func TestMain(m *testing.M) {
	real.ReaperMain()
	os.Exit(m.Run())
}

// TestScenarios runs only the smoke specs unless a label filter is set. All specs take twenty minutes, too long for a plain go test ./...
func TestScenarios(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	if suite.LabelFilter == "" {
		suite.LabelFilter = "smoke"
	}
	RunSpecs(t, "leasestorm", suite, reporter)
	for _, table := range broken {
		t.Log(table)
	}
}

// broken holds the tables of the failed specs, repeated at the end of the log, where readers look first.
var broken []string

// Only one process of the suite builds the node and cleans up.
var _ = SynchronizedBeforeSuite(func() []byte {
	node, err := gexec.Build("github.com/leasestorm/leasestorm/cmd/node")
	Expect(err).NotTo(HaveOccurred())
	return []byte(node)
}, func(node []byte) { referenceNode = string(node) })

var _ = SynchronizedAfterSuite(func() {}, gexec.CleanupBuildArtifacts)

// holds runs the storm and asserts that it exercised each guarantee and that each held. If a stall of the host prevented the judgement,
// holds runs the storm once more.
func holds(ctx SpecContext, s sim.Scenario, promises ...string) {
	config, err := s.Resolve()
	Expect(err).NotTo(HaveOccurred())
	s.Seed = config.Seed // repeat the same storm
	verdicts := storm(ctx, s, promises)
	if stalled(verdicts) {
		AddReportEntry("played again: the host stalled", unproven(verdicts))
		verdicts = storm(ctx, s, promises)
	}
	Expect(verdicts).To(HaveLen(len(promises)))
	Expect(unproven(verdicts)).To(BeEmpty(), "promises that did not hold, or were not put to the test")
}

// breaks runs the storm and asserts that the judge found the guarantees broken.
func breaks(ctx SpecContext, s sim.Scenario, promises ...string) {
	Expect(storm(ctx, s, promises)).To(HaveEach(HaveField("Verdict", check.Fail)))
}

// storm runs the scenario on real processes and a real Redis and returns the verdicts on the guarantees. The output of a failed spec
// names the run's folder.
func storm(ctx context.Context, s sim.Scenario, promises []string) []check.Verdict {
	_, redis := exec.LookPath("redis-server")
	_, valkey := exec.LookPath("valkey-server")
	if redis != nil && valkey != nil && os.Getenv("CI") == "" {
		Skip("redis-server is not installed: nothing is proven on the embedded Redis")
	}
	s.Criteria = promises
	config, err := s.Resolve()
	Expect(err).NotTo(HaveOccurred())

	ctx, cancel := context.WithTimeout(ctx, config.Duration()+time.Minute)
	defer cancel()
	result, err := sim.Run(ctx, config, sim.Options{
		Engine:  engine(s),
		Reports: absolute("../reports/chaos"),
		Started: func(start sim.Start) {
			GinkgoWriter.Printf("sim seed %d, run folder %s\n", start.Config.Seed, start.Dir)
			DeferCleanup(func() {
				if CurrentSpecReport().Failed() {
					AddReportEntry("run", start.Dir)
				}
			})
		},
	})
	Expect(err).NotTo(HaveOccurred())
	var table strings.Builder
	Expect(result.Report.Table(&table)).To(Succeed())
	Expect(result.Report.Failures(&table, result.Dir)).To(Succeed())
	GinkgoWriter.Print(table.String())
	DeferCleanup(func() {
		if CurrentSpecReport().Failed() {
			broken = append(broken, s.Name+"\n"+table.String())
		}
	})
	return slices.DeleteFunc(slices.Clone(result.Report.Guarantees), func(v check.Verdict) bool {
		return !slices.Contains(promises, v.ID)
	})
}

// launcherVariable is "container" to run every node and Redis in a container (make chaos-docker).
const launcherVariable = "LEASESTORM_LAUNCHER"

func engine(s sim.Scenario) sim.Engine {
	redis, launch := real.RedisChoice{Kind: "server"}, sim.Launcher{Node: []string{referenceNode}}
	if os.Getenv(launcherVariable) == "container" {
		if len(s.NodeCmd) > 0 {
			Skip("its nodes are programs of this machine")
		}
		redis = real.RedisChoice{Kind: "container", Image: containertest.Redis(GinkgoTB(), containertest.Engine(GinkgoTB()))}
		launch.Containers = true
	}
	if c, err := s.Resolve(); err == nil {
		redis.Servers, redis.Cluster = c.Servers(), c.Topology == sim.TopologyCluster
	}
	return sim.NewReal(redis, launch)
}

func absolute(path string) string {
	abs, err := filepath.Abs(path)
	if err != nil {
		panic(err)
	}
	return abs
}
