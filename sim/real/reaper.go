package real

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// Kinds of entries that a reaper cleans up.
const (
	reapGroup   = "group"   // a process group: killed
	reapMark    = "mark"    // a variable KEY=VALUE: the processes with it in their environment are killed
	reapDir     = "dir"     // a folder: removed with its content
	reapKeys    = "keys"    // a redis:// URL: the run's keys are deleted there
	reapProject = "project" // a compose project: its services run again and its toxiproxy is reset
	reapRun     = "run"     // a label's value: the containers and networks with it are removed
)

// reaperArg makes a program that calls ReaperMain first into a reaper.
const reaperArg = "__reaper"

// hooked is set by ReaperMain. A program that does not call ReaperMain would ignore reaperArg and do its own work a second time.
var hooked atomic.Bool

// ReaperMain must be called first in main. It returns at once, except in a canary's container and in the reaper, which cleans up after
// the simulator's end and exits. Without this call, children still die with a killed simulator (Linux), but folders, keys and containers
// stay.
func ReaperMain() {
	if len(os.Args) == 2 && os.Args[1] == canaryArg {
		end, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		host.MeterStalls(meterBoxEvery, host.Monotonic, end.Done(), func(from, to int64) { fmt.Println(from, to) })
		stop()
		os.Exit(0)
	}
	if len(os.Args) < 2 || os.Args[1] != reaperArg {
		hooked.Store(true)
		return
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	reap(os.Stdin)
	os.Exit(0)
}

func reap(pipe io.Reader) {
	left := map[string]map[string]bool{reapGroup: {}, reapMark: {}, reapDir: {}, reapKeys: {}, reapRun: {}, reapProject: {}}
	for lines := bufio.NewReader(pipe); ; {
		line, err := lines.ReadString('\n')
		if err != nil { // an incomplete line is no entry
			break
		}
		verb, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		kind, quoted, _ := strings.Cut(rest, " ")
		set, ok := left[kind]
		what, err := strconv.Unquote(quoted)
		switch {
		case !ok || err != nil:
		case verb == "+":
			set[what] = true
		default:
			delete(set, what)
		}
	}
	for group := range left[reapGroup] {
		if id, err := strconv.Atoi(group); err == nil && id > 1 {
			_ = syscall.Kill(-id, syscall.SIGKILL)
		}
	}
	for mark := range left[reapMark] {
		killMarked(mark)
	}
	for project := range left[reapProject] {
		if r, err := Provision(context.Background(), RedisChoice{Kind: kindCompose, Project: project}, ""); err == nil {
			_ = r.Close()
		}
	}
	for run := range left[reapRun] { // before their folders
		if e, err := container.Find(context.Background(), nil); err == nil {
			e.Run = run
			_ = e.Remove()
		}
	}
	for dir := range left[reapDir] {
		// A process that was just killed may still be writing its last file.
		for range 20 {
			if os.RemoveAll(dir) == nil {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	for url := range left[reapKeys] {
		opts, err := redis.ParseURL(url)
		if err != nil {
			continue
		}
		c := adminClient(adminOptions(opts))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, _ = deleteRunKeys(ctx, c)
		cancel()
		_ = c.Close()
	}
}

func killMarked(mark string) {
	for deadline := time.Now().Add(controlWithin); time.Now().Before(deadline); time.Sleep(treeTick) {
		left := processTree(0, mark)
		if len(left) == 0 {
			return
		}
		for _, m := range left {
			_ = syscall.Kill(m.pid, syscall.SIGKILL)
		}
	}
}

// reaper is the simulator's end of the pipe. A nil reaper does nothing. Safe for concurrent use.
type reaper struct {
	mu   sync.Mutex
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// startReaper starts this binary again as a reaper, in a session that Ctrl-C does not reach; nil if ReaperMain was not called.
func startReaper() (*reaper, error) {
	if !hooked.Load() {
		return nil, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("reaper: %w", err)
	}
	cmd := exec.Command(self, reaperArg)
	cmd.Dir = string(filepath.Separator)
	// Only the container engine's variables: a process that outlives this one must not keep passwords.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return !strings.HasPrefix(v, "DOCKER_") })
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("reaper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		_ = pipe.Close()
		return nil, fmt.Errorf("reaper: %w", err)
	}
	return &reaper{pipe: pipe, cmd: cmd}, nil
}

func (r *reaper) add(kind string, what any)  { r.tell("+", kind, what) }
func (r *reaper) drop(kind string, what any) { r.tell("-", kind, what) }

// tell writes one line. It quotes what, because a newline in a path must not begin another line.
func (r *reaper) tell(verb, kind string, what any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.pipe, "%s %s %q\n", verb, kind, fmt.Sprint(what))
}

// close ends the reaper, which cleans up the remaining entries, and waits for it.
func (r *reaper) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	_ = r.pipe.Close()
	r.mu.Unlock()
	_ = r.cmd.Wait()
}
