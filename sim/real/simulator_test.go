package real

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// traces are what a simulator would leave behind without cleanup.
type traces struct {
	Dir  string `json:"dir"`
	PIDs []int  `json:"pids"`

	Grandchildren []int `json:"grandchildren"`

	Run string `json:"run"` // of containers
}

// fakeSimulator runs a long storm and prints what it started. One node is frozen, so it cannot end by itself.
func fakeSimulator() int {
	r, err := Provision(context.Background(), RedisChoice{Kind: os.Getenv("REAL_TEST_KIND"), URL: os.Getenv("REAL_TEST_URL"),
		Image: os.Getenv("REAL_TEST_IMAGE")}, os.Getenv("REAL_TEST_DIR"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3
	}
	self, _ := os.Executable()
	if os.Getenv("REAL_TEST_LAUNCHER") != "" {
		if err := r.InContainers(context.Background(), Launcher{Program: self}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 3
		}
	}
	ms := time.Millisecond
	rec := history.NewRecorder()
	told := false
	cfg := Config{
		Nodes: 2, Sessions: 2,
		Timings: timing.Timings{
			TTL: 600 * ms, Renew: 150 * ms, Heartbeat: 150 * ms, Discovery: 150 * ms, Poll: 50 * ms, PollTimeout: 200 * ms, Serve: 5 * ms,
		},
		Storm: time.Minute, Logs: os.Getenv("REAL_TEST_RUN"), NodeCmd: []string{self},
		NodeEnv: []string{"REAL_TEST_PART=node"},
		Plan:    fault.Plan{Faults: []fault.Fault{{At: 50 * ms, Kind: fault.Freeze, Target: "node-1", For: time.Minute}}},
	}
	if os.Getenv("REAL_TEST_SHELL") != "" {
		cfg.NodeCmd = []string{"/bin/sh", "-c", `"$0"; true`, self}
	}
	cfg.Progress = func(p Progress) {
		if told || p.Fault == "" {
			return
		}
		told = true
		tr := traces{}
		if r.server != nil {
			tr.Dir = r.server.dir
		}
		if r.engine != nil {
			tr.Run = r.engine.Run
		} else if r.server != nil {
			tr.PIDs = []int{r.server.proc.ID()}
		}
		for e := range rec.Events() {
			switch e.Kind {
			case history.Spawned:
				tr.PIDs = append(tr.PIDs, int(e.N))
			case history.Ready:
				if pid, err := strconv.Atoi(e.Instance[strings.LastIndexByte(e.Instance, '-')+1:]); err == nil {
					tr.Grandchildren = append(tr.Grandchildren, pid)
				}
			}
		}
		tr.PIDs = append(tr.PIDs, r.reaper.PID())
		_ = json.NewEncoder(os.Stdout).Encode(tr)
	}
	_, err = Run(context.Background(), r, cfg, rec)
	fmt.Fprintln(os.Stderr, err)
	return 3
}

// startSimulator starts a simulator and returns it with its traces.
func startSimulator(t *testing.T, env ...string) (*exec.Cmd, traces) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "REAL_TEST_PART=simulator", "REAL_TEST_RUN="+t.TempDir())
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		t.Fatalf("the simulator told nothing: %v", err)
	}
	var tr traces
	if err := json.Unmarshal(line, &tr); err != nil {
		t.Fatal(err)
	}
	return cmd, tr
}

// runs reports whether a process lives. A zombie does not.
func runs(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	after := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	return !strings.HasPrefix(strings.TrimSpace(after), "Z")
}

// eventually polls until the condition holds, and fails with the complaint after 30 s.
func eventually(t *testing.T, complaint string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(30 * time.Second)
	for !holds() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal(complaint)
		}
	}
}

