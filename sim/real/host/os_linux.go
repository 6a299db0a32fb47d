package host

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Monotonic reads CLOCK_MONOTONIC; 0: it cannot be read.
func Monotonic() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// RunDelay returns how long a process's first thread waited for a core although it was ready to run. In Redis only this thread serves.
func RunDelay(pid string) (time.Duration, error) {
	var ran, waited time.Duration
	said, err := os.ReadFile("/proc/" + pid + "/schedstat")
	if err == nil {
		_, err = fmt.Sscan(string(said), &ran, &waited)
	}
	return waited, err
}

// Memory returns a folder in memory with 4 GiB to spare, "" if there is none. Redis waits for an fsync at each full
// synchronization. On a disk that other programs write to, that takes seconds.
func Memory() string {
	const folder = "/dev/shm"
	var s unix.Statfs_t
	if unix.Statfs(folder, &s) != nil || unix.Access(folder, unix.W_OK) != nil || s.Bavail*uint64(s.Bsize) < 4<<30 {
		return ""
	}
	return folder
}
