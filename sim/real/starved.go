package real

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// ErrStarved: the harness has run out of open files, the machine of ports for connections, more connections came to one of its ports than
// any fleet makes, or more was said by nodes, written to Redis and asked of the target than any run of that size has. What nodes did
// without their way to Redis or to the target, or what is not in the history, says nothing about them.
var ErrStarved = errors.New("the harness cannot go on, and no verdict is given")

// outOfFiles tells of an error that is the harness' own want of files, or the machine's of ports.
func outOfFiles(err error, tell func(error)) {
	switch {
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		tell(fmt.Errorf("%w: it has run out of open files: raise the limit (ulimit -n), or look who connects to its ports: %w", ErrStarved, err))
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		tell(fmt.Errorf("%w: this machine has no port left for a connection: look who holds them (ss -an): %w", ErrStarved, err))
	}
}

// portsEvery is how often it is tried whether the machine has a port left: much less than what a guarantee waits for.
const portsEvery = 250 * time.Millisecond

// watchPorts ends the run when there is none. Any user of the machine may take them all, and nodes do not come to their Redis then, past
// everything that the harness sees.
func (r *run) watchPorts(stop <-chan struct{}) { watchPorts(r.target.dial, r.starve, stop) }

func watchPorts(dial func() (net.Conn, error), tell func(error), stop <-chan struct{}) {
	tick := time.NewTicker(portsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-stop:
			return
		}
		c, err := dial()
		if err != nil {
			outOfFiles(err, tell)
			continue
		}
		reset(c)
	}
}

// crowded says that a listener has as many connections as it may.
func crowded(at net.Addr, most int) error {
	return fmt.Errorf("%w: %s has %d connections at once: look who makes them (ss -tnp)", ErrStarved, at, most)
}

// starve ends the run with an error. The first one counts.
func (r *run) starve(err error) {
	select {
	case r.starved <- err:
	default:
	}
}

// bounded is the listener of a target, with what a gate has: a bound, and an alarm when files run out.
type bounded struct {
	net.Listener
	places  chan struct{}
	written time.Duration // how long a write may take
	short   func(error)
}

// writtenMax is far longer than it takes to read an answer: who does not would keep it, and his connection, for good.
const writtenMax = 10 * time.Second

func bound(l net.Listener, short func(error)) net.Listener {
	return bounding(l, entriesMax, writtenMax, short)
}

func bounding(l net.Listener, most int, written time.Duration, short func(error)) net.Listener {
	return &bounded{Listener: l, places: make(chan struct{}, most), written: written, short: short}
}

// Accept implements net.Listener.
func (b *bounded) Accept() (net.Conn, error) {
	for {
		c, err := b.Listener.Accept()
		if err != nil {
			outOfFiles(err, b.short)
			return nil, err
		}
		select {
		case b.places <- struct{}{}:
			return &placed{Conn: c, written: b.written, leave: sync.OnceFunc(func() { <-b.places })}, nil
		default:
			b.short(crowded(b.Addr(), cap(b.places)))
			_ = c.Close()
		}
	}
}

// placed is a connection that gives its place back when it is closed.
type placed struct {
	net.Conn
	written time.Duration
	leave   func()
}

// Write implements net.Conn. A pipeline's answer may last as long as it likes; what is written of it is read at once.
func (p *placed) Write(b []byte) (int, error) {
	if err := p.SetWriteDeadline(time.Now().Add(p.written)); err != nil {
		return 0, err
	}
	return p.Conn.Write(b)
}

func (p *placed) Close() error {
	defer p.leave()
	return p.Conn.Close()
}
