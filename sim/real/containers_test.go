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

	"github.com/moby/moby/client"

	"github.com/leasestorm/leasestorm/internal/containertest"
	containers "github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// inContainer provisions a Redis in a container of its own.
func inContainer(t *testing.T) *Redis {
	t.Helper()
	r, err := Provision(t.Context(), RedisChoice{Kind: "container", Image: containertest.Redis(t, containertest.Engine(t))}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if n := left(t, r.engine.Run); n != 0 {
			t.Errorf("%d containers and networks are left", n)
		}
	})
	return r
}

// housed provisions a Redis in a container whose nodes run in containers too.
func housed(t *testing.T) *Redis {
	t.Helper()
	r := inContainer(t)
	self, err := os.Executable()
	if err == nil {
		err = r.InContainers(t.Context(), Launcher{Program: self})
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// left counts the containers and networks of a run.
func left(t *testing.T, run string) int {
	t.Helper()
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	ours := make(client.Filters).Add("label", containers.Label+"="+run)
	all, err := api.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: ours})
	networks, failed := api.NetworkList(t.Context(), client.NetworkListOptions{Filters: ours})
	if err := errors.Join(err, failed); err != nil && t.Context().Err() == nil {
		t.Fatal(err)
	}
	return len(all.Items) + len(networks.Items)
}

// Every fault of Redis hits one in a container, which then has the data that the fault leaves. Each fault has its own storm, because the
// engine decides how long a pause or a restart takes.
func TestFaultsOfARedisInAContainerLong(t *testing.T) {
	if testing.Short() {
		t.Skip("containers: make long plays it")
	}
	r := inContainer(t)
	ms := time.Millisecond
	for _, c := range []struct {
		f           fault.Fault
		kept, empty int
	}{
		{fault.Fault{Kind: fault.RedisFreeze, For: 100 * ms}, 1, 0},
		{fault.Fault{Kind: fault.RedisMisconf, For: 100 * ms}, 1, 0},
		{fault.Fault{Kind: fault.RedisReadOnly, For: 100 * ms}, 1, 0},
		{fault.Fault{Kind: fault.RedisNoPerm, Deny: fault.DenyLeases, For: 100 * ms}, 1, 0},
		{fault.Fault{Kind: fault.RedisOutage, For: 100 * ms}, 1, 0},
		{fault.Fault{Kind: fault.ClientKill}, 0, 0},
		{fault.Fault{Kind: fault.RedisWipe, For: 50 * ms}, 0, 1},
		{fault.Fault{Kind: fault.RedisLoading, Ms: 50}, 1, 0},
		{fault.Fault{Kind: fault.RedisRestart}, 1, 0},
	} {
		c.f.At = 50 * ms
		if err := r.client.Load().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		cfg := config(t, c.f)
		cfg.Storm, cfg.Calm = 300*ms, 600*ms
		out, events := storm(t, r, cfg)
		if n := count(events, history.FaultStart); n != 1 {
			t.Errorf("%v: it hit %d times, want once; notes: %q", c.f, n, out.Notes)
		}
		up := map[string]int{}
		for _, e := range events {
			if e.Kind == history.RedisUp {
				up[e.Reason]++
			}
		}
		if up[kept] != c.kept || up[empty] != c.empty {
			t.Errorf("%v: Redis came back %v, want %d times with its data and %d times without", c.f, up, c.kept, c.empty)
		}
		if !out.Tap || out.Interrupted || count(events, history.RedisGranted) == 0 {
			t.Errorf("outcome %+v: what Redis granted was not seen", out)
		}
	}
}

