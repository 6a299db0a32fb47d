package real

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// spawner starts children from one goroutine that keeps its thread: a parent-death signal fires when the starting
// thread ends, not the process, and Go ends threads as it likes.
type spawner struct {
	requests chan spawnRequest
	done     chan struct{}
	once     sync.Once
}

type spawnRequest struct {
	cmd *exec.Cmd
	err chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and with it children left over
		for r := range s.requests {
			r.err <- r.cmd.Start()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	r := spawnRequest{cmd, make(chan error, 1)}
	s.requests <- r
	return <-r.err
}

// close ends the thread, which kills children that still live (Linux). No start may follow.
func (s *spawner) close() {
	s.once.Do(func() { close(s.requests) })
	<-s.done
}

// errGone: the process has ended, so that it cannot be signalled.
var errGone = errors.New("process has ended")

// process is a child in a process group of its own. All methods are safe for concurrent use.
type process struct {
	cmd    *exec.Cmd
	reaper *reaper
	pid    int
	start  time.Time
	exited chan struct{} // closed when the child has ended and its group was killed

	mu   sync.Mutex
	gone bool
	when time.Time // of the end
	code int       // exit code, -1 by signal
}

// startProcess starts cmd, which must not have run yet, and tells the reaper.
func startProcess(s *spawner, r *reaper, cmd *exec.Cmd) (*process, error) {
	cmd.SysProcAttr = childAttr()
	start := time.Now()
	if err := s.start(cmd); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, reaper: r, pid: cmd.Process.Pid, start: start, exited: make(chan struct{})}
	r.add(reapGroup, p.pid)
	go p.wait()
	return p, nil
}

func (p *process) wait() {
	awaitExit(p.cmd)
	when := time.Now()
	p.mu.Lock()
	p.gone = true
	p.when = when
	// What the child itself started must not outlive it. The child is not reaped yet, so the group is still its own.
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
	p.code = p.cmd.ProcessState.ExitCode()
	p.mu.Unlock()
	p.reaper.drop(reapGroup, p.pid)
	close(p.exited)
}

// signal sends to the whole group; errGone after the end.
func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return errGone
	}
	return syscall.Kill(-p.pid, sig)
}

// kill ends the group and waits for it.
func (p *process) kill() {
	_ = p.signal(syscall.SIGKILL)
	<-p.exited
}

// stop asks the group to end, and thaws it if it is stopped.
func (p *process) stop() {
	_ = p.signal(syscall.SIGTERM)
	_ = p.signal(syscall.SIGCONT)
}

// end returns when the process ended and its exit code; only valid once exited is closed.
func (p *process) end() (time.Time, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.when, p.code
}

// ended is closed when the process has ended.
func (p *process) ended() <-chan struct{} { return p.exited }

// freeze stops the group; thaw lets it go on.
func (p *process) freeze() error { return p.signal(syscall.SIGSTOP) }
func (p *process) thaw() error   { return p.signal(syscall.SIGCONT) }

// ask sends a signal to the child alone: whatever it started would die of it.
func (p *process) ask(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return errGone
	}
	return syscall.Kill(p.pid, sig)
}

func (p *process) id() int { return p.pid }

func (p *process) begun() time.Time { return p.start }

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}
