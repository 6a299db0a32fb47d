package redisfixture

import (
	"os/exec"
	"runtime"
)

// Launch starts cmd in its own process group and calls wait, which must return when cmd ends, in another goroutine. On Linux the kernel
// kills cmd when this process ends.
func Launch(cmd *exec.Cmd, wait func()) error {
	cmd.SysProcAttr = childAttr()
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the parent-death signal comes when this thread ends
		err := cmd.Start()
		started <- err
		if err == nil {
			wait()
		}
	}()
	return <-started
}

// Run starts cmd as Launch does. Only Kill ends the program.
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
