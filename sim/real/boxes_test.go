package real

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/leasestorm/leasestorm/internal/containertest"
	containers "github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// inContainer provisions a Redis in a container of its own.
func inContainer(t *testing.T) *Redis {
	t.Helper()
	e := containertest.Engine(t)
	r, err := Provision(t.Context(), RedisChoice{Kind: "container", Image: containertest.Redis(t, e)}, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if n, err := e.Left(context.Background(), r.boxes.run); n != 0 || err != nil {
			t.Errorf("%d containers, networks and volumes are left (%v)", n, err)
		}
	})
	return r
}

// Every fault of Redis hits one in a container, and what it remembers is what the fault leaves. Each is the only one of its
// storm, because how long a pause or a restart takes is the engine's affair.
func TestFaultsOfARedisInAContainer(t *testing.T) {
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
	if r.Kind() != "container" || r.Version() == "" {
		t.Errorf("Redis is %s %s", r.Kind(), r.Version())
	}
}

// Whoever made the image of Redis writes no file of this machine but those of its data: a link that the container leaves among them is
// followed by nobody.
func TestRedisInAContainerLeavesItsFolder(t *testing.T) {
	r := inContainer(t)
	var folders []string // that the container sees
	for _, pattern := range []string{"appendonly*", filepath.Join("*", "appendonly*")} {
		found, err := filepath.Glob(filepath.Join(r.server.dir, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range found {
			folders = append(folders, filepath.Dir(name))
		}
	}
	if len(folders) == 0 {
		t.Fatalf("the data of Redis is not below %s", r.server.dir)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	names := []string{filepath.Base(r.server.logFile()), "dump.rdb"}
	r.server.kill()
	for _, name := range names {
		link := filepath.Join(folders[0], name)
		if err := os.RemoveAll(link); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(victim, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(r.server.start(t.Context()), r.failToSave(t.Context())); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(victim); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what Redis said is in a file elsewhere: %q, %v", text, err)
	}
}

func TestRedisKilledForMemoryHasNoVerdict(t *testing.T) {
	r := inContainer(t)
	api, err := client.New(client.FromEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	limit := int64(32 << 20)
	_, err = api.ContainerUpdate(t.Context(), r.server.proc.(box).ID(),
		client.ContainerUpdateOptions{Resources: &container.Resources{Memory: limit, MemorySwap: limit}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := config(t)
	cfg.Storm = time.Minute
	// The kernel looks for memory before it kills, and Docker tells of an end when it comes to it: either may last for longer than a short
	// TTL, after which a silent Redis ends the run by itself.
	cfg.TTL, cfg.Discovery = 6*time.Second, 2*time.Second
	var filled bool
	cfg.Progress = func(p Progress) {
		if filled || p.Phase != "storm" {
			return
		}
		filled = true
		for i := range 64 { // the last ones are not answered
			_ = r.client.Load().Set(t.Context(), fmt.Sprint("big", i), bytes.Repeat([]byte("x"), 1<<20), 0).Err()
		}
	}
	start := time.Now()
	rec := history.NewRecorder()
	_, err = Run(t.Context(), r, cfg, rec)
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("the run went on for %v", took)
	}
	if !errors.Is(err, ErrGone) || !strings.Contains(err.Error(), "for memory") {
		t.Errorf("it ends with %v: want ErrGone that says why", err)
	}
	if n := count(collect(t, rec), history.RedisDown); n != 1 {
		t.Errorf("Redis went away %d times, want once", n)
	}
}

func TestKilledSimulatorLeavesNoContainers(t *testing.T) {
	e := containertest.Engine(t)
	dir := t.TempDir()
	cmd, tr := startSimulator(t, "REAL_TEST_KIND=container", "REAL_TEST_IMAGE="+containertest.Redis(t, e), "REAL_TEST_DIR="+dir,
		"REAL_TEST_LAUNCHER=container")
	if n, err := e.Left(t.Context(), tr.Run); n != 6 || err != nil {
		t.Fatalf("%d things of the run (%v), want Redis, two hosts, a node at each, and a network", n, err)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "containers outlive the simulator", func() bool {
		n, err := e.Left(t.Context(), tr.Run)
		return n == 0 && err == nil
	})
	eventually(t, "the server's folder outlives the simulator", func() bool {
		left, err := filepath.Glob(filepath.Join(dir, "*"))
		return err == nil && len(left) == 0
	})
	for _, pid := range tr.PIDs {
		eventually(t, fmt.Sprintf("process %d outlives the simulator", pid), func() bool { return !runs(pid) })
	}
}

func TestContainersThatCannotBe(t *testing.T) {
	e := containertest.Engine(t)
	image := containertest.Redis(t, e)
	empty := t.TempDir()
	for name, c := range map[string]struct {
		host, image string
		want        error
		says        string
	}{
		"no engine":  {"unix:///nonexistent.sock", image, containers.ErrNoEngine, "/nonexistent.sock"},
		"no image":   {e.Host(), "leasestorm.invalid/redis:1", containers.ErrImage, "cannot be pulled"},
		"no name":    {e.Host(), "Redis Image", containers.ErrImage, "Redis Image"},
		"no server":  {e.Host(), other(t, e), ErrNoServer, "redis-server"},
		"a volume":   {e.Host(), voluminous(t, e), errVolume, "/elsewhere"},
		"no machine": {"tcp://192.0.2.1:2375", image, containers.ErrElsewhere, "192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("DOCKER_HOST", c.host)
			r, err := Provision(t.Context(), RedisChoice{Kind: "container", Image: c.image}, empty)
			if err == nil {
				_ = r.Close()
			}
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("Provision: %v, want %v that says %q, in one line", err, c.want, c.says)
			}
			if left, err := os.ReadDir(empty); err != nil || len(left) != 0 {
				t.Errorf("%v (%v) are left", left, err)
			}
		})
	}
}

// voluminous is an image for which the engine makes a volume beside that of the data.
func voluminous(t *testing.T, e *containers.Engine) string {
	t.Helper()
	image := "leasestorm-volume:" + strings.ToLower(rand.Text())
	cmd := exec.Command("docker", "--host", e.Host(), "build", "-q", "-t", image, "-")
	cmd.Stdin = strings.NewReader("FROM " + other(t, e) + "\nVOLUME /data\nVOLUME /elsewhere\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "--host", e.Host(), "rmi", image).Run() })
	return image
}

// other is an image that has no server.
func other(t *testing.T, e *containers.Engine) string {
	t.Helper()
	image, err := e.Build(t.Context(), "none", "/etc/hostname")
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// Where there is no redis-server, an engine is the next best, and then the embedded Redis.
func TestChoiceOfRedisWithoutAServer(t *testing.T) {
	e := containertest.Engine(t)
	choice := RedisChoice{Image: containertest.Redis(t, e)}
	t.Setenv("PATH", "")
	for host, want := range map[string]string{e.Host(): kindContainer, "unix:///nonexistent.sock": kindEmbedded} {
		t.Setenv("DOCKER_HOST", host)
		r, err := Provision(t.Context(), choice, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if r.Kind() != want || (want == kindEmbedded) != strings.Contains(r.Note(), "/nonexistent.sock") {
			t.Errorf("with an engine at %s: %s, %q, want %s", host, r.Kind(), r.Note(), want)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
