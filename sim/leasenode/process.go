//go:build !wasip1

package leasenode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const endWithin = time.Second

// startAdapter starts the program in a process group of its own. SIGTERM to the node's group does not reach it, while on Linux the
// simulator freezes and kills all descendants of a node. On other systems, a freeze misses the adapter.
func startAdapter(argv []string, lost func(key string), wrong func(text string)) (*adapter, error) {
	if len(argv) == 0 {
		return nil, errors.New("the lease command names no program")
	}
	a := &adapter{name: strings.Join(argv, " "), lost: lost, wrong: wrong, ended: make(chan struct{})}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "LEASESTORM_INSTANCE="+instance()), os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, outIn, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	a.in, cmd.Stdout = in, outIn
	err = cmd.Start()
	_ = outIn.Close()
	if err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("adapter %s does not start: %w", a.name, err)
	}
	a.pid = cmd.Process.Pid
	go a.attend(cmd, out)
	return a, nil
}

// attend reads the adapter's output until it ends. Processes that the adapter has started, and left behind, end with it.
func (a *adapter) attend(cmd *exec.Cmd, out *os.File) {
	read := make(chan struct{})
	go func() {
		defer close(read)
		a.read(out)
	}()
	err := cmd.Wait()
	_ = syscall.Kill(-a.pid, syscall.SIGKILL)
	select {
	case <-read:
	case <-time.After(endWithin): // a descendant in another group holds the pipe open
	}
	_ = out.Close()
	<-read
	state := "exit code 0"
	if err != nil {
		state = err.Error()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = fmt.Errorf("adapter %s, %s: it ended with %s", a.name, a.asked(), state)
	close(a.ended)
}

// stop closes the adapter's input, at which it should end, and kills it if it does not.
func (a *adapter) stop() {
	_ = a.in.Close()
	select {
	case <-a.ended:
		return
	case <-time.After(endWithin):
	}
	a.wrong(fmt.Sprintf("adapter %s, no session: it ran on for %v after its standard input was closed, and was killed", a.name, endWithin))
	_ = syscall.Kill(-a.pid, syscall.SIGKILL)
	<-a.ended
}

// freeze stops the adapter and this process, until the simulator continues them.
func (a *adapter) freeze() {
	_ = syscall.Kill(-a.pid, syscall.SIGSTOP)
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

// onPause calls f at each signal to pause, until stop is called.
func onPause(f func()) (stop func()) {
	pauses := make(chan os.Signal, 1)
	signal.Notify(pauses, syscall.SIGUSR1)
	go func() {
		for range pauses {
			f()
		}
	}()
	return func() { signal.Stop(pauses) }
}
