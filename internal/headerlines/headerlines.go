// Package headerlines ends HTTP/1 connections whose headers have more lines than any honest client sends. net/http bounds a header by
// its bytes only and keeps about 100 bytes for each of its lines, however short: 16 KiB of "a:" cost half a megabyte while they last. So
// do the names of a trailer that is announced, all in one line: a header that announces one is refused.
//
// What net/http keeps of a connection without its handler being asked, and what bounds it (an API is a server of api.NewServer, also that
// of --health; a target is that of a storm, tuners included):
//
//	request line and header              12 KiB (Bytes and 4 KiB), Most lines; of an API for 4 s, of a target for 10 s
//	Host, cookies, path, query           parts of those; nothing of them is parsed ahead but the path, which is kept twice
//	Trailer                              refused
//	the next requests (pipelining)       4 KiB; the connection is closed after the answer
//	one byte more                        that of the background read
//	Expect: 100-continue                 nothing; any other Expect is 417, and what body it has is read for no longer than the next line says
//	a body that nobody reads             4 KiB at a time, 256 KiB in all; of an API for 4 s, of a target for two minutes
//	chunks, their extensions, a trailer  of an API refused by the handler (411) before they are parsed; of a target read, 64 KiB, and dropped
//	an answer that is not read           6 KiB and what the handler holds; of an API for 15 s, of a target for 10 s
//	an idle connection                   4 KiB of buffers and the request line, whose method is kept; a minute, two of a target
//	HTTP/2, also its preface             not spoken (Server): the preface is a request with a method that no handler knows
//	a handshake of TLS (api.Config.TLS)  4 KiB of the client, 16 more where its certificate is asked for; 4.5 s with the first header
//	errors                               one line of log a minute (api), none is kept
//
// Of 1,020 connections a target kept 46 KB each for a header without an end, 67 KB for a body without one and 57 KB for a pipeline, an API
// 50 to 65 KB for a header; encrypted ones had 58 KB by themselves, and 90 KB with the largest greeting.
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
	// Bytes is how many a header may have; net/http reads 4 KiB more than that.
	Bytes = 8 << 10
)

// ErrTooMany and ErrTrailer are what a read returns then. The server answers 400 and closes the connection.
var (
	ErrTooMany = errors.New("the header has more lines than any honest client sends")
	ErrTrailer = errors.New("the header announces a trailer")
)

// Server has s serve connections of Listen or New with bounded headers, and returns it. It speaks HTTP/1 alone: HTTP/2 has streams,
// tables and queues of its own for each connection, and headers that are not read here. What sets its ConnState calls the one it has.
func Server(s *http.Server) *http.Server {
	s.Protocols = new(http.Protocols)
	s.Protocols.SetHTTP1(true)
	s.MaxHeaderBytes, s.ConnState = Bytes, state
	s.DisableGeneralOptionsHandler = true // it would answer without the handler, and read the body after that
	return s
}

// Conn is a connection whose headers are bounded, if its server is Server's. What is encrypted has no lines: of TLS it is the
// connection outside.
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

// state is a server's ConnState. A header begins where the connection is new or idle: by then net/http has read the body before it.
func state(c net.Conn, s http.ConnState) {
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

// NetConn is the connection that is read.
func (c *Conn) NetConn() net.Conn { return c.Conn }

// CloseWrite lets net/http end an answer to a request that it has not read to its end.
func (c *Conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
