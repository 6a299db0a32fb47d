// Package process runs programs with all their descendants, and cleans up after a program that was killed.
package process

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

var errGone = errors.New("process has ended")

// Process is a child in a process group of its own, with all its descendants in any group or session. Safe for concurrent use.
type Process struct {
	cmd    *exec.Cmd
	reaper *Reaper
	mark   string   // KEY=VALUE that only its processes have in their environment; "": none
	addrs  []string // addresses to which only its processes connect
	pid    int
	start  time.Time
	exited chan struct{} // closed when all its processes have ended, or Escaped is set
	// Parent is set, before Stop, if the child is no launcher: SIGTERM reaches only its group.
	Parent bool
	// Escaped describes a process of the program that cannot be controlled. Valid once exited is closed.
	Escaped error

	mu      sync.Mutex
	asked   bool // Stop was called, and not Kill since
	wrapper bool // the child had started others when Stop was called
	gone    bool
	when    time.Time // end of the last process
	code    int       // exit code, -1 by signal
}

// Start starts cmd, which must not have run yet, and registers it with the reaper.
func Start(r *Reaper, cmd *exec.Cmd, mark string, addrs ...string) (*Process, error) {
	p := &Process{cmd: cmd, reaper: r, mark: mark, addrs: addrs, start: time.Now(), exited: make(chan struct{})}
	known := make(chan struct{})
	err := redisfixture.Launch(cmd, func() {
		<-known
		p.wait()
	})
	if err != nil {
		return nil, err
	}
	p.pid = cmd.Process.Pid
	r.Add(group, p.pid)
	if mark != "" {
		r.Add(mark, mark)
	}
	close(known)
	return p, nil
}

func (p *Process) wait() {
	awaitExit(p.cmd)
	when, err := p.outlast()
	if err == nil {
		err = p.Strange()
	}
	p.Escaped = err
	p.mu.Lock()
	p.gone = true
	p.when = when
	// The child is not reaped yet, so it still owns the group.
	_ = syscall.Kill(-p.pid, syscall.SIGKILL)
	_ = p.cmd.Wait()
	p.code = p.cmd.ProcessState.ExitCode()
	if how, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && p.asked && p.wrapper && how.Signal() == syscall.SIGTERM {
		p.code = 0 // SIGTERM ended a shell; the node ended without a kill
	}
	p.mu.Unlock()
	p.reaper.Drop(group, p.pid)
	if p.mark != "" {
		p.reaper.Drop(mark, p.mark)
	}
	close(p.exited)
}

// outlast waits, after the child's end, for the last process of the program. After Stop, processes may run on until Kill, because a node
// may still release leases when its shell has ended. Otherwise outlast kills them.
func (p *Process) outlast() (when time.Time, err error) {
	when = time.Now()
	var told bool
	var killing time.Time
	for left := processTree(p.pid, p.mark); len(left) > 0; left, when = processTree(p.pid, p.mark), time.Now() {
		sig := syscall.SIGKILL
		switch {
		case p.leaving() && told:
			sig = 0
		case p.leaving():
			sig, told = syscall.SIGTERM, true
		case killing.IsZero():
			killing = time.Now()
		case time.Since(killing) > controlWithin:
			return when, fmt.Errorf("%w: process %d, which %q started, does not end after SIGKILL: it may run as another user",
				host.ErrNoVerdict, left[0].pid, p.cmd.Args)
		}
		for _, m := range left {
			if m.group != p.pid || sig != syscall.SIGTERM { // the group already got SIGTERM
				_ = syscall.Kill(m.pid, sig)
			}
		}
		time.Sleep(treeTick)
	}
	return when, nil
}

// Strange returns an error if a process that faults do not reach, such as one that docker run started, is connected to an address.
func (p *Process) Strange() error {
	for deadline := time.Now().Add(controlWithin); ; time.Sleep(10 * treeTick) {
		pid, found := stranger(p.addrs, func() []treeProcess { return processTree(p.pid, p.mark) })
		if !found {
			return nil
		}
		if time.Now().After(deadline) {
			who := "a process that this user cannot see"
			if pid != 0 {
				who = fmt.Sprintf("process %d", pid)
			}
			return fmt.Errorf("%w: %s connects to Redis as the node that %q starts, but is neither its descendant nor has its variable "+
				"LEASESTORM_REDIS_URL: it cannot be frozen or killed", host.ErrNoVerdict, who, p.cmd.Args)
		}
	}
}

func (p *Process) leaving() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked
}

// signalAll sends a signal to all processes of the program, or returns errGone after the end.
func (p *Process) signalAll(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return errGone
	}
	return p.sendAll(sig)
}

// sendAll signals the processes outside the group first, so that a thawed launcher does not see a stopped child. mu is held.
func (p *Process) sendAll(sig syscall.Signal) error {
	for _, m := range processTree(p.pid, p.mark) {
		if m.group != p.pid {
			_ = syscall.Kill(m.pid, sig)
		}
	}
	return p.send(sig)
}

