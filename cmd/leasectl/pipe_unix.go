//go:build unix

package main

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// abandoned reports whether f is a pipe without a reader. While there is nothing to write, no error shows that.
func abandoned(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	for {
		n, err := unix.Poll(fds, 0)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		return err == nil && n > 0 && fds[0].Revents&unix.POLLERR != 0
	}
}
