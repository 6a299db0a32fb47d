package real

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic reads CLOCK_MONOTONIC in ns.
func monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// awaitExit returns when the child has ended and leaves it unreaped, so that its group ID cannot be given to another.
func awaitExit(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return
		}
	}
}

// groupLives reports whether anybody but its leader lives in a process group. Who has ended and was not reaped does not: when
// its parent is gone, that is for a process to do that may never.
func groupLives(leader int) bool {
	proc, err := os.Open("/proc")
	if err != nil {
		return false
	}
	defer func() { _ = proc.Close() }()
	names, _ := proc.Readdirnames(-1)
	return slices.ContainsFunc(names, func(name string) bool {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == leader {
			return false
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			return false
		}
		f := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // state, parent, group; the name before may hold anything
		return len(f) > 2 && f[2] == strconv.Itoa(leader) && f[0] != "Z" && f[0] != "X"
	})
}

// runDelay is for how long a process' first thread, which is all of Redis that serves, was ready to run and waited for a core.
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
