package real

import "golang.org/x/sys/unix"

// deaf makes a listening socket refuse connections; it stays bound. hearing undoes this.
func deaf(fd int) error    { return unix.Shutdown(fd, unix.SHUT_RD) }
func hearing(fd int) error { return unix.Listen(fd, unix.SOMAXCONN) }
