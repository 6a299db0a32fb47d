package real

import (
	"errors"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/internal/containertest"
)

// What is asked of a fleet that runs is held by the fleet's own test (package docker).
func TestProjectThatIsNoFleet(t *testing.T) {
	_ = containertest.Engine(t)
	r, err := Provision(t.Context(), RedisChoice{Kind: "compose", Project: "leasestorm-none"}, t.TempDir())
	if err == nil {
		_ = r.Close()
	}
	if !errors.Is(err, ErrProject) || !strings.Contains(err.Error(), `no containers of "leasestorm-none"`) {
		t.Errorf("Provision: %v, want ErrProject that names what is missing", err)
	}
}
