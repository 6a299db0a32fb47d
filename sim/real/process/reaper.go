package process

import (
	"bufio"
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
)

// Kinds of entries that need no cleaner.
const (
	group = "group" // a process group: killed
	mark  = "mark"  // a variable KEY=VALUE: the processes with it in their environment are killed
)

// reaperArg is the argument that makes a program a reaper, if the program calls ReaperMain first.
const reaperArg = "__reaper"

// hooked is set by ReaperMain. A program that does not call it would ignore reaperArg and do its own work a second time.
var hooked atomic.Bool

// Cleaner cleans up one entry of a kind.
type Cleaner struct {
	Kind  string
	Clean func(what string)
}

// ReaperMain returns at once, except in the reaper, which cleans up after the program's end and exits: processes first, then the entries of
// the cleaners, in their order.
func ReaperMain(cleaners ...Cleaner) {
	if len(os.Args) < 2 || os.Args[1] != reaperArg {
		hooked.Store(true)
		return
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	reap(os.Stdin, cleaners)
	os.Exit(0)
}

func reap(pipe io.Reader, cleaners []Cleaner) {
	left := map[string]map[string]bool{group: {}, mark: {}}
	for _, c := range cleaners {
		left[c.Kind] = map[string]bool{}
	}
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
	for group := range left[group] {
		if id, err := strconv.Atoi(group); err == nil && id > 1 {
			_ = syscall.Kill(-id, syscall.SIGKILL)
		}
	}
	for mark := range left[mark] {
		killMarked(mark)
	}
	for _, c := range cleaners {
		for what := range left[c.Kind] {
			c.Clean(what)
		}
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

// Reaper is the simulator's end of the pipe. A nil reaper does nothing. Safe for concurrent use.
type Reaper struct {
	mu   sync.Mutex
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// StartReaper starts this binary again as a reaper, in a session that Ctrl-C does not reach; nil if ReaperMain was not called.
func StartReaper() (*Reaper, error) {
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
	return &Reaper{pipe: pipe, cmd: cmd}, nil
}

// PID returns the process ID of the reaper.
func (r *Reaper) PID() int { return r.cmd.Process.Pid }

// Add adds an entry, which the reaper cleans up unless it is dropped.
func (r *Reaper) Add(kind string, what any) { r.tell("+", kind, what) }

// Drop removes an entry.
func (r *Reaper) Drop(kind string, what any) { r.tell("-", kind, what) }

// tell writes one line. It quotes what, because a newline in a path must not begin another line.
func (r *Reaper) tell(verb, kind string, what any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.pipe, "%s %s %q\n", verb, kind, fmt.Sprint(what))
}

// Close ends the reaper, which cleans up the remaining entries, and waits for it.
func (r *Reaper) Close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	_ = r.pipe.Close()
	r.mu.Unlock()
	_ = r.cmd.Wait()
}

const (
	treeTick = 5 * time.Millisecond
	// controlWithin bounds how long a process may take to stop, or to die and close its connections, after the signal.
	controlWithin = 5 * time.Second
	// launcherWithin is how long a launcher may outlive its node before it gets SIGTERM.
	launcherWithin = 100 * time.Millisecond
)
