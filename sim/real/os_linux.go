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

// awaitExit returns when the child has ended. It does not reap the child, so that no other process gets its group ID.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// runDelay returns how long a process's first thread waited for a core although it was ready to run. In Redis only this thread serves.
func runDelay(pid string) (time.Duration, error) {
	var ran, waited time.Duration
	said, err := os.ReadFile("/proc/" + pid + "/schedstat")
	if err == nil {
		_, err = fmt.Sscan(string(said), &ran, &waited)
	}
	return waited, err
}

// deaf makes a listening socket refuse connections; it stays bound. hearing undoes this.
func deaf(fd int) error    { return unix.Shutdown(fd, unix.SHUT_RD) }
func hearing(fd int) error { return unix.Listen(fd, unix.SOMAXCONN) }

// memory returns a folder in memory with 4 GiB to spare, "" without one. Redis waits for an fsync at each full synchronization. On a disk
// that other programs write to, that takes seconds.
func memory() string {
	const folder = "/dev/shm"
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil || unix.Access(folder, unix.W_OK) != nil || s.Bavail*uint64(s.Bsize) < 4<<30 {
		return ""
	}
	return folder
}
