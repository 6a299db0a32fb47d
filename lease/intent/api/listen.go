package api

import (
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Defaults of Limits.
const (
	ConnsDefault     = 1024
	PeerConnsDefault = 256
)

// Limits bound the connections that a listener hands to its server. What is refused is closed as soon as it is accepted: it costs no
// goroutine and, but for that instant, no file descriptor. Fewer than 1 of Conns or PeerConns is no limit.
type Limits struct {
	// Conns is how many connections there may be at once, PeerConns how many of one address.
	Conns, PeerConns int
	// Allowed are the networks that connections may come from; nil: any.
	Allowed []netip.Prefix
	// Proxies are peers that stand for many: PeerConns is not theirs, and they are allowed.
	Proxies []netip.Prefix
	// Logger is told of refused connections, once a minute at most.
	Logger *zap.Logger

	_ struct{}
}

// Listener returns l with the handler's limits: what may not ask anything is refused when it connects.
func (h *Handler) Listener(l net.Listener) net.Listener {
	c := &h.cfg
	return LimitListener(l, Limits{
		Conns: c.Conns, PeerConns: c.PeerConns, Allowed: c.AllowedNets, Proxies: c.TrustedProxies, Logger: c.Logger,
	})
}

// LimitListener returns l with limits.
func LimitListener(l net.Listener, limits Limits) net.Listener {
	if limits.Logger == nil {
		limits.Logger = zap.NewNop()
	}
	return &limited{Listener: l, limits: limits, refused: told{every: time.Minute}, peers: map[netip.Addr]int{}}
}

type limited struct {
	net.Listener
	limits  Limits
	refused told

	mu    sync.Mutex
	open  int
	peers map[netip.Addr]int // connections of each; none is 0
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
		if why == "" {
			return &counted{Conn: c, leave: sync.OnceFunc(func() { l.leave(peer) })}, nil
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
	switch {
	case l.limits.Conns > 0 && l.open >= l.limits.Conns:
		return "there are as many as are allowed"
	case l.limits.PeerConns > 0 && !proxy && l.peers[peer] >= l.limits.PeerConns:
		return "there are as many of this peer as are allowed"
	}
	l.open++
	l.peers[peer]++
	return ""
}

func (l *limited) leave(peer netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.peers[peer]--; l.peers[peer] == 0 {
		delete(l.peers, peer)
	}
}

// counted is a connection that is given back when it is closed.
type counted struct {
	net.Conn
	leave func()
}

func (c *counted) Close() error {
	err := c.Conn.Close()
	c.leave()
	return err
}

// CloseWrite lets net/http end an answer to a request that it has not read to its end.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// strangerTimeout is how long a request may take to arrive. Who has shown a token has Config.BodyTimeout for the body. Together with
// the half second that net/http waits before it closes, a connection without a token is gone within 5 s.
const strangerTimeout = 4 * time.Second

// NewServer returns a server for h with limits against clients that are slow or never end. Its listener is Handler.Listener's.
func NewServer(addr string, h http.Handler) *http.Server {
	return &http.Server{
		Addr: addr, Handler: h,
		ReadHeaderTimeout: strangerTimeout, ReadTimeout: strangerTimeout, WriteTimeout: 15 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		DisableGeneralOptionsHandler: true, // it would answer strangers from anywhere, and keep their connections
	}
}

// closes is the header Connection of an answer to somebody who has not shown a token: the connection is not kept for him.
var closes = []string{"close"}
