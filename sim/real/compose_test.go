package real

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/containertest"
	"github.com/leasestorm/leasestorm/internal/redistest"
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

// A hostile Redis' scan has no end.
func TestEndlessSessionsAreNotRead(t *testing.T) {
	r := &Redis{}
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer func() { _ = client.Close() }()
	client.AddHook(redistest.Endless{Page: slices.Repeat([]string{"session:x"}, 10_000)})
	r.client.Store(client)
	if ids, err := r.sessions(t.Context()); err == nil || !strings.Contains(err.Error(), "more than 10000 keys") {
		t.Errorf("%d sessions, %v", len(ids), err)
	}
}
