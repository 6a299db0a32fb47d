package api

import (
	"bytes"
	"container/list"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/headerlines"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
)

// ConnsDefault is how many connections an API has at once, if nothing else is configured.
const ConnsDefault = 1024

// PeerConnsDefault is how many of conns connections one address may have, if nothing else is configured: a quarter, also of
// ConnsDefault where conns, below 1, is no limit.
func PeerConnsDefault(conns int) int {
	if conns < 1 {
		conns = ConnsDefault
	}
	return max(1, conns/4)
}

// Limits bound the connections that a listener hands to its server. What is refused is closed as soon as it is accepted: it costs no
// goroutine and, but for that instant, no file descriptor. Fewer than 1 of Conns or PeerConns is no limit.
type Limits struct {
	// Conns is how many connections there may be at once, PeerConns how many of one IPv4 address or one /64 of IPv6, all of which one
	// host may have. Where there are as many, the oldest (of that host) that has shown no token makes room, if there is one and its server
	// is NewServer's; and of those that have shown the same token only half of PeerConns do not, but for those of Proxies.
	Conns, PeerConns int
	// Allowed are the networks that connections may come from; nil: any.
	Allowed []netip.Prefix
	// Proxies are peers that stand for many: PeerConns is not theirs, and they are allowed.
	Proxies []netip.Prefix
	// TLS, if not nil, has the connections be of TLS, with HTTP/1.1 inside. A server of NewServer serves them by Serve.
	TLS *tls.Config
	// Logger is told of refused connections, once a minute at most.
	Logger *zap.Logger

	_ struct{}
}

// Listener returns l with the handler's limits: what may not ask anything is refused when it connects.
func (h *Handler) Listener(l net.Listener) net.Listener {
	c := &h.cfg
	return LimitListener(l, Limits{
		Conns: c.Conns, PeerConns: c.PeerConns, Allowed: c.AllowedNets, Proxies: c.TrustedProxies, TLS: c.TLS, Logger: c.Logger,
	})
}

// LimitListener returns l with limits.
func LimitListener(l net.Listener, limits Limits) net.Listener {
	if limits.Logger == nil {
		limits.Logger = zap.NewNop()
	}
	limits.Logger = zaplog.NewLog(limits.Logger, "").Logger // no connection waits for it
	if limits.TLS != nil {
		limits.TLS = http1(limits.TLS)
	}
	return &limited{Listener: l, limits: limits, refused: told{every: time.Minute}, peers: map[netip.Addr]int{}, strangers: list.New(),
		tokens: map[[32]byte]int{}}
}

type limited struct {
	net.Listener
	limits  Limits
	refused told

	mu    sync.Mutex
	open  int
	peers map[netip.Addr]int // connections of each; none is 0
	// strangers are the connections (*counted) that a server of NewServer has and that have shown no token, or one that too many have
	// shown, the oldest first.
	strangers *list.List
	tokens    map[[32]byte]int // connections that make no room for it, by their token's hash; none is 0
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		var peer netip.Addr
		if ap, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
			peer = plain(ap.Addr())
		}
		why := l.enter(peer)
		if why == full && l.evict(nil) || why == peerFull && l.evict(new(host(peer))) {
			why = l.enter(peer)
		}
		if why == "" {
			return l.secured(&counted{Conn: headerlines.New(c), of: l, peer: peer}), nil
		}
		c.Close()
		if more, now := l.refused.due(time.Now()); now {
			l.limits.Logger.Warn("connection refused", zap.String("why", why), zap.Stringer("peer", peer), zap.Int("sinceLast", more))
		}
	}
}

