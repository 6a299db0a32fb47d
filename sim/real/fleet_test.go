package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/containertest"
	containers "github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// housed provisions a Redis whose nodes run in containers.
func housed(t *testing.T) *Redis {
	t.Helper()
	e := containertest.Engine(t)
	r := provision(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.InContainers(t.Context(), Launcher{Program: self}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the Redis is closed
		if n, err := e.Left(context.Background(), r.boxes.run); n != 1 || err != nil {
			t.Errorf("%d things of the runs are left (%v), want the network", n, err)
		}
	})
	return r
}

// Every fault that is done otherwise to nodes in containers than to processes hits and is healed.
func TestFaultsOfNodesInContainers(t *testing.T) { faultsInContainers(t, true) }

// The same without the rights to filter their network.
func TestFaultsOfNodesUnfilteredLong(t *testing.T) {
	if testing.Short() {
		t.Skip("the same proxy hits processes in TestEveryKindIsInjected: make long plays it")
	}
	faultsInContainers(t, false)
}

func faultsInContainers(t *testing.T, rights bool) {
	ms := time.Millisecond
	plans := map[string][]fault.Fault{
		"processes": {
			{At: 50 * ms, Kind: fault.Terminate, Target: "node-1", For: 1500 * ms}, // node-2 owns all when it is paused
			{At: 800 * ms, Kind: fault.CheckSend, Target: "node-2"},
			{At: 900 * ms, Kind: fault.Join, Target: "node-3"},
			{At: 3300 * ms, Kind: fault.Freeze, Target: "node-3", For: 400 * ms},
			{At: 3900 * ms, Kind: fault.Leave, Target: "node-1"},
			{At: 4100 * ms, Kind: fault.CrashAll, For: 100 * ms},
		},
		"network": {
			{At: 50 * ms, Kind: fault.BlackHole, Target: "node-1", For: 200 * ms},
			{At: 400 * ms, Kind: fault.RequestsLost, Target: "node-2", For: 800 * ms},
			{At: 1400 * ms, Kind: fault.RepliesLost, Target: "node-1", For: 800 * ms},
			{At: 2400 * ms, Kind: fault.Cut, Target: "node-2", For: 800 * ms},
			{At: 3400 * ms, Kind: fault.Flapping, Target: "node-1", For: 200 * ms, Ms: 50},
			{At: 3700 * ms, Kind: fault.Latency, Target: "node-2", For: 200 * ms, Ms: 20, Jitter: 10},
		},
	}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			r := housed(t)
			if !rights {
				r.site.(*fleet).firewall = func(context.Context, *containers.Container) (*containers.Firewall, error) {
					return nil, fmt.Errorf("%w: nobody may", containers.ErrRights)
				}
			}
			cfg := config(t, plan...)
			cfg.Storm = plan[len(plan)-1].At + 1500*ms
			out, events := storm(t, r, cfg)
			if n := count(events, history.FaultStart); n != len(plan) {
				t.Errorf("%d faults hit, want %d; notes: %q", n, len(plan), out.Notes)
			}
			if told := strings.Count(strings.Join(out.Notes, "\n"), "those of a proxy"); told != map[bool]int{true: 0, false: 1}[rights] {
				t.Errorf("notes %q: want one where the network cannot be filtered", out.Notes)
			}
			if !out.Tap || out.Interrupted || count(events, history.RedisGranted) == 0 {
				t.Errorf("outcome %+v: what Redis granted was not seen", out)
			}
			crashed := func(e history.Event) bool { return e.N == -1 && e.Reason == "asked" }
			if n := count(events, history.Exited, crashed); (n > 0) != (name == "processes") {
				t.Errorf("%d nodes were killed", n)
			}
			inspect[name](t, events)
			if t.Failed() {
				dump(t, events)
			}
		})
	}
}

// A host is there before the storm for whoever joins in it: its start would make the join late.
func TestHostsOfThoseWhoJoinAreThereBefore(t *testing.T) {
	r := housed(t)
	rec := history.NewRecorder()
	before, open := 0, r.site.(*fleet).firewall
	r.site.(*fleet).firewall = func(ctx context.Context, c *containers.Container) (*containers.Firewall, error) {
		if !slices.ContainsFunc(collect(t, rec), func(e history.Event) bool { return e.Kind == history.Phase && e.Reason == "storm" }) {
			before++
		}
		return open(ctx, c)
	}
	cfg := config(t, fault.Fault{At: 50 * time.Millisecond, Kind: fault.Join, Target: "node-3"},
		fault.Fault{At: time.Minute, Kind: fault.Join, Target: "node-4"}) // the storm is over by then
	if _, err := Run(t.Context(), r, cfg, rec); err != nil {
		t.Fatal(err)
	}
	if joined := count(collect(t, rec), history.Ready, func(e history.Event) bool { return e.Node == "node-3" }); before != 4 || joined != 1 {
		t.Errorf("%d hosts were there before the storm and node-3 was ready %d times, want 4 and once", before, joined)
	}
}

// A host that takes long to start holds up nobody: who counts what nodes send would take it for a burst.
func TestRunGoesOnWhileAHostStarts(t *testing.T) {
	r := housed(t)
	told, open := make(chan struct{}), r.site.(*fleet).firewall
	r.site.(*fleet).firewall = func(ctx context.Context, c *containers.Container) (*containers.Firewall, error) {
		select {
		case <-told:
		case <-ctx.Done():
			t.Error("nobody is told how the run goes on until the host is there")
		}
		return open(t.Context(), c)
	}
	cfg := config(t)
	cfg.Progress = func(Progress) {
		select {
		case told <- struct{}{}:
		default:
		}
	}
	storm(t, r, cfg)
}

