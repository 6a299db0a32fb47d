package real

import (
	"errors"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
)

// errGone: the process has ended, so that it cannot be signalled.
var errGone = errors.New("process has ended")

// process is a child in a process group of its own. All methods are safe for concurrent use.
type process struct {
	cmd    *exec.Cmd
	reaper *reaper
	pid    int
	start  time.Time
	exited chan struct{} // closed when the child has ended and its group was killed

	mu      sync.Mutex
	asked   bool // to end, and not killed since
	wrapper bool // others were in its group when it was asked
	gone    bool
	when    time.Time // of the end
	code    int       // exit code, -1 by signal
}

// startProcess starts cmd, which must not have run yet, and tells the reaper.
func startProcess(r *reaper, cmd *exec.Cmd) (*process, error) {
	p, known := &process{cmd: cmd, reaper: r, start: time.Now(), exited: make(chan struct{})}, make(chan struct{})
	err := redisfixture.Launch(cmd, func() {
		<-known
		p.wait()
	})
	if err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	r.add(reapGroup, p.pid)
	close(known)
	return p, nil
}

// groupTick is how often is looked whether anybody is left of a group whose leader has ended.
const groupTick = 5 * time.Millisecond

func (p *process) wait() {
	awaitExit(p.cmd)
	when := time.Now()
	// A shell that was asked to end has done so at once, and the node that it runs is still releasing what it holds. It has until who asked
	// kills it.
	for p.leaving() && groupLives(p.pid) {
		time.Sleep(groupTick)
		when = time.Now()
	}
	p.mu.Lock()
	p.gone = true
	p.when = when
	// What the child itself started must not outlive it. The child is not reaped yet, so the group is still its own.
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
	p.code = p.cmd.ProcessState.ExitCode()
	if how, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && p.asked && p.wrapper && how.Signal() == syscall.SIGTERM {
		p.code = 0 // how the shell ended says nothing of the node, which nobody had to kill
	}
	p.mu.Unlock()
	p.reaper.drop(reapGroup, p.pid)
	close(p.exited)
}

// leaving reports whether the group was asked to end and may take its time.
func (p *process) leaving() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// signal sends to the whole group; errGone after the end.
func (p *process) signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return errGone
	}
	return p.send(sig)
}

// send reaches the group, and the child itself where it has left that: nobody else's ID is its own before it is reaped. One that is still
// in it is not asked twice to end, which many programs take for an order to do so at once. The caller holds mu, and it is not gone.
func (p *process) send(sig syscall.Signal) error {
	err := syscall.Kill(-p.pid, sig)
	if group, _ := syscall.Getpgid(p.pid); group != p.pid || sig == syscall.SIGKILL {
		err = syscall.Kill(p.pid, sig)
	}
	return err
}

// kill ends the group and waits for it.
func (p *process) kill() {
	p.mu.Lock()
	p.asked = false
	p.mu.Unlock()
	_ = p.signal(syscall.SIGKILL)
	<-p.exited
}

// stop asks the group to end, and thaws it if it is stopped. Who is in it takes a while to find among thousands of processes.
func (p *process) stop(begin, sent func()) {
	wrapper := groupLives(p.pid)
	begin()
	p.mu.Lock()
	if !p.gone {
		p.asked, p.wrapper = true, wrapper
		_ = p.send(syscall.SIGTERM)
		_ = p.send(syscall.SIGCONT)
	}
	p.mu.Unlock()
	sent()
}

// end returns when the process ended, or the last of its group where it was asked to end, and its exit code; only valid once exited is
// closed.
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
