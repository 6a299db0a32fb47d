package real

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

func TestNodesThatDoNotStart(t *testing.T) {
	r := provision(t)
	for name, c := range map[string]struct {
		cmd  []string
		env  string
		want error
		says string
	}{
		"missing": {cmd: []string{"/nonexistent/node"}, want: ErrNodeStart, says: "/nonexistent/node"},
		"exits":   {env: "REAL_TEST_NODE=exits", want: ErrNodeExited, says: "no configuration found"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t)
			if c.cmd != nil {
				cfg.NodeCmd = c.cmd
			}
			cfg.NodeEnv = append(cfg.NodeEnv, c.env)
			_, err := Run(t.Context(), r, cfg, history.NewRecorder())
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("Run: %v, want %v that says %q", err, c.want, c.says)
			}
		})
	}
}

func TestNodeThatIsNeverReady(t *testing.T) {
	r := provision(t)
	cfg := config(t)
	cfg.NodeEnv = append(cfg.NodeEnv, "REAL_TEST_NODE=silent")
	cfg.readyWithin = 100 * time.Millisecond
	_, err := Run(t.Context(), r, cfg, history.NewRecorder())
	if !errors.Is(err, ErrNodeNotReady) {
		t.Errorf("Run: %v, want ErrNodeNotReady", err)
	}
}

func TestNodeThatIgnoresSIGTERM(t *testing.T) {
	r := provision(t)
	cfg := config(t, fault.Fault{Kind: fault.Leave, Target: "node-1"})
	cfg.NodeEnv = append(cfg.NodeEnv, "REAL_TEST_NODE=stubborn")
	cfg.Storm, cfg.Calm, cfg.grace = 100*time.Millisecond, 0, 50*time.Millisecond
	out, events := storm(t, r, cfg)
	if n := count(events, history.Exited, func(e history.Event) bool { return e.N == -1 && e.Reason == "asked" }); n != 2 {
		t.Errorf("%d nodes were killed, want 2", n)
	}
	if n := strings.Count(strings.Join(out.Notes, "\n"), "ignored SIGTERM"); n != 2 {
		t.Errorf("%d notes say so, want 2: %q", n, out.Notes)
	}
}

func TestNodeThatPrintsGarbage(t *testing.T) {
	r := provision(t)
	cfg := config(t)
	cfg.NodeEnv = append(cfg.NodeEnv, "REAL_TEST_NODE=endless")
	cfg.Storm, cfg.Calm = 200*time.Millisecond, 100*time.Millisecond
	out, events := storm(t, r, cfg)
	if n := count(events, history.Malformed); n != 4 { // an endless line and one that is no JSON, of each node
		t.Errorf("%d malformed lines, want 4", n)
	}
	unknown := func(e history.Event) bool { return e.Reason == "danced a waltz" && e.Node != "" }
	if n := count(events, history.KindUnknown, unknown); n != 2 {
		t.Errorf("%d unknown words kept, want 2", n)
	}
	if notes := strings.Join(out.Notes, "\n"); !strings.Contains(notes, "2 malformed lines") {
		t.Errorf("no note counts them: %q", notes)
	}
}

// An interrupted run waits neither for the plan nor for the nodes' whole grace.
func TestInterruptedRunEndsSoonAndKeepsItsHistory(t *testing.T) {
	r := provision(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const never = time.Hour // longer than the test may take
	cfg := config(t,
		fault.Fault{Kind: fault.Freeze, Target: "node-1", For: never},
		fault.Fault{At: 10 * time.Millisecond, Kind: fault.RedisFreeze, For: never},
		fault.Fault{At: 20 * time.Millisecond, Kind: fault.BlackHole, Target: "node-2", For: never},
	)
	cfg.TTL = never // on a slow machine, a longer silence of Redis would end the run before the last fault hits
	cfg.Storm, cfg.Calm, cfg.grace = never, never, never
	cfg.Progress = func(p Progress) {
		if strings.HasPrefix(p.Fault, string(fault.BlackHole)) { // the last of the three
			cancel()
		}
	}
	rec := history.NewRecorder()
	out, err := Run(ctx, r, cfg, rec)
	if err != nil || !out.Interrupted {
		t.Fatalf("Run: %+v, %v, want an interrupted run without an error", out, err)
	}
	events := collect(t, rec)
	if starts, ends := count(events, history.FaultStart), count(events, history.FaultEnd); starts != 3 || ends != 3 {
		t.Errorf("%d faults hit and %d were healed, want 3", starts, ends)
	}
	if n := count(events, history.Exited); n != 2 {
		t.Errorf("%d processes ended, want 2", n)
	}
	if last := events[len(events)-1]; last.T <= 0 {
		t.Errorf("last event %+v has no time", last)
	}
}

func TestInvalidConfigs(t *testing.T) {
	r := &Redis{Info: Info{Kind: kindServer}, platform: processes{}}
	for name, spoil := range map[string]func(*Config){
		"Nodes":    func(c *Config) { c.Nodes = 0 },
		"Sessions": func(c *Config) { c.Sessions = -1 },
		"TTL":      func(c *Config) { c.TTL = 0 },
		"Storm":    func(c *Config) { c.Storm = -time.Second },
		"Calm":     func(c *Config) { c.Calm = -1 },
		"NodeCmd":  func(c *Config) { c.NodeCmd = nil },
		"plan":     func(c *Config) { c.Plan.Faults = []fault.Fault{{Kind: "earthquake"}} },
	} {
		cfg := config(t)
		spoil(&cfg)
		_, err := Run(t.Context(), r, cfg, history.NewRecorder())
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want ErrConfig that names it", name, err)
		}
	}
}

