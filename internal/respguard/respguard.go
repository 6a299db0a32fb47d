// Package respguard stands between go-redis and a Redis that is hostile, or somebody in its place: go-redis makes room for what a
// reply says of its length before it has come, and follows nested replies and attributes by recursion, so that few bytes take all memory
// or end the process. It also keeps the password out of what the server says.
package respguard

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// What no honest server goes beyond here. The largest replies asked for are MGET of a page of leases or sessions (some 10 kB each at
// most), pages of SCAN and of streams, the sets of a worker (one member for each session it runs), replies of scripts and INFO. A reply of
// this size takes some 100 MB while it is read; a longer value is one that a foreign hand wrote.
const (
	lineMax    = 64 << 10  // bytes of a line: a status, a number, an error
	bulkMax    = 64 << 20  // bytes of one string
	replyMax   = 256 << 20 // bytes of all strings of a reply
	elementMax = 1 << 20   // elements of a reply, on all levels; a pair of a map is two
	depthMax   = 16        // of arrays in arrays; XREADGROUP has 5
	attrMax    = 16        // attributes in a row; servers send none unasked

	// askedMax is how many bytes are read until something is written again: a pipeline of a thousand commands may have as many replies. What
	// comes unasked, as messages of a channel, may be as much in a minute.
	askedMax  = replyMax + replyMax/4
	unaskedIn = time.Minute
)

// ErrReply: the server sent what no honest one does; the connection is closed. It is Redis that is to be looked at, or who stands in its
// place.
var ErrReply = errors.New("reply refused, connection closed: no Redis that is asked for leases answers so")

const dialTimeout = 5 * time.Second // as go-redis has it

// NewClient is redis.NewClient with guarded connections, of TLS too. Errors of its commands do not show the password.
func NewClient(opt *redis.Options) *redis.Client {
	o := *opt
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	if o.Dialer == nil {
		o.Dialer = Dialer(&o)
	}
	o.Dialer = guarding(o.Dialer, nil)
	c := redis.NewClient(&o)
	c.AddHook(Hide(o.Password))
	return c
}

// Dialer is redis.NewDialer whose ctx and time-out bound the handshake of TLS as well: whoever accepts a connection and says nothing would
// hold up the one dial of a store at a time for as long as it likes. Without opt.DialTimeout it is that of go-redis.
func Dialer(opt *redis.Options) func(ctx context.Context, network, addr string) (net.Conn, error) {
	o := *opt
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	config := o.TLSConfig
	o.TLSConfig = nil
	dial := redis.NewDialer(&o)
	if config == nil {
		return dial
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if o.DialTimeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, o.DialTimeout)
			defer cancel()
		}
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, named(config, addr))
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		return secure, nil
	}
}

// named is config with the name that the certificate is to have: that of addr, unless it says another.
func named(config *tls.Config, addr string) *tls.Config {
	if config.ServerName != "" {
		return config
	}
	c := config.Clone()
	if c.ServerName, _, _ = net.SplitHostPort(addr); c.ServerName == "" {
		c.ServerName = addr
	}
	return c
}

type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// guarding guards connections. refusal, if there is one, looks at each error that a server says.
func guarding(dial dialer, refusal func(said []byte) error) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return guard(conn, refusal), nil
	}
}

// NewFailoverClient is redis.NewFailoverClient with guarded connections, to sentinels and servers. opt must have a Dialer. Errors of its
// commands do not show the password.
func NewFailoverClient(opt *redis.FailoverOptions) *redis.Client {
	o := *opt
	o.Dialer = guarding(o.Dialer, nil)
	c := redis.NewFailoverClient(&o)
	c.AddHook(Hide(o.Password))
	return c
}

// guard returns conn with what is read from it looked at. Like any connection it has one reader at a time.
func guard(conn net.Conn, refusal func(said []byte) error) net.Conn {
	g := &guarded{Conn: conn, seen: scanner{refusal: refusal}}
	if socket, ok := conn.(syscall.Conn); ok {
		return &guardedSocket{g, socket}
	}
	return g
}

type guarded struct {
	net.Conn

	seen scanner
	err  error

	writes atomic.Uint64
	asked  uint64    // writes, when read was 0
	since  time.Time // when it was
	read   int       // bytes
}

// guardedSocket shows its socket, at which go-redis looks before it lends a connection.
type guardedSocket struct {
	*guarded
	syscall.Conn
}

// Read implements net.Conn. Of bytes that are refused none is passed on.
func (g *guarded) Read(b []byte) (int, error) {
	if g.err != nil {
		return 0, g.err
	}
	n, err := g.Conn.Read(b)
	if g.err = cmp.Or(g.seen.scan(b[:n]), g.count(n)); g.err != nil {
		_ = g.Conn.Close()
		return 0, g.err
	}
	return n, err
}

// Write implements net.Conn.
func (g *guarded) Write(b []byte) (int, error) {
	g.writes.Add(1)
	return g.Conn.Write(b)
}

// count takes note that n bytes were read.
func (g *guarded) count(n int) error {
	if w := g.writes.Load(); w != g.asked {
		g.asked, g.read, g.since = w, 0, time.Now()
	}
	if g.read += n; g.read <= askedMax {
		return nil
	}
	if now := time.Now(); now.Sub(g.since) >= unaskedIn {
		g.read, g.since = 0, now
		return nil
	}
	return refuse("more than %d bytes for one request or pipeline", askedMax)
}

// state is what the next byte is.
type state uint8

const (
	atType   state = iota // begins a value
	inLength              // of a length's line
	inLine                // of another line
	inBulk                // of a string or its line end
)

