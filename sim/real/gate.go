package real

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"
)

// gate is the listener of a line. It keeps its port until its end, also while shut. Its methods are safe for concurrent use.
type gate struct {
	listener *net.TCPListener
	upstream string // host:port
	join     func(client, upstream *entered)
	short    func(error) // hears that the harness has run out of files; must not block

	mu     sync.Mutex
	inside map[*entered]struct{}
	shut   bool
	reopen chan struct{} // closed when the gate is not shut any more
	done   chan struct{} // closed when nobody is let in any more
}

type entered struct {
	net.Conn
	gate *gate
	mute bool // of upstream, which has said nothing yet; one goroutine reads
}

// acceptAgain is how long a gate that cannot accept waits.
const acceptAgain = 5 * time.Millisecond

func newGate(addr, upstream string, join func(client, upstream *entered), short func(error)) (*gate, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	g := &gate{
		listener: l.(*net.TCPListener), upstream: upstream, join: join, short: short,
		inside: map[*entered]struct{}{}, reopen: make(chan struct{}), done: make(chan struct{}),
	}
	close(g.reopen)
	go g.serve()
	return g, nil
}

func (g *gate) serve() {
	defer close(g.done)
	for {
		c, err := g.listener.AcceptTCP()
		switch {
		case err == nil:
			if e := g.enter(c); e != nil {
				go g.lead(e)
			}
		case errors.Is(err, net.ErrClosed):
			return
		default:
			tellExhausted(err, g.short)
			<-g.opened() // of a gate that is shut every accept fails
			time.Sleep(acceptAgain)
		}
	}
}

func (g *gate) opened() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reopen
}

func (g *gate) enter(c net.Conn) *entered {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		reset(c)
		return nil
	}
	e := &entered{Conn: c, gate: g}
	g.inside[e] = struct{}{}
	return e
}

func (g *gate) lead(client *entered) {
	abrupt(client.Conn) // what ends one of them is a reset for the other, and nothing of it is left at the port, which would keep it shut
	c, err := net.Dial(networkOf(g.upstream), g.upstream)
	if err != nil {
		tellExhausted(err, g.short)
		_ = client.Close()
		return
	}
	upstream := g.enter(c)
	if upstream == nil {
		_ = client.Close()
		return
	}
	abrupt(upstream.Conn)
	upstream.mute = true
	g.join(client, upstream)
}

// networkOf is the network of an address, which is a path for a Redis in a container.
func networkOf(addr string) string {
	if filepath.IsAbs(addr) {
		return "unix"
	}
	return "tcp"
}

// abrupt makes a connection end with a reset, like a cut cable.
func abrupt(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

func reset(c net.Conn) {
	abrupt(c)
	_ = c.Close()
}

// Read implements net.Conn. A Redis out of connections sends an error and nothing else.
func (e *entered) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if e.mute && n > 0 {
		e.mute = false
		if bytes.HasPrefix(p[:n], []byte(noRoom)) {
			e.gate.short(fmt.Errorf("%w: Redis has no room for more connections (%s): raise its maxclients, or look who connects to "+
				"the ports of the proxies (ss -tnp)", ErrStarved, noRoom[len("-"):]))
		}
	}
	return n, err
}

const noRoom = "-ERR max number of clients reached"

// Close ends a connection and removes it from the gate.
func (e *entered) Close() error {
	e.gate.mu.Lock()
	delete(e.gate.inside, e)
	e.gate.mu.Unlock()
	return e.Conn.Close()
}

// close shuts the gate: it resets all connections and refuses new ones.
func (g *gate) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil
	}
	g.shut, g.reopen = true, make(chan struct{})
	for e := range g.inside {
		reset(e.Conn)
	}
	clear(g.inside)
	return g.listening(deaf)
}

func (g *gate) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		return nil
	}
	if err := g.listening(hearing); err != nil {
		return err // and the next to open it tries again
	}
	g.shut = false
	close(g.reopen)
	return nil
}

func (g *gate) listening(f func(fd int) error) error {
	raw, err := g.listener.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = f(int(fd)) }); failed != nil {
		return failed
	}
	return err
}

// remove closes a gate for good and releases its port.
func (g *gate) remove() {
	_, _ = g.close(), g.listener.Close()
	close(g.opened())
	<-g.done
}