// Every kind of fault hits nodes in containers and is healed. Stalls of a container are recorded.
func TestFaultsOfNodesInContainersLong(t *testing.T) {
	if testing.Short() {
		t.Skip("containers: make long plays it")
	}
	ms := time.Millisecond
	plans := map[string][]fault.Fault{
		"processes": {
			{At: 50 * ms, Kind: fault.Terminate, Target: "node-1", For: 1500 * ms},
			{At: 100 * ms, Kind: fault.Join, Target: "node-3"}, // ready before node-2 is paused, and takes over
			{At: 800 * ms, Kind: fault.CheckSend, Target: "node-2"},
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
			cfg := config(t, plan...)
			cfg.Storm = plan[len(plan)-1].At + 1500*ms
			out, events := storm(t, r, cfg)
			if n := count(events, history.FaultStart); n != len(plan) {
				t.Errorf("%d faults hit, want %d; notes: %q", n, len(plan), out.Notes)
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

// dialPart is the container's part of TestNodesHaveNoWayToRedisLong. It prints for each address whether it could connect.
func dialPart(addresses []string) {
	for _, at := range addresses {
		c, err := net.DialTimeout("tcp", at, 2*time.Second)
		fmt.Println(at, err == nil)
		if err == nil {
			_ = c.Close()
		}
	}
}

// A node's only way to Redis is its proxy, wherever Redis runs. Cutting the proxy therefore cuts the node off.
func TestNodesHaveNoWayToRedisLong(t *testing.T) {
	if testing.Short() {
		t.Skip("containers: make long plays it")
	}
	r, self := housed(t), os.Args[0]
	f := r.platform.(*fleet)
	l, err := proxy.New("node-1", f.at, r.url.Addr, 1, 1, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	redis, err := r.server.proc.(contained).Inspect(t.Context())
	if err != nil || len(redis.NetworkSettings.Networks) != 1 || redis.NetworkSettings.Networks["none"] == nil {
		t.Fatalf("Redis is in the networks %v, want none (%v)", redis.NetworkSettings.Networks, err)
	}
	beside := provision(t) // a process on this machine
	_, port, _ := net.SplitHostPort(beside.server.addr)
	atGateway := net.JoinHostPort(f.at.String(), port)
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := startContainer(r.engine.New(containers.Spec{
		Name: "node-1", Image: f.meter.Image, Command: []string{self, "-dial", l.Addr(), beside.server.addr, atGateway},
		Env: []string{"REAL_TEST_PART=dial"},
	}), log, log)
	if err != nil {
		t.Fatal(err)
	}
	<-b.Ended()
	node, err := startContainer(r.engine.New(f.meter), log, log)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := node.(contained).Inspect(t.Context()); err != nil || len(s.Mounts) != 0 {
		t.Errorf("a node has the folders %v (%v)", s.Mounts, err)
	}
	node.Kill()
	said, err := os.ReadFile(log.Name())
	want := fmt.Sprintf("%s true\n%s false\n%s false\n", l.Addr(), beside.server.addr, atGateway)
	if string(said) != want {
		t.Errorf("from a node's container:\n%s(%v), want\n%s", said, err, want)
	}
}

func TestKilledSimulatorLeavesNoContainersLong(t *testing.T) {
	if testing.Short() {
		t.Skip("containers: make long plays it")
	}
	image, dir := containertest.Redis(t, containertest.Engine(t)), t.TempDir()
	cmd, tr := startSimulator(t, "REAL_TEST_KIND=container", "REAL_TEST_IMAGE="+image, "REAL_TEST_DIR="+dir, "REAL_TEST_LAUNCHER=container")
	if n := left(t, tr.Run); n != 5 {
		t.Fatalf("%d things of the run, want Redis, two nodes, a canary and a network", n)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "containers outlive the simulator", func() bool { return left(t, tr.Run) == 0 })
	eventually(t, "the server's folder outlives the simulator", func() bool {
		there, err := filepath.Glob(filepath.Join(dir, "*"))
		return err == nil && len(there) == 0
	})
	for _, pid := range tr.PIDs {
		eventually(t, fmt.Sprintf("process %d outlives the simulator", pid), func() bool { return !runs(pid) })
	}
}

// A choice that containers cannot have fails with one line and leaves nothing behind. Without a redis-server, Redis runs in a container.
func TestContainersThatCannotBeLong(t *testing.T) {
	if testing.Short() {
		t.Skip("containers: make long plays it")
	}
	e := containertest.Engine(t)
	image := containertest.Redis(t, e)
	other, err := e.Build(t.Context(), "/etc/hostname")
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	for image, want := range map[string]error{
		"leasestorm.invalid/redis:1": containers.ErrImage, "Redis Image": containers.ErrImage, other: ErrNoServer,
	} {
		r, err := Provision(t.Context(), RedisChoice{Kind: "container", Image: image}, empty)
		if err == nil {
			_ = r.Close()
		}
		if !errors.Is(err, want) || !strings.Contains(err.Error(), image) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Provision: %v, want %v that names %s in one line", err, want, image)
		}
		if left, err := os.ReadDir(empty); err != nil || len(left) != 0 {
			t.Errorf("%v (%v) are left", left, err)
		}
	}
	r := provision(t)
	for _, l := range []Launcher{{Image: "leasestorm.invalid/node:1"}, {Program: "/nonexistent/program"}} {
		if err := r.InContainers(t.Context(), l); !errors.Is(err, containers.ErrImage) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%+v: %v, want ErrImage in one line", l, err)
		}
	}
	if err := r.InContainers(t.Context(), Launcher{Image: other}); err != nil {
		t.Fatal(err)
	}
	cfg := config(t)
	cfg.NodeCmd = []string{"/node", "-x"}
	if _, err := Run(t.Context(), r, cfg, history.NewRecorder()); !errors.Is(err, ErrNodeExited) || !strings.Contains(err.Error(), other) {
		t.Errorf("a program that the image has not: %v, want ErrNodeExited that names the image", err)
	}
	t.Setenv("PATH", "")
	for _, host := range []string{os.Getenv("DOCKER_HOST"), "unix:///nonexistent.sock"} {
		t.Setenv("DOCKER_HOST", host)
		r, err := Provision(t.Context(), RedisChoice{Image: image}, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{false: kindContainer, true: kindEmbedded}[strings.Contains(host, "nonexistent")]
		if r.Kind != want || want == kindEmbedded && !strings.Contains(r.Note, host) {
			t.Errorf("with an engine at %q: %s, %q, want %s", host, r.Kind, r.Note, want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Package docker tests storms of a running fleet.
func TestProjectThatIsNoFleetLong(t *testing.T) {
	if testing.Short() {
		t.Skip("containers: make long plays it")
	}
	_ = containertest.Engine(t)
	r, err := Provision(t.Context(), RedisChoice{Kind: "compose", Project: "leasestorm-none"}, t.TempDir())
	if err == nil {
		_ = r.Close()
	}
	if !errors.Is(err, ErrProject) || !strings.Contains(err.Error(), `project "leasestorm-none"`) {
		t.Errorf("Provision: %v, want ErrProject that names what is missing", err)
	}
}