// The folder of logs belongs to the caller, so the run does not make one.
func TestLogsThatCannotBeWritten(t *testing.T) {
	cfg := config(t)
	cfg.Logs = filepath.Join(t.TempDir(), "gone")
	r, err := Provision(t.Context(), RedisChoice{Kind: "embedded"}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := Run(t.Context(), r, cfg, history.NewRecorder()); err == nil || !strings.Contains(err.Error(), "log of node-1") {
		t.Errorf("Run: %v, want an error about the log", err)
	}
	if _, err := os.Stat(cfg.Logs); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder was made: %v", err)
	}
}

func TestEmbeddedRun(t *testing.T) {
	t.Parallel()
	r, err := Provision(t.Context(), RedisChoice{Kind: "embedded"}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}()
	ms := time.Millisecond
	out, events := storm(t, r, config(t,
		fault.Fault{At: 50 * ms, Kind: fault.Crash, Target: "node-1", For: 100 * ms},
		fault.Fault{At: 300 * ms, Kind: fault.RedisOutage, For: 50 * ms},
		fault.Fault{At: 500 * ms, Kind: fault.RedisWipe, For: 50 * ms},
		fault.Fault{At: 700 * ms, Kind: fault.RedisFlush},
	))
	if out.Tap || count(events, history.TapDown) != 1 || count(events, history.TapUp) != 0 {
		t.Errorf("outcome %+v: an embedded Redis shows nobody what it grants", out)
	}
	if n := count(events, history.RedisUp); n != 2 {
		t.Errorf("Redis came back %d times, want 2", n)
	}
	if count(events, history.Served) == 0 {
		t.Error("nothing was polled")
	}
	for _, k := range []fault.Kind{
		fault.RedisFreeze, fault.RedisLoading, fault.ClockStep, "earthquake", fault.RedisReadOnly, fault.RedisMemory, fault.RedisNoPerm,
		fault.RedisNoReplicas, fault.RedisMisconf,
	} {
		if r.Supports(k) == nil {
			t.Errorf("the embedded Redis claims to support %s", k)
		}
	}
}

// If a full disk cuts off a log, one note says so. The node's output is still read, because the node would otherwise block.
func TestAFullDiskHoldsNobodyUp(t *testing.T) {
	r := &run{}
	for range 2 {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		said := strings.NewReader(strings.Repeat("an entry\n", 100_000))
		(&slot{run: r, name: "node-1"}).keep(said, full)
		if said.Len() > 0 {
			t.Errorf("%d bytes are still to be read", said.Len())
		}
	}
	if !errors.Is(r.unsaved, syscall.ENOSPC) || strings.Count(r.unsaved.Error(), "no space") != 1 {
		t.Errorf("told %v", r.unsaved)
	}
}

// If a full disk prevents opening a log, only the log is lost. The process starts, also after a fault.
func TestAFullDiskKeepsNoProcessFromItsStart(t *testing.T) {
	for _, full := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
		r := &run{}
		log, err := (&slot{run: r, name: "node-1"}).logTo(nil, &fs.PathError{Op: "openat", Path: "node-1.log", Err: full})
		if err != nil {
			t.Fatalf("%v: %v", full, err)
		}
		if _, err := log.WriteString("an entry\n"); err != nil {
			t.Errorf("%v: what is said meets %v", full, err)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
		if !errors.Is(r.unsaved, full) {
			t.Errorf("%v: told %v", full, r.unsaved)
		}
	}
}

// boxed is a container's program. Its end is reported when all its output was read.
type boxed struct {
	process.Program
	read  chan struct{}
	kills atomic.Int32
}

func (d *boxed) Kill() {
	d.kills.Add(1)
	<-d.read
}

// A node with another version of the protocol is killed once, while its output is still read.
func TestANodeOfAnotherVersionIsReadToItsEnd(t *testing.T) {
	r := &run{clock: host.NewClock(), rec: history.NewRecorder()}
	p := &boxed{read: make(chan struct{})}
	s, n := &slot{run: r, name: "node-1"}, &node{Program: p, ready: make(chan struct{})}
	said := strings.NewReader(strings.Repeat(`{"event":"ready","instance":"a","protocol":9}`+"\n", 1000))
	protocol.Read(said, func(m protocol.Message) { s.handle(n, m) }, s.keepMalformed)
	close(p.read)
	r.tail.Wait()
	if kills := p.kills.Load(); kills != 1 || n.wasReady() {
		t.Errorf("killed %d times, ready %v, want one that was not ready killed once", kills, n.wasReady())
	}
}

// The quoted end of a log is bounded, even if the log grows faster than it is read.
func TestTheEndOfALogIsBounded(t *testing.T) {
	s := &slot{run: &run{cfg: Config{Logs: t.TempDir()}}, name: "node-1"}
	log, err := os.Create(s.logFile())
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	line, written, stop := bytes.Repeat([]byte("x"), 64<<10), make(chan error), make(chan struct{})
	if _, err := log.Write(line); err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			select {
			case <-stop:
				written <- nil
				return
			default:
			}
			if _, err := log.Write(line); err != nil {
				<-stop
				written <- err
				return
			}
		}
	}()
	for range 100 {
		if said := s.stderrTail(); len(said) != tailMax {
			t.Errorf("%d bytes are shown, want %d", len(said), tailMax)
			break
		}
	}
	close(stop)
	if err := <-written; err != nil {
		t.Error(err)
	}
}

// The reaper works in another folder, so the path must be absolute.
func TestFolderOfRedisIsAbsolute(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", "tmp")
	for _, dir := range []string{"", "tmp"} {
		if folder, err := new(Redis).folder(dir); err != nil || !filepath.IsAbs(folder) {
			t.Errorf("folder in %q: %q (%v)", dir, folder, err)
		}
	}
}
