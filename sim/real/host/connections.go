package host

import (
	"net"
	"path/filepath"
)

// NetworkOf returns "unix" if addr is a path, as of a Redis in a container, and otherwise "tcp".
func NetworkOf(addr string) string {
	if filepath.IsAbs(addr) {
		return "unix"
	}
	return "tcp"
}

// Abrupt makes the end of a connection a reset.
func Abrupt(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// Reset ends a connection with a reset.
func Reset(c net.Conn) {
	Abrupt(c)
	_ = c.Close()
}
