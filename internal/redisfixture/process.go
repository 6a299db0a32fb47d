package redisfixture

import (
	"os/exec"
	"runtime"
)

// Launch starts cmd in a process group of its own and calls wait, which must return when cmd has ended. On Linux the
// kernel kills cmd when this process ends.
func Launch(cmd *exec.Cmd, wait func()) error {
	cmd.SysProcAttr = childAttr()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: a parent-death signal is sent when the thread ends that started the child
		err := cmd.Start()
		started <- err
		if err == nil {
			wait()
		}
	}()
	return <-started
}

// Run starts cmd as Launch does, as a program that nothing but Kill ends.
func Run(cmd *exec.Cmd) (Program, error) {
	ended := make(chan struct{})
	err := Launch(cmd, func() {
		_ = cmd.Wait()
		close(ended)
	})
	return Program{Ended: ended, Kill: func() {
		_ = cmd.Process.Kill()
		<-ended
	}}, err
}
