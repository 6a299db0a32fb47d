package container_test

import (
	"os"
	"testing"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/leasestorm/leasestorm/internal/containertest"
	"github.com/leasestorm/leasestorm/sim/container"
)

// A test of somebody else's starts what it needs with testcontainers-go. The version that is pinned speaks to the same engines as
// this package, needs no image that would have to be pulled, and what it starts with a run's label goes with the run.
func TestContainersOfTestcontainers(t *testing.T) {
	t.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	e, _, image := network(t)
	run := containertest.Run(t, e)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = testcontainers.Run(t.Context(), image,
		testcontainers.WithEntrypoint(self), testcontainers.WithEnv(map[string]string{"CONTAINER_TEST_PART": "echo"}),
		testcontainers.WithLabels(map[string]string{container.Label: run}), testcontainers.WithWaitStrategy(wait.ForLog("pid ")))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := e.Left(t.Context(), run); n != 1 || err != nil {
		t.Errorf("%d things of the run (%v), want a container", n, err)
	}
	if err := e.Remove(t.Context(), run); err != nil {
		t.Fatal(err)
	}
}