// level is an array, map or attribute that is not complete.
type level struct {
	left int // values
	attr bool
}

// scanner reads a stream of replies in RESP2 and RESP3, in pieces of any size. It keeps nothing of it but, for refusal, the error that has
// not ended.
type scanner struct {
	state  state
	kind   byte
	size   int  // of the length that is read
	digits int  // of it
	minus  bool // before it
	ended  bool // by \r
	left   int  // bytes of the string
	line   int  // bytes of the line

	refusal func(said []byte) error // looks at each error, unless it is nil
	said    []byte                  // of the error that is read

	bytes, elements, attrs int // of the reply
	levels                 [depthMax]level
	depth                  int
}

func (s *scanner) scan(b []byte) (err error) {
	for len(b) > 0 && err == nil {
		b, err = s.step(b)
	}
	return err
}

// step takes of b, which is not empty, what belongs to one state.
func (s *scanner) step(b []byte) (rest []byte, err error) {
	switch s.state {
	case inBulk:
		n := min(len(b), s.left)
		if s.left -= n; s.left == 0 {
			s.complete()
		}
		return b[n:], nil
	case inLine:
		return s.text(b)
	case inLength:
		return b[1:], s.length(b[0])
	default: // atType
		return b[1:], s.begin(b[0])
	}
}

func refuse(format string, args ...any) error {
	return refused(fmt.Sprintf(format, args...))
}

// refused is ErrReply with what was wrong. It wraps nothing, so that whoever shows the innermost error shows this.
type refused string

func (r refused) Error() string        { return ErrReply.Error() + ": " + string(r) }
func (r refused) Is(target error) bool { return target == ErrReply }

// begin takes the first byte of a value.
func (s *scanner) begin(kind byte) error {
	s.kind, s.size, s.digits, s.minus, s.ended, s.line = kind, 0, 0, false, false, 0
	switch kind {
	case '+', '-', ':', '_', ',', '#', '(':
		s.state = inLine
	case '!':
		if s.refusal != nil {
			return refuse("an error of more than a line, as Redis says none")
		}
		s.state = inLength
	case '$', '=', '*', '~', '>', '%', '|':
		s.state = inLength
	case 'H':
		return refuse("it begins with the byte %#02x, as no answer of Redis does and one of HTTP does", kind)
	default:
		return refuse("it begins with the byte %#02x, as no answer of Redis does", kind)
	}
	return nil
}

// text takes what is there of a line.
func (s *scanner) text(b []byte) ([]byte, error) {
	end := bytes.IndexByte(b, '\n')
	if end < 0 {
		s.line += len(b)
	} else {
		s.line += end
	}
	if s.line > lineMax {
		return nil, refuse("a line of more than %d bytes", lineMax)
	}
	if s.kind == '-' && s.refusal != nil {
		if end < 0 {
			s.said = append(s.said, b...)
			return nil, nil
		}
		said := bytes.TrimSuffix(append(s.said, b[:end]...), []byte("\r"))
		s.said = nil
		if err := s.refusal(said); err != nil {
			return nil, err
		}
	}
	if end < 0 {
		return nil, nil
	}
	s.complete()
	return b[end+1:], nil
}

// length takes one byte of a length's line.
func (s *scanner) length(c byte) error {
	switch {
	case s.ended && c == '\n' && (s.digits > 0 && !s.minus || s.minus && s.digits == 1 && s.size == 1):
		return s.measured()
	case s.ended:
	case c == '\r':
		s.ended = true
		return nil
	case c == '-' && s.digits == 0 && !s.minus && (s.kind == '$' || s.kind == '*'): // of what else there is none go-redis reads on
		s.minus = true
		return nil
	case '0' <= c && c <= '9':
		s.digits++
		if s.size = s.size*10 + int(c-'0'); s.size <= replyMax && s.digits <= 10 {
			return nil
		}
		return refuse("a length of more than %d", replyMax)
	}
	return refuse("a length that is no number")
}

// measured takes a length that is complete.
func (s *scanner) measured() error {
	switch s.kind {
	case '$', '!', '=':
		if s.minus {
			break
		}
		s.bytes += s.size
		if s.size > bulkMax || s.bytes > replyMax {
			return refuse("a string of %d bytes in a reply of %d; at most %d and %d are read", s.size, s.bytes, bulkMax, replyMax)
		}
		s.state, s.left = inBulk, s.size+len("\r\n")
		return nil
	default:
		if !s.minus {
			return s.open()
		}
	}
	s.complete() // nil
	return nil
}

// open begins an array, a map or an attribute.
func (s *scanner) open() error {
	attr := s.kind == '|'
	if s.kind == '%' || attr {
		s.size *= 2
	}
	s.elements += s.size
	if attr {
		s.attrs++
	}
	switch {
	case s.elements > elementMax:
		return refuse("more than %d elements", elementMax)
	case s.attrs > attrMax || attr && s.depth > 0:
		return refuse("attributes in attributes or values, or more than %d in a row", attrMax)
	case s.size == 0 && attr:
		s.state = atType
	case s.size == 0:
		s.complete()
	case s.depth == depthMax:
		return refuse("arrays in arrays, more than %d deep", depthMax)
	default:
		s.levels[s.depth] = level{s.size, attr}
		s.depth++
		s.state = atType
	}
	return nil
}

// complete ends a value, and all that it is the last part of.
func (s *scanner) complete() {
	s.state = atType
	for s.depth > 0 {
		top := &s.levels[s.depth-1]
		if top.left--; top.left > 0 {
			return
		}
		s.depth--
		if top.attr {
			return // the value is still to come
		}
	}
	s.bytes, s.elements, s.attrs = 0, 0, 0
}