// enter counts a connection, or says why there may not be one.
func (l *limited) enter(peer netip.Addr) (why string) {
	proxy := within(peer, l.limits.Proxies)
	if l.limits.Allowed != nil && !proxy && !within(peer, l.limits.Allowed) {
		return "connections from there are not allowed"
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := host(peer)
	switch {
	case l.limits.PeerConns > 0 && !proxy && l.peers[at] >= l.limits.PeerConns:
		return peerFull
	case l.limits.Conns > 0 && l.open >= l.limits.Conns:
		return full
	}
	l.open++
	l.peers[at]++
	return ""
}

// Why there may not be one more.
const (
	full     = "there are as many as are allowed"
	peerFull = "there are as many of this peer as are allowed"
)

// host is what one host has for sure: an IPv4 address, or a /64 of IPv6.
func host(a netip.Addr) netip.Addr {
	const network = 64
	if p, err := a.Prefix(network); err == nil && a.Is6() {
		return p.Addr()
	}
	return a
}

// evict closes the oldest connection that has shown no token, of one host if of is not nil, and reports whether there was one. Who opens
// connections and says nothing keeps nobody out who has the same address, as another user of the machine, or all behind one router.
func (l *limited) evict(of *netip.Addr) bool {
	l.mu.Lock()
	oldest := l.strangers.Front()
	for oldest != nil && of != nil && host(oldest.Value.(*counted).peer) != *of {
		oldest = oldest.Next()
	}
	l.mu.Unlock()
	if oldest == nil {
		return false
	}
	oldest.Value.(*counted).Close()
	return true
}

// counted is a connection that is given back when it is closed.
type counted struct {
	*headerlines.Conn
	of   *limited
	peer netip.Addr

	// of.mu is held.
	stranger *list.Element // in of.strangers; nil: in none
	token    *[32]byte     // by which it makes no room; nil: none
	silence  *time.Timer   // closes it, if it is of TLS and shows no token; nil: none
	left     bool
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.left {
		return err
	}
	c.left = true
	c.known()
	c.heard()
	if c.token != nil {
		if c.of.tokens[*c.token]--; c.of.tokens[*c.token] == 0 {
			delete(c.of.tokens, *c.token)
		}
	}
	c.of.open--
	at := host(c.peer)
	if c.of.peers[at]--; c.of.peers[at] == 0 {
		delete(c.of.peers, at)
	}
	return err
}

// known has the connection make no room any more. of.mu is held.
func (c *counted) known() {
	if c.stranger != nil {
		c.of.strangers.Remove(c.stranger)
		c.stranger = nil
	}
}

// heard has the connection not be closed for its silence. of.mu is held.
func (c *counted) heard() {
	if c.silence != nil {
		c.silence.Stop()
	}
}

// connKey is the key under which the context of a request has its connection.
type connKey struct{}

// begun is a server's ConnContext.
func begun(ctx context.Context, conn net.Conn) context.Context {
	_, secret := conn.(*encrypted)
	if unread, ok := conn.(*tls.Conn); ok { // of ServeTLS, where nobody counts what is inside
		_ = unread.NetConn().Close()
		serveTLS.Print("a connection of ServeTLS is closed: Config.TLS is for that, with Serve")
		return ctx
	}
	c, ok := conn.(*counted)
	for !ok {
		inner, more := conn.(interface{ NetConn() net.Conn })
		if !more {
			return ctx
		}
		conn = inner.NetConn()
		c, ok = conn.(*counted)
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if !c.left {
		c.stranger = c.of.strangers.PushBack(c)
		if secret { // besides the header its client has the handshake to be slow with
			c.silence = time.AfterFunc(strangerTimeout+time.Second/2, func() { _ = c.Close() })
		}
	}
	return context.WithValue(ctx, connKey{}, c)
}

// showed notes that a token was shown on a request's connection. One token keeps half as many connections as one address may have: who
// has that address, or many, as any user of a machine has at its loopback, could keep out all others with it.
func showed(ctx context.Context, token *Token) {
	c, ok := ctx.Value(connKey{}).(*counted)
	if !ok {
		return
	}
	l := c.of
	l.mu.Lock()
	defer l.mu.Unlock()
	c.heard()
	switch {
	case c.left || c.stranger == nil:
	case within(c.peer, l.limits.Proxies):
		c.known()
	case l.limits.PeerConns < 1 || l.tokens[token.SHA256] < (l.limits.PeerConns+1)/2:
		c.known()
		c.token = &token.SHA256
		l.tokens[token.SHA256]++
	}
}

// strangerTimeout is how long a request may take to arrive. Who has shown a token has Config.BodyTimeout for the body. Together with
// the half second that net/http waits before it closes, a connection without a token is gone within 5 s.
const strangerTimeout = 4 * time.Second

// NewServer returns a server for h with limits against clients that are slow or never end. A body in chunks, as HTTP/1.1 sends whose
// length is not known, is refused (411). Its listener is Handler.Listener's, which ends TLS where Config.TLS is set; by ServeTLS it serves
// nobody, for what is read of a header there cannot be counted. What sets its ConnState or ConnContext calls those it has.
func NewServer(addr string, h http.Handler) *http.Server {
	return headerlines.Server(&http.Server{
		Addr: addr, Handler: sized{h},
		ReadHeaderTimeout: strangerTimeout, ReadTimeout: strangerTimeout, WriteTimeout: 15 * time.Second, IdleTimeout: time.Minute,
		ConnContext: begun, ErrorLog: newErrorLog(),
	})
}

func newErrorLog() *log.Logger { return log.New(&errorLog{told: told{every: time.Minute}}, "", 0) }

// serveTLS is told of connections that are closed as they are ServeTLS'.
var serveTLS = newErrorLog()

// sized takes bodies of a known length only. Behind one that comes in chunks there may be a trailer, of which net/http keeps 100 KB of 4,
// also where nobody reads the body: such a request is answered, and its connection closed, without its body being parsed. What is under way
// is taken off the connection, or the client would meet a reset in place of the answer.
type sized struct{ next http.Handler }

// unsized is the answer: net/http's own ways to answer read the body first.
var unsized = func() string {
	body, _ := json.Marshal(refused(http.StatusLengthRequired, "length", "send Content-Length: a body in chunks is not read"))
	return fmt.Sprintf("HTTP/1.1 411 Length Required\r\nConnection: close\r\nContent-Type: application/problem+json\r\n"+
		"Content-Length: %d\r\n\r\n%s", len(body), body)
}()

func (s sized) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(r.TransferEncoding) == 0 {
		s.next.ServeHTTP(w, r)
		return
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	_, _ = io.WriteString(conn, unsized)
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, conn, 256<<10) // as net/http does
	}
	_ = conn.Close()
}

// errorLog says what a server complains of, as net/http would have it said, but once a minute at most: strangers cause it, by what is no
// TLS for instance. A panic of a handler is said each time.
type errorLog struct{ told told }

// Write implements io.Writer.
func (e *errorLog) Write(line []byte) (int, error) {
	more, now := e.told.due(time.Now())
	switch {
	case now && more > 0:
		log.Printf("%s (%d more since the last line)", bytes.TrimSpace(line), more)
	case now || bytes.Contains(line, []byte("panic serving")):
		log.Printf("%s", line)
	}
	return len(line), nil
}

// closes is the header Connection of an answer to somebody who has not shown a token: the connection is not kept for him.
var closes = []string{"close"}
