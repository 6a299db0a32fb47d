package real

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	reference "github.com/leasestorm/leasestorm/internal/node"
	"github.com/leasestorm/leasestorm/sim/client"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// filesOfAnAPI is how many files nodes of intents may have in tests. Half of that is enough for all but the connections to their APIs.
const filesOfAnAPI = 128

// intentsNode is the reference node with few files. It says where its API is.
func intentsNode() int {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: filesOfAnAPI, Max: filesOfAnAPI}); err != nil {
		panic(err)
	}
	if err := os.WriteFile(os.Getenv("REAL_TEST_APIS")+"/"+os.Getenv("LEASESTORM_NODE"), []byte(os.Getenv("LEASESTORM_API_ADDR")), 0o600); err != nil {
		panic(err)
	}
	return reference.Main(nil)
}

// Whoever reaches the port of an API, with the token that all know, takes none of the files with which its node serves pipelines.
func TestStrangersTakeNoFilesOfAnAPI(t *testing.T) {
	r := provision(t)
	cfg := config(t)
	apis := t.TempDir()
	cfg.System, cfg.Tuners, cfg.Storm = systemIntents, 4, 4*time.Second
	cfg.NodeEnv = []string{"REAL_TEST_PART=intents", "REAL_TEST_APIS=" + apis}
	var crowded time.Time
	cfg.Progress = func(p Progress) {
		if p.Phase != "storm" || !crowded.IsZero() {
			return
		}
		crowded = time.Now()
		for i := range cfg.Nodes {
			addr, err := os.ReadFile(filepath.Join(apis, fault.NodeTarget(i+1)))
			if err != nil {
				t.Error(err)
			}
			crowd(t, string(addr))
		}
	}
	_, events := storm(t, r, cfg)
	if crowded.IsZero() {
		t.Fatal("nobody came")
	}
	var began int64
	for _, e := range events {
		if e.Kind == history.Phase && e.Reason == "storm" {
			began = e.T
		}
	}
	failed := func(e history.Event) bool { return strings.Contains(e.Reason, "R_PIPELINE_FAILED") }
	if n := count(events, history.RedisState, failed); n > 0 {
		t.Errorf("%d pipelines failed", n)
	}
	late := func(e history.Event) bool { return e.T > began+int64(2*time.Second) }
	if count(events, history.Arrived, late) == 0 {
		t.Error("no pipeline began beside the strangers")
	}
}

// crowd opens twice as many connections as the process at addr may have files, and keeps them.
func crowd(t *testing.T, addr string) {
	for range 2 * filesOfAnAPI {
		c, err := net.DialTimeout("tcp", addr, time.Second)
		if err != nil {
			continue // the queue of a process that accepts none is full
		}
		t.Cleanup(func() { _ = c.Close() })
		_, _ = fmt.Fprintf(c, "GET /api/v3/sessions/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", client.ReadToken)
	}
}

// Who listens where an API was that is down, and so keeps its node from starting again, leaves no verdict.
func TestAPortOfAnAPIThatWasTakenHasNoVerdict(t *testing.T) {
	r := provision(t)
	cfg := config(t, fault.Fault{Kind: fault.Crash, Target: "node-1", At: 300 * time.Millisecond, For: 1200 * time.Millisecond})
	apis := t.TempDir()
	cfg.System, cfg.Tuners, cfg.Storm = systemIntents, 4, 20*time.Second
	cfg.NodeEnv = []string{"REAL_TEST_PART=intents", "REAL_TEST_APIS=" + apis}
	var stranger net.Listener
	cfg.Progress = func(p Progress) {
		if p.Fault == "" || stranger != nil {
			return
		}
		addr, err := os.ReadFile(filepath.Join(apis, "node-1"))
		if err == nil {
			stranger, err = net.Listen("tcp", string(addr)) // refused as long as the node lives
		}
		if err == nil {
			t.Cleanup(func() { _ = stranger.Close() })
		}
	}
	_, err := Run(t.Context(), r, cfg, history.NewRecorder())
	if stranger == nil || !errors.Is(err, ErrStarved) || !strings.Contains(err.Error(), "node-1") || !strings.Contains(err.Error(), "ss -ltnp") {
		t.Errorf("with %v in the place of an API the run ends with %v", stranger, err)
	}
}
