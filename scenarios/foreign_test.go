package scenarios

import (
	"os"
	"os/exec"
	"time"

	. "github.com/onsi/ginkgo/v2"

	"github.com/leasestorm/leasestorm/sim"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// foreign is a storm on nodes in another language, which share only the node protocol with the library.
func foreign(name, bug string) sim.Scenario {
	return sim.Scenario{
		Name: name, Nodes: 3, Sessions: 12, Duration: 450 * time.Second,
		NodeCmd: []string{"BUG=" + bug, "python3", foreignNode},
		Plan: []fault.Fault{
			{At: settled, Kind: fault.Crash, Target: "node-1", For: 5 * time.Second},
			{At: settled + 50*time.Second, Kind: fault.Freeze, Target: "node-2", For: 2 * ttl},
			{At: settled + 150*time.Second, Kind: fault.BlackHole, Target: "node-3", For: 2 * ttl},
			{At: settled + 250*time.Second, Kind: fault.Cut, Target: "node-1", For: 2 * ttl},
		},
	}
}

var _ = Describe("A node in another language", func() {
	BeforeEach(func() {
		if _, err := exec.LookPath("python3"); err != nil && os.Getenv("CI") == "" {
			Skip("python3 is not installed")
		}
	})

	DescribeTable("that is safe by rules of its own is found safe", holds,
		Entry("under crash, freeze, black hole and cut",
			Label("foreign"), foreign("foreign", ""), "G1", "G2", "G3"),
	)

	DescribeTable("with one bug is caught", breaks,
		Entry("when it releases a lease without asking whose it is",
			Label("foreign"), foreign("foreign-release-any", "release-any"), "G1"),
		Entry("when its belief never ends",
			Label("foreign"), foreign("foreign-believe-forever", "believe-forever"), "G1"),
	)
})
