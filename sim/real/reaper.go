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
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// What a reaper is told to take away.
const (
	reapGroup = "group" // a process group: killed
	reapDir   = "dir"   // a folder: removed with all in it
	reapKeys  = "keys"  // a redis:// URL: the run's keys are deleted there
)

// reaperArg makes a program that calls ReaperMain first into a reaper.
const reaperArg = "__reaper"

// hooked is set by ReaperMain: only then may the program be started again as a reaper, because a program that does not
// know the argument would do its own work a second time.
var hooked atomic.Bool

// ReaperMain must be called first in main. It returns at once, except in the process that a run starts from the same
// binary to clean up after it: there it waits for the simulator's end, cleans up, and exits the process. Without that
// call a run has no reaper: then children still die with the simulator (Linux), but folders and keys stay when it is
// killed.
func ReaperMain() {
	if len(os.Args) < 2 || os.Args[1] != reaperArg {
		hooked.Store(true)
		return
	}
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	reap(os.Stdin)
	os.Exit(0)
}

// reap reads what is to be taken away until the pipe ends, and then takes it away.
func reap(pipe io.Reader) {
	left := map[string]map[string]bool{reapGroup: {}, reapDir: {}, reapKeys: {}}
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		verb, rest, _ := strings.Cut(lines.Text(), " ")
		kind, what, _ := strings.Cut(rest, " ")
		if set, ok := left[kind]; ok && verb == "+" {
			set[what] = true
		} else if ok {
			delete(set, what)
		}
	}
	for group := range left[reapGroup] {
		if id, err := strconv.Atoi(group); err == nil && id > 1 {
			_ = syscall.Kill(-id, syscall.SIGKILL)
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
		c := redis.NewClient(adminOptions(opts))
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, _ = deleteRunKeys(ctx, c)
		cancel()
		_ = c.Close()
	}
}

// reaper is the simulator's side of the pipe. A nil reaper does nothing. Safe for concurrent use.
type reaper struct {
	mu   sync.Mutex
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// startReaper starts this binary again as a reaper, in a session of its own so that Ctrl-C at the terminal does not
// reach it. It returns nil if the program has no hook for it.
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
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("reaper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("reaper: %w", err)
	}
	return &reaper{pipe: pipe, cmd: cmd}, nil
}

func (r *reaper) add(kind string, what any)  { r.tell("+", kind, what) }
func (r *reaper) drop(kind string, what any) { r.tell("-", kind, what) }

func (r *reaper) tell(verb, kind string, what any) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _ = fmt.Fprintf(r.pipe, "%s %s %v\n", verb, kind, what)
}

// close ends the reaper, which takes away what was not dropped, and waits for it.
func (r *reaper) close() {
	if r == nil {
		return
	}
	r.mu.Lock()
	_ = r.pipe.Close()
	r.mu.Unlock()
	_ = r.cmd.Wait()
}
