package real

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/sim/real/host"
)

// gate is the listener of a line. It keeps its port until remove, even while shut. Its methods are safe for concurrent use.
type gate struct {
	listener *net.TCPListener
	upstream string // host:port, or the path of a socket
	join     func(client, upstream *entered)
	short    func(error) // gets an host.ErrNoVerdict when files, ports or Redis's connections run out; must not block

	mu     sync.Mutex
	inside map[*entered]struct{}
	shut   bool
	reopen chan struct{} // closed while the gate is open
	done   chan struct{}
}

type entered struct {
	net.Conn
	gate *gate
	mute bool // an upstream that has sent nothing yet; used by one reader
}

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
			host.TellExhausted(err, g.short)
			<-g.opened() // while the gate is shut, every accept fails
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
		host.Reset(c)
		return nil
	}
	e := &entered{Conn: c, gate: g}
	g.inside[e] = struct{}{}
	return e
}

func (g *gate) lead(client *entered) {
	host.Abrupt(client.Conn) // end with a reset: the peer sees it at once, and no closing socket occupies the port
	c, err := net.Dial(host.NetworkOf(g.upstream), g.upstream)
	if err != nil {
		host.TellExhausted(err, g.short)
		_ = client.Close()
		return
	}
	upstream := g.enter(c)
	if upstream == nil {
		_ = client.Close()
		return
	}
	host.Abrupt(upstream.Conn)
	upstream.mute = true
	g.join(client, upstream)
}

// Read implements net.Conn. It reports a Redis that has no room for this connection: its first bytes are then an error.
func (e *entered) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if e.mute && n > 0 {
		e.mute = false
		if bytes.HasPrefix(p[:n], []byte(noRoom)) {
			e.gate.short(fmt.Errorf("%w: Redis has no room for more connections (%s): raise its maxclients, or look who connects to "+
				"the ports of the proxies (ss -tnp)", host.ErrNoVerdict, noRoom[len("-"):]))
		}
	}
	return n, err
}

const noRoom = "-ERR max number of clients reached"

// Close implements net.Conn.
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
		host.Reset(e.Conn)
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
		return err // still shut: the next open retries
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

// remove closes the gate for good and releases its port.
func (g *gate) remove() {
	_, _ = g.close(), g.listener.Close()
	close(g.opened())
	<-g.done
}
