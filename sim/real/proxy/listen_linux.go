package proxy

import "golang.org/x/sys/unix"

// refuse makes a listening socket refuse connections; it stays bound. listenAgain undoes this.
func refuse(fd int) error      { return unix.Shutdown(fd, unix.SHUT_RD) }
func listenAgain(fd int) error { return unix.Listen(fd, unix.SOMAXCONN) }
