package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/sim/real/host"
)

// listener is the listener of a proxy. It keeps its port until remove, even while shut. Its methods are safe for concurrent use.
type listener struct {
	listener *net.TCPListener
	upstream string // host:port, or the path of a socket
	join     func(client, upstream *conn)
	short    func(error) // gets an host.ErrNoVerdict when files, ports or Redis's connections run out; must not block

	mu     sync.Mutex
	conns  map[*conn]struct{}
	shut   bool
	reopen chan struct{} // closed while the listener is open
	done   chan struct{}
}

type conn struct {
	net.Conn
	listener *listener
	silent   bool // an upstream that has sent nothing yet; used by one reader
}

const acceptAgain = 5 * time.Millisecond

func listen(addr, upstream string, join func(client, upstream *conn), short func(error)) (*listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, err
	}
	g := &listener{
		listener: l.(*net.TCPListener), upstream: upstream, join: join, short: short,
		conns: map[*conn]struct{}{}, reopen: make(chan struct{}), done: make(chan struct{}),
	}
	close(g.reopen)
	go g.serve()
	return g, nil
}

func (g *listener) serve() {
	defer close(g.done)
	for {
		c, err := g.listener.AcceptTCP()
		switch {
		case err == nil:
			if e := g.admit(c); e != nil {
				go g.connect(e)
			}
		case errors.Is(err, net.ErrClosed):
			return
		default:
			host.TellExhausted(err, g.short)
			<-g.opened() // while the listener is shut, every accept fails
			time.Sleep(acceptAgain)
		}
	}
}

func (g *listener) opened() chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.reopen
}

func (g *listener) admit(c net.Conn) *conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		host.Reset(c)
		return nil
	}
	e := &conn{Conn: c, listener: g}
	g.conns[e] = struct{}{}
	return e
}

func (g *listener) connect(client *conn) {
	host.Abrupt(client.Conn) // end with a reset: the peer sees it at once, and no closing socket occupies the port
	c, err := net.Dial(host.NetworkOf(g.upstream), g.upstream)
	if err != nil {
		host.TellExhausted(err, g.short)
		_ = client.Close()
		return
	}
	upstream := g.admit(c)
	if upstream == nil {
		_ = client.Close()
		return
	}
	host.Abrupt(upstream.Conn)
	upstream.silent = true
	g.join(client, upstream)
}

// Read implements net.Conn. It reports a Redis that has no room for this connection: its first bytes are then an error.
func (e *conn) Read(p []byte) (int, error) {
	n, err := e.Conn.Read(p)
	if e.silent && n > 0 {
		e.silent = false
		if bytes.HasPrefix(p[:n], []byte(noRoom)) {
			e.listener.short(fmt.Errorf("%w: Redis has no room for more connections (%s): raise its maxclients, or look who connects to "+
				"the ports of the proxies (ss -tnp)", host.ErrNoVerdict, noRoom[len("-"):]))
		}
	}
	return n, err
}

const noRoom = "-ERR max number of clients reached"

// Close implements net.Conn.
func (e *conn) Close() error {
	e.listener.mu.Lock()
	delete(e.listener.conns, e)
	e.listener.mu.Unlock()
	return e.Conn.Close()
}

// close shuts the listener: it resets all connections and refuses new ones.
func (g *listener) close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return nil
	}
	g.shut, g.reopen = true, make(chan struct{})
	for e := range g.conns {
		host.Reset(e.Conn)
	}
	clear(g.conns)
	return g.listening(refuse)
}

func (g *listener) open() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		return nil
	}
	if err := g.listening(listenAgain); err != nil {
		return err // still shut: the next open retries
	}
	g.shut = false
	close(g.reopen)
	return nil
}

func (g *listener) listening(f func(fd int) error) error {
	raw, err := g.listener.SyscallConn()
	if err != nil {
		return err
	}
	if failed := raw.Control(func(fd uintptr) { err = f(int(fd)) }); failed != nil {
		return failed
	}
	return err
}

// remove closes the listener for good and releases its port.
func (g *listener) remove() {
	_, _ = g.close(), g.listener.Close()
	close(g.opened())
	<-g.done
}