// send signals the group, and the child itself if it left the group. The child's ID is not reused before it is reaped. A child in the
// group gets SIGTERM only once: many programs exit at once on a second. mu is held, and the process is not gone.
func (p *Process) send(sig syscall.Signal) error {
	err := syscall.Kill(-p.pid, sig)
	if group, _ := syscall.Getpgid(p.pid); group != p.pid || sig == syscall.SIGKILL {
		err = syscall.Kill(p.pid, sig)
	}
	return err
}

// Kill ends all processes and waits for their end.
func (p *Process) Kill() {
	p.mu.Lock()
	p.asked = false
	p.mu.Unlock()
	_ = p.signalAll(syscall.SIGKILL)
	<-p.exited
}

// Stop sends SIGTERM and thaws the program. If the child is a launcher, only the processes connected to Redis get the signal. Some
// launchers would forward the signal, so that the node would get it twice. Others would end before they have forwarded the node's
// output.
func (p *Process) Stop(begin, sent func()) {
	all := processTree(p.pid, p.mark) // before begin: slow among thousands of processes
	nodes := clientsOf(p.addrs, all)
	begin()
	p.mu.Lock()
	if !p.gone {
		p.asked, p.wrapper = true, len(all) > 1
		if p.Parent || len(nodes) == 0 || slices.ContainsFunc(nodes, func(m treeProcess) bool { return m.pid == p.pid }) {
			_ = p.send(syscall.SIGTERM)
		} else {
			for _, m := range nodes {
				_ = syscall.Kill(m.pid, syscall.SIGTERM)
			}
			go p.stopLauncher(nodes)
		}
		_ = p.sendAll(syscall.SIGCONT)
	}
	p.mu.Unlock()
	sent()
}

func (p *Process) stopLauncher(nodes []treeProcess) {
	ended := func() bool {
		return !slices.ContainsFunc(processTree(p.pid, p.mark), func(m treeProcess) bool {
			return slices.ContainsFunc(nodes, func(n treeProcess) bool { return n.pid == m.pid })
		})
	}
	tick := time.NewTicker(launcherWithin)
	defer tick.Stop()
	for before := false; ; before = ended() {
		select {
		case <-p.exited:
			return
		case <-tick.C:
		}
		if before {
			_ = p.Signal(syscall.SIGTERM)
			return
		}
	}
}

// End returns when the last process ended, and the exit code; -1: by a signal.
func (p *Process) End() (time.Time, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.when, p.code
}

// Ended is closed once all processes have ended.
func (p *Process) Ended() <-chan struct{} { return p.exited }

// Freeze stops all processes and waits until they are stopped, because a running one may start another. The group comes first, so that a
// launcher does not see a stopped child.
func (p *Process) Freeze() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return errGone
	}
	_ = p.send(syscall.SIGSTOP)
	sent := map[int]bool{}
	for deadline := time.Now().Add(controlWithin); ; time.Sleep(treeTick) {
		awake := slices.DeleteFunc(processTree(p.pid, p.mark), func(m treeProcess) bool {
			return m.stopped || m.blocked && sent[m.pid] // such as the parent of a vfork
		})
		if len(awake) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%w: process %d, which %q started, does not stop after SIGSTOP: it may run as another user",
				host.ErrNoVerdict, awake[0].pid, p.cmd.Args)
		}
		for _, m := range awake {
			sent[m.pid] = syscall.Kill(m.pid, syscall.SIGSTOP) == nil
		}
	}
}

// Thaw continues all processes.
func (p *Process) Thaw() error { return p.signalAll(syscall.SIGCONT) }

// Signal signals only the child, because the signal would kill the child's
// descendants.
func (p *Process) Signal(sig syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gone {
		return errGone
	}
	return syscall.Kill(p.pid, sig)
}

// ID returns the process ID of the child.
func (p *Process) ID() int { return p.pid }

// Begun returns when the child was started.
func (p *Process) Begun() time.Time { return p.start }

// Program is a started process or container. Its methods are safe for concurrent use.
type Program interface {
	Begun() time.Time // just before it could act
	ID() int          // process ID on this machine; 0: unknown
	Ended() <-chan struct{}
	End() (when time.Time, code int) // only valid once Ended is closed
	Kill()                           // ends it like a crash and waits for its end
	Stop(begin, sent func())         // sends SIGTERM between begin and sent, and thaws it; does not wait
	Freeze() error
	Thaw() error
	Signal(syscall.Signal) error // errGone after the end of a process
}

// InterruptGrace is how long a program may take for a clean stop in an interrupted run, which must end within 3 s.
const InterruptGrace = time.Second

// Terminate stops a program (see Program.Stop) and kills it after grace, or within InterruptGrace once hurry is closed. It reports
// whether it killed the program.
func Terminate(p Program, begin, sent func(), grace time.Duration, hurry <-chan struct{}) (killed bool) {
	p.Stop(begin, sent)
	t := time.NewTimer(grace)
	defer t.Stop()
	for {
		select {
		case <-p.Ended():
			return false
		case <-hurry:
			hurry = nil
			t.Reset(min(grace, InterruptGrace))
		case <-t.C:
			p.Kill()
			return true
		}
	}
}
