// Package headerlines ends HTTP/1 connections whose headers have more lines than any honest client sends. net/http bounds a header by
// its bytes only and keeps about 100 bytes for each of its lines, however short: 16 KiB of "a:" cost half a megabyte while they last.
package headerlines

import (
	"bytes"
	"errors"
	"net"
	"net/http"
)

const (
	// Most is how many lines a header may have. Behind several proxies there are about thirty.
	Most = 128
	// Bytes is for http.Server.MaxHeaderBytes, which reads 4 KiB more than that.
	Bytes = 8 << 10
)

// ErrTooMany is what a read returns then. The server answers 400 and closes the connection.
var ErrTooMany = errors.New("the header has more lines than any honest client sends")

// Conn is a connection whose headers are bounded, if its server's ConnState calls State. What is encrypted has no lines: of TLS it is the
// connection inside.
type Conn struct {
	net.Conn
	within bool // a header is being read
	begun  bool // a line of it that is not empty has been
	lines  int  // of it
	text   bool // the line that has not ended is not empty
	// last are the lines of the last read from the first on that may begin a header: what is no body among them is the next header's
	// beginning, which the server has in its buffer already. All are taken for that.
	last int
}

// New returns a connection that counts.
func New(c net.Conn) *Conn { return &Conn{Conn: c} }

// Listen returns a listener whose connections count.
func Listen(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return New(c), nil
}

// State is for http.Server.ConnState. A header begins where the connection is new or idle: by then net/http has read the body before it.
func State(c net.Conn, s http.ConnState) {
	if counts, ok := c.(interface{ state(http.ConnState) }); ok {
		counts.state(s)
	}
}

func (c *Conn) state(s http.ConnState) {
	c.within, c.begun, c.text = s == http.StateNew || s == http.StateIdle, false, false
	if c.lines = c.last; s == http.StateIdle && c.lines > Most {
		_ = c.Conn.Close() // a header that has come whole is not read again
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	rest := p[:n]
	if c.within {
		if rest = c.header(rest); c.lines > Most {
			return 0, ErrTooMany
		}
	}
	if len(p) > 1 { // else net/http waits for the client's end, past what is in its buffer
		c.last = 0
		if begin := bytes.Index(rest, []byte(" HTTP/")); begin >= 0 {
			c.last = bytes.Count(rest[begin:], []byte("\n"))
		}
	}
	return n, err
}

// header counts the lines of a header, to its end, and returns what is after that. The empty lines before a header, of which net/http
// skips some, end none.
func (c *Conn) header(p []byte) (rest []byte) {
	for i, b := range p {
		if b != '\n' {
			c.text = c.text || b != '\r'
			continue
		}
		c.lines++
		if c.begun && !c.text {
			c.within = false
			return p[i+1:]
		}
		c.begun, c.text = c.begun || c.text, false
	}
	return nil
}

// CloseWrite lets net/http end an answer to a request that it has not read to its end.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
