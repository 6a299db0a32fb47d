// Package headerlines ends HTTP/1 connections whose headers have more lines than any honest client sends. net/http bounds a header by
// its bytes only and keeps about 100 bytes for each of its lines, however short: 16 KiB of "a:" cost half a megabyte while they last. So
// do the names of a trailer that is announced, all in one line: a header that announces one is refused.
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

// ErrTooMany and ErrTrailer are what a read returns then. The server answers 400 and closes the connection.
var (
	ErrTooMany = errors.New("the header has more lines than any honest client sends")
	ErrTrailer = errors.New("the header announces a trailer")
)

// Conn is a connection whose headers are bounded, if its server's ConnState calls State. What is encrypted has no lines: of TLS it is the
// connection inside.
type Conn struct {
	net.Conn
	within  bool  // a header is being read
	begun   bool  // a line of it that is not empty has been
	lines   int   // of it
	text    bool  // the line that has not ended is not empty
	named   int   // how many bytes of that line are those of trailer, from its first one on; -1: it has another name
	refusal error // of the header, whatever comes of it yet
	// piped is that behind a header, or in a body, another request may have begun, which the server has in its buffer then: none of what is
	// not read here counts.
	piped bool
}

const trailer = "trailer:"

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
	c.lines, c.named, c.refusal = 0, 0, nil
	if s == http.StateIdle && c.piped {
		_ = c.Conn.Close() // an honest client waits for the answer
	}
}

// Read implements net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	rest := p[:n]
	if c.within {
		if rest = c.header(rest); c.refusal != nil {
			return 0, c.refusal
		}
	}
	if len(p) > 1 { // else net/http waits for the client's end, past what is in its buffer
		c.piped = c.piped || bytes.Contains(rest, []byte(" HTTP/"))
	}
	return n, err
}

// header looks at the lines of a header, to its end, and returns what is after that. The empty lines before a header, of which net/http
// skips some, end none.
func (c *Conn) header(p []byte) (rest []byte) {
	for i, b := range p {
		if b != '\n' {
			c.text = c.text || b != '\r'
			c.name(b)
			continue
		}
		if c.lines++; c.lines > Most {
			c.refusal = ErrTooMany
		}
		if c.begun && !c.text {
			c.within = false
			return p[i+1:]
		}
		c.begun, c.text, c.named = c.begun || c.text, false, 0
	}
	return nil
}

// name takes the next byte of a line.
func (c *Conn) name(b byte) {
	switch {
	case c.named < 0:
	case b|' ' != trailer[c.named]: // in small letters; ':' is the same
		c.named = -1
	default:
		if c.named++; c.named == len(trailer) {
			c.named, c.refusal = -1, ErrTrailer
		}
	}
}

// CloseWrite lets net/http end an answer to a request that it has not read to its end.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
