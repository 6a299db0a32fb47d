package redisstore

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// failoverAddr is the address in a failover client's options. That client's Dialer asks the sentinels for the master.
const failoverAddr = "FailoverClient"

// helloChannel is the channel on which the sentinels announce the master, on every server that they watch.
const helloChannel = "__sentinel__:hello"

// helloSilence is how long a server may be silent before a ping. Each sentinel publishes every two seconds.
const helloSilence = 5 * time.Second

// lookMin is the first pause between the dials after a doubt. Pauses double.
const lookMin = 10 * time.Millisecond

var errSwitched = errors.New("connection closed: the sentinels name another master")

// master keeps the connections of a store behind Sentinel at one server. A deposed master that is still alive accepts writes for about
// ten seconds, until Sentinel makes it a replica. go-redis closes only its own client's connections, so master closes the store's.
//
// Every dial asks the sentinels. If a dial leads to another server, master closes all connections to the previous one. It also dials at
// intervals. It dials at once if the sentinels' announcements change or the server has become a replica.
type master struct {
	dial  dialer
	every time.Duration

	ctx     context.Context
	cancel  context.CancelFunc
	doubted chan struct{}
	client  *redis.Client
	mute    mute

	mu    sync.Mutex
	begun uint64 // number of dials so far
	turn  uint64 // number of the latest successful dial
	at    string // its server's address; "" before the first
	conns map[*masterConn]struct{}
}

type masterClient struct {
	*redis.Client

	master *master
}

// Close also stops the client's watcher.
func (c *masterClient) Close() error {
	c.master.cancel()
	return c.Client.Close()
}

func newMasterClient(o *redis.Options, dial dialer, opt *Options) *masterClient {
	m := &master{
		dial: dial, every: opt.Quarantine / 6,
		doubted: make(chan struct{}, 1), conns: map[*masterConn]struct{}{},
	}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	o.Dialer = m.connect
	m.client = redis.NewClient(o)
	m.client.AddHook(unbroken{})
	return &masterClient{m.client, m}
}

func (m *master) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	m.mu.Lock()
	m.begun++
	turn := m.begun
	m.mu.Unlock()
	conn, err := m.reach(ctx, network, addr)
	if err != nil { // nothing was sent, whatever error the sentinels' client returns
		return nil, &net.OpError{Op: "dial", Net: network, Err: err}
	}
	c := &masterConn{Conn: conn, m: m}
	gone, err := m.adopt(c, turn)
	for _, old := range gone {
		_ = old.Close()
	}
	if err != nil {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: conn.RemoteAddr(), Err: err}
	}
	return c, nil
}

// adopt adds a connection, and returns the connections to a master that it shows to be deposed.
func (m *master) adopt(c *masterConn, turn uint64) (gone []*masterConn, err error) {
	at := c.RemoteAddr().String()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.ctx.Err() != nil:
		return nil, redis.ErrClosed
	case at != m.at && turn < m.turn: // a later dial led elsewhere
		return nil, errSwitched
	case m.at == "":
		go m.watch()
		go m.hear()
	case at != m.at:
		for old := range m.conns {
			old.switched.Store(true)
			gone = append(gone, old)
		}
	}
	m.at, m.turn = at, max(m.turn, turn)
	m.conns[c] = struct{}{}
	return gone, nil
}

func (m *master) where() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.at
}

func (m *master) doubt() {
	select {
	case m.doubted <- struct{}{}:
	default:
	}
}

// watch asks the sentinels once per interval. On a doubt it asks at once and a few more times, because sentinels learn of a switch at
// different times. Sentinels that do not answer change nothing.
func (m *master) watch() {
	pause := m.every
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-timer.C:
			pause = min(2*pause, m.every)
		case <-m.doubted:
			if pause < m.every {
				continue
			}
			pause = min(lookMin, m.every)
		}
		if m.look() {
			pause = m.every
		}
		timer.Reset(pause)
	}
}

// look dials once, and reports whether that led to another server. Without a deadline, go-redis replaces a hanging sentinel.
func (m *master) look() bool {
	before := m.where()
	conn, err := m.connect(m.ctx, "tcp", failoverAddr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return m.where() != before
}

// hear subscribes to the sentinels' announcements on the server. If Redis denies that, watch notices a switch at its next dial.
func (m *master) hear() {
	for m.ctx.Err() == nil {
		said := map[string]string{} // each sentinel's last announcement of the master
		err := hear(m.ctx, m.client, helloChannel, helloSilence, func(text string) { m.hello(text, said) }, func() {})
		if Lacks(err) { // other errors, such as LOADING, may be temporary
			return
		}
		pause := time.NewTimer(m.every)
		select {
		case <-m.ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
}

// hello parses a sentinel's message: its address, port, ID and epoch, then the master's name, address, port and epoch.
func (m *master) hello(text string, said map[string]string) {
	words := strings.Split(text, ",")
	if len(words) != 8 {
		return
	}
	now := strings.Join(words[4:], ",")
	if before, known := said[words[2]]; known && before != now {
		m.doubt()
	}
	said[words[2]] = now
}

type masterConn struct {
	net.Conn

	m        *master
	closed   atomic.Bool
	switched atomic.Bool
}

// Close implements net.Conn.
func (c *masterConn) Close() error {
	c.closed.Store(true)
	c.m.mu.Lock()
	delete(c.m.conns, c)
	c.m.mu.Unlock()
	return c.Conn.Close()
}

// Read implements net.Conn. If the master has switched, it returns errSwitched.
func (c *masterConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && c.switched.Load() {
		err = errSwitched
	}
	return n, err
}

// SyscallConn implements syscall.Conn. go-redis' pool checks the socket before it lends a connection. Without a socket, as with TLS, the
// pool lends the connection unless it was closed here.
func (c *masterConn) SyscallConn() (syscall.RawConn, error) {
	if c.closed.Load() {
		return nil, net.ErrClosed
	}
	if socket, ok := c.Conn.(syscall.Conn); ok {
		return socket.SyscallConn()
	}
	return noSocket{}, nil
}

type noSocket struct{}

func (noSocket) Control(func(uintptr)) error    { return nil }
func (noSocket) Read(func(uintptr) bool) error  { return nil }
func (noSocket) Write(func(uintptr) bool) error { return nil }