// What stalls containers and not the simulator is seen too.
func TestStallOfContainersIsSeen(t *testing.T) {
	r := housed(t)
	var host *containers.Container
	open := r.site.(*fleet).firewall
	r.site.(*fleet).firewall = func(ctx context.Context, c *containers.Container) (*containers.Firewall, error) {
		host = c
		return open(ctx, c)
	}
	cfg := config(t)
	rec := history.NewRecorder()
	var paused time.Time
	var stalled time.Duration
	cfg.Progress = func(p Progress) {
		switch {
		case p.Phase != "storm" || stalled > 0:
		case paused.IsZero():
			if err := host.Pause(t.Context()); err != nil {
				t.Error(err)
			}
			paused = time.Now()
		default:
			stalled = time.Since(paused)
			if err := host.Unpause(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := Run(t.Context(), r, cfg, rec); err != nil {
		t.Fatal(err)
	}
	if n := count(collect(t, rec), history.Stall, func(e history.Event) bool { return e.Until-e.T >= int64(stalled) }); stalled == 0 || n == 0 {
		t.Errorf("a host was frozen for %v, and no stall is as long", stalled)
	}
}

func TestRunWhoseNodeIsKilledForMemoryIsCutShort(t *testing.T) {
	r := housed(t)
	r.site.(*fleet).memory = 64 << 20
	cfg := config(t)
	cfg.Storm, cfg.NodeEnv = time.Minute, append(cfg.NodeEnv, "REAL_TEST_NODE=hog")
	start := time.Now()
	out, events := storm(t, r, cfg)
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("the run went on for %v", took)
	}
	if notes := strings.Join(out.Notes, "\n"); !out.Interrupted || !strings.Contains(notes, "the kernel killed the container of node-") {
		t.Errorf("outcome %+v: want a run cut short, with a note that says why", out)
	}
	if n := count(events, history.RedisDown); n != 0 {
		t.Errorf("Redis went away %d times, and it was a node", n)
	}
}

func TestNodesThatCannotBeInContainers(t *testing.T) {
	e := containertest.Engine(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := provision(t)
	for name, c := range map[string]struct {
		launcher Launcher
		want     error
	}{
		"no image":   {Launcher{Image: "leasestorm.invalid/node:1"}, containers.ErrImage},
		"no name":    {Launcher{Image: "-x"}, containers.ErrImage},
		"no program": {Launcher{Program: self + "-none"}, containers.ErrImage},
	} {
		if err := r.InContainers(t.Context(), c.launcher); !errors.Is(err, c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %v in one line", name, err, c.want)
		}
	}
	if err := r.InContainers(t.Context(), Launcher{Image: other(t, e)}); err != nil {
		t.Fatal(err)
	}
	for name, argv := range map[string][]string{"what the image says": nil, "a program that it has not": {"/node", "-x"}} {
		cfg := config(t)
		cfg.NodeCmd = argv
		if _, err := Run(t.Context(), r, cfg, history.NewRecorder()); !errors.Is(err, ErrNodeStart) && !errors.Is(err, ErrNodeExited) {
			t.Errorf("%s: %v, want ErrNodeStart or ErrNodeExited", name, err)
		} else if !strings.Contains(err.Error(), "leasestorm-none") {
			t.Errorf("%s: %v does not name the image", name, err)
		}
	}
}

// An engine that goes away in the middle of a storm leaves it cut short, whatever of it was going on.
func TestRunWhoseEngineDiesIsCutShortLong(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of waiting for an engine that is gone: make long plays it")
	}
	e := containertest.Engine(t)
	kill := between(t, e)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, err := Provision(t.Context(), RedisChoice{Kind: "container", Image: containertest.Redis(t, e)}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err == nil {
			t.Error("what cannot be removed is not told")
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := e.Remove(ctx, r.boxes.run); err != nil {
			t.Error(err)
		}
	})
	if err := r.InContainers(t.Context(), Launcher{Program: self}); err != nil {
		t.Fatal(err)
	}
	cfg := config(t, fault.Fault{At: 600 * time.Millisecond, Kind: fault.Crash, Target: "node-1", For: 100 * time.Millisecond})
	cfg.Storm = time.Minute
	var once sync.Once
	cfg.Progress = func(p Progress) {
		if p.Phase == "storm" {
			once.Do(kill)
		}
	}
	start := time.Now()
	out, err := Run(t.Context(), r, cfg, history.NewRecorder())
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 40*time.Second {
		t.Errorf("the run went on for %v", took)
	}
	if notes := strings.Join(out.Notes, "\n"); !out.Interrupted || !strings.Contains(notes, "does not answer") {
		t.Errorf("outcome %+v: want a run cut short, with a note that says why", out)
	}
}

// between puts a proxy between this process and the engine. What it returns ends it, with all connections.
func between(t *testing.T, e *containers.Engine) (kill func()) {
	t.Helper()
	path, ok := strings.CutPrefix(e.Host(), "unix://")
	if !ok {
		t.Skip("the engine is not at a socket of this machine")
	}
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "engine.sock"))
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	open := []io.Closer{l}
	kill = func() {
		mu.Lock()
		defer mu.Unlock()
		for _, c := range open {
			_ = c.Close()
		}
	}
	t.Cleanup(func() { kill(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", path)
			if err != nil {
				_ = c.Close()
				continue
			}
			mu.Lock()
			open = append(open, c, to)
			mu.Unlock()
			all.Go(func() { _, _ = io.Copy(to, c); _ = to.(*net.UnixConn).CloseWrite() })
			all.Go(func() { _, _ = io.Copy(c, to); _ = c.(*net.UnixConn).CloseWrite() })
		}
	})
	t.Setenv("DOCKER_HOST", "unix://"+l.Addr().String())
	return kill
}
