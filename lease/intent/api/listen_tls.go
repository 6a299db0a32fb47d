package api

import (
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/leasestorm/leasestorm/internal/headerlines"
)

// secured returns c, or TLS over it with a count of the headers inside.
func (l *limited) secured(c *counted) net.Conn {
	if l.limits.TLS == nil {
		return c
	}
	greets := &greeting{Conn: c, left: greetingMax}
	greets.asks(l.limits.TLS)
	conn := tls.Server(greets, l.limits.TLS)
	return &encrypted{Conn: headerlines.New(conn), conn: conn, greets: greets}
}

// encrypted is a connection of TLS.
type encrypted struct {
	*headerlines.Conn
	conn   *tls.Conn
	greets *greeting
}

// handshakes is told of those that fail.
var handshakes = newErrorLog()

// ConnectionState is what net/http asks for first, and tells the handler. An error of the handshake is what is read next.
func (e *encrypted) ConnectionState() tls.ConnectionState {
	_ = e.conn.SetDeadline(time.Now().Add(strangerTimeout))
	if err := e.conn.Handshake(); err != nil {
		handshakes.Printf("http: TLS handshake error from %s: %v", e.conn.RemoteAddr(), err) // net/http says it of its own alone
	}
	_ = e.conn.SetDeadline(time.Time{})
	e.greets.left = -1
	return e.conn.ConnectionState()
}

// Read implements net.Conn, also where whoever serves it knows nothing of ConnectionState, as behind a listener of the caller's own.
func (e *encrypted) Read(p []byte) (int, error) {
	if e.greets.left >= 0 {
		if err := e.conn.Handshake(); err != nil {
			return 0, err
		}
		e.greets.left = -1
	}
	return e.Conn.Read(p)
}

// http1 is c for HTTP/1.1 alone, also where it chooses another for a client.
func http1(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.NextProtos = []string{"http/1.1"}
	if choose := c.GetConfigForClient; choose != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if chosen == nil || err != nil {
				return chosen, err
			}
			chosen = chosen.Clone()
			chosen.NextProtos = c.NextProtos
			if g, ok := hello.Conn.(*greeting); ok {
				g.asks(chosen)
			}
			return chosen, nil
		}
	}
	return c
}

// What a client may send before a handshake is over, in bytes: its greeting, of which honest ones have two thousand, and its certificates
// where they are asked for. crypto/tls takes 64 KiB of each, and keeps ten times that of a greeting that names many protocols until the
// client answers.
const (
	greetingMax     = 4 << 10
	certificatesMax = 16 << 10
)

// greeting is a connection whose handshake is bounded.
type greeting struct {
	net.Conn
	left int // bytes; -1: no bound

	asked bool // for certificates
}

// asks has room for the client's certificates where c asks for them.
func (g *greeting) asks(c *tls.Config) {
	if c.ClientAuth != tls.NoClientCert && !g.asked {
		g.asked = true
		g.left += certificatesMax
	}
}

var errGreeting = errors.New("the handshake of TLS has more bytes than any honest client sends")

func (g *greeting) Read(p []byte) (int, error) {
	if g.left < 0 {
		return g.Conn.Read(p)
	}
	if g.left == 0 {
		return 0, errGreeting
	}
	n, err := g.Conn.Read(p[:min(len(p), g.left)])
	g.left -= n
	return n, err
}

// NetConn is the connection that is read.
func (g *greeting) NetConn() net.Conn { return g.Conn }