func TestKilledSimulatorLeavesNothing(t *testing.T) {
	provision(t) // skips without a server
	dir := t.TempDir()
	cmd, tr := startSimulator(t, "REAL_TEST_KIND=server", "REAL_TEST_DIR="+dir)
	if len(tr.PIDs) != 4 || tr.Dir == "" {
		t.Fatalf("traces %+v: want a server, two nodes, a reaper and a folder", tr)
	}
	for _, pid := range tr.PIDs {
		if !runs(pid) {
			t.Fatalf("process %d does not run before the kill", pid)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, pid := range tr.PIDs {
		eventually(t, fmt.Sprintf("process %d outlives the simulator", pid), func() bool { return !runs(pid) })
	}
	eventually(t, "the server's folder outlives the simulator", func() bool {
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		return err == nil && len(left) == 0
	})
}

func TestKilledSimulatorRemovesItsKeysFromAGivenRedis(t *testing.T) {
	given := provision(t)
	client := given.client.Load()
	ctx := t.Context()
	if err := client.Set(ctx, "somebody:else", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	cmd, tr := startSimulator(t, "REAL_TEST_KIND=url", "REAL_TEST_URL="+given.raw)
	if n, err := client.DBSize(ctx).Result(); err != nil || n < 5 {
		t.Fatalf("%d keys (%v) while the run goes on, want sessions, leases, heartbeats", n, err)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, pid := range tr.PIDs {
		eventually(t, fmt.Sprintf("process %d outlives the simulator", pid), func() bool { return !runs(pid) })
	}
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil || len(keys) != 1 || keys[0] != "somebody:else" {
		t.Errorf("keys %v (%v) are left, want only the one that was there before", keys, err)
	}
}

// The processes that a node starts also end with the simulator, even if the node's end does not end them.
func TestKilledSimulatorTakesGrandchildrenAlong(t *testing.T) {
	provision(t) // skips without a server
	cmd, tr := startSimulator(t, "REAL_TEST_KIND=server", "REAL_TEST_DIR="+t.TempDir(), "REAL_TEST_SHELL=yes")
	if len(tr.Grandchildren) != 2 {
		t.Fatalf("traces %+v: want two grandchildren", tr)
	}
	for _, pid := range tr.Grandchildren {
		if !runs(pid) || slices.Contains(tr.PIDs, pid) {
			t.Fatalf("%d is no running grandchild: %+v", pid, tr)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	for _, pid := range append(tr.Grandchildren, tr.PIDs...) {
		eventually(t, fmt.Sprintf("process %d outlives the simulator", pid), func() bool { return !runs(pid) })
	}
}

func TestTenRunsAtOnce(t *testing.T) {
	provision(t) // skips without a server
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 10 {
		cfg := config(t, fault.Fault{At: 100 * time.Millisecond, Kind: fault.Cut, Target: "node-1", For: 100 * time.Millisecond})
		cfg.Storm, cfg.Calm, cfg.Seed = 400*time.Millisecond, 200*time.Millisecond, uint64(i)
		cfg.readyWithin = time.Minute // twenty nodes start at once, on a machine that may have two cores
		all.Go(func() {
			r, err := Provision(t.Context(), RedisChoice{Kind: "server"}, dir)
			if err != nil {
				t.Error(err)
				return
			}
			rec := history.NewRecorder()
			_, err = Run(t.Context(), r, cfg, rec)
			if err := errors.Join(err, r.Close()); err != nil {
				t.Error(err)
			}
			if n := count(collect(t, rec), history.Malformed); n != 0 || count(collect(t, rec), history.FaultEnd) != 1 {
				t.Errorf("run %d: %d malformed, %d faults ended", i, n, count(collect(t, rec), history.FaultEnd))
			}
		})
	}
	all.Wait()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v (%v) are left", left, err)
	}
}

func TestRunOnAGivenRedis(t *testing.T) {
	t.Parallel()
	given := provision(t)
	client := given.client.Load()
	ctx := t.Context()
	if err := client.Set(ctx, "somebody:else", "1", 0).Err(); err != nil {
		t.Fatal(err)
	}
	// On a given Redis, the user may have the right to replicate. The storm's own nodes never have it.
	if err := client.Do(ctx, "ACL", "SETUSER", "default", "+psync").Err(); err != nil {
		t.Fatal(err)
	}
	r, err := Provision(ctx, RedisChoice{Kind: "url", URL: given.raw + "/0"}, "")
	if err != nil {
		t.Fatal(err)
	}
	out, events := storm(t, r, config(t, fault.Fault{Kind: fault.KeyDelete, Target: "session-1"}))
	if !out.Tap || count(events, history.RedisGranted) == 0 {
		t.Errorf("outcome %+v: what Redis granted was not seen", out)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	keys, err := client.Keys(ctx, "*").Result()
	if err != nil || len(keys) != 1 || keys[0] != "somebody:else" {
		t.Errorf("keys %v (%v) are left, want only the one that was there before", keys, err)
	}
	for _, k := range []fault.Kind{
		fault.RedisFlush, fault.RedisOutage, fault.ClientKill, fault.RedisReadOnly, fault.RedisMemory, fault.RedisNoPerm,
		fault.RedisNoReplicas, fault.RedisMisconf,
	} {
		if err := r.Supports(k); !errors.Is(err, ErrUnsupported) {
			t.Errorf("Supports(%s) = %v on a given Redis, want ErrUnsupported", k, err)
		}
	}
}
