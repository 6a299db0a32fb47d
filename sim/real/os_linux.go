package real

import (
	"fmt"
	"os"
	"os/exec"
	"time"

	"golang.org/x/sys/unix"
)

func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// awaitExit returns when the child has ended. It leaves the child unreaped, so that no other process gets its group ID.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// runDelay is how long a process' first thread, the only one of Redis that serves, was ready to run and waited for a core.
func runDelay(pid string) (time.Duration, error) {
	var ran, waited time.Duration
	said, err := os.ReadFile("/proc/" + pid + "/schedstat")
	if err == nil {
		_, err = fmt.Sscan(string(said), &ran, &waited)
	}
	return waited, err
}

// deaf has a listening socket refuse who comes. It stays bound. hearing takes that back.
func deaf(fd int) error    { return unix.Shutdown(fd, unix.SHUT_RD) }
func hearing(fd int) error { return unix.Listen(fd, unix.SOMAXCONN) }
