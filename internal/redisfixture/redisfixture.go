// Package redisfixture starts Redis servers on this machine and forms clusters of them, for storms and tests.
package redisfixture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Log messages of a started server.
const (
	Ready    = "Ready to accept connections"
	Loading  = "Server initialized" // it is loading its data and replies -LOADING
	Watching = "+monitor master"    // of a Sentinel
)

var (
	// ErrMissing means that there is no server program.
	ErrMissing = errors.New("neither redis-server nor valkey-server is in PATH")
	// ErrPortTaken means that the port is in use. Retry with another one.
	ErrPortTaken = errors.New("port taken")
	errNoPort    = errors.New("no free port")
)

// Find returns the path of redis-server or valkey-server, or ErrMissing.
func Find() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

const (
	// Ports lie above well-known services and below the ephemeral range (32768 and up), so that no outgoing connection takes the port of
	// a stopped server or its bus. Servers have their own range, so that nothing else takes it either.
	serverMin = 15_000
	portMin   = 22_000
	portMax   = 32_000
	// BusOffset is the distance from a server's port to that of its cluster bus.
	BusOffset = 10_000
	// portTries suffices: even with ten runs of a hundred nodes, most of the range is free.
	portTries = 200
)

// Loopback is the address on which servers listen, unless they run in containers.
var Loopback = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// Listen calls listen with random addresses of a host while it fails with ErrPortTaken or EADDRINUSE. It returns any other error. It
// leaves out the addresses that Reserve holds, in this program or another.
func Listen(host netip.Addr, listen func(addr string) error) error {
	return among(portMin, portMax, host, listen)
}

func among(from, to int, host netip.Addr, listen func(addr string) error) error {
	var err error
	for range portTries {
		addr := netip.AddrPortFrom(host, uint16(from+rand.IntN(to-from))).String()
		var marker net.PacketConn
		if marker, err = net.ListenPacket("udp", addr); err == nil {
			_ = marker.Close()
			err = listen(addr)
		}
		if !errors.Is(err, ErrPortTaken) && !errors.Is(err, syscall.EADDRINUSE) {
			return err
		}
	}
	return fmt.Errorf("%w between %d and %d at %s: %w", errNoPort, from, to, host, err)
}

// Reserve holds a free TCP address for a server that will listen on it, and again after each restart. The marker is a UDP socket with the
// same number, which keeps Listen away.
func Reserve(host netip.Addr) (addr string, marker io.Closer, err error) {
	err = Listen(host, func(free string) error {
		l, err := net.Listen("tcp", free)
		if err != nil {
			return err
		}
		_ = l.Close()
		addr = free
		marker, err = net.ListenPacket("udp", free)
		return err
	})
	return addr, marker, err
}

// First calls start with free addresses until its server gets the port.
func First(start func(addr string) error) error {
	return among(serverMin, portMin, Loopback, func(addr string) error {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		_ = l.Close()
		return start(addr)
	})
}

// Program is a started server.
type Program struct {
	Ended <-chan struct{}
	Kill  func()
}

// Start launches a server that logs to a file, and waits until the log contains ready. If the server ends first, the error is
// ErrPortTaken or has its last line. If ctx or within ends first, Start kills the server.
func Start(ctx context.Context, logFile, ready string, within time.Duration, launch func(log *os.File) (Program, error)) error {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o644)
	if err != nil {
		return fmt.Errorf("log of redis-server: %w", err)
	}
	defer func() { _ = log.Close() }()
	before, err := log.Seek(0, 2)
	if err != nil {
		return fmt.Errorf("log of redis-server: %w", err)
	}
	p, err := launch(log)
	if err != nil {
		return err
	}
	said := func() []byte {
		text, _ := os.ReadFile(logFile)
		return text[min(int(before), len(text)):]
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !bytes.Contains(said(), []byte(ready)) {
		select {
		case <-tick.C:
		case <-p.Ended:
			return failure(string(said()))
		case <-ctx.Done():
			p.Kill()
			return fmt.Errorf("it is not ready: %w: %s", context.Cause(ctx), lastLine(string(said())))
		}
	}
	return nil
}

func failure(log string) error {
	if strings.Contains(log, "Address already in use") {
		return ErrPortTaken
	}
	return fmt.Errorf("it ended: %s", lastLine(log))
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
