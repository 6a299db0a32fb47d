package redis

import (
	"bytes"
	"io"
	"net"
	"strings"
	"time"
)

// NewConn returns the client's end of a connection whose server is ask, which waits for the reply. An error of ask breaks the connection.
func NewConn(ask func(args []string) (Reply, error)) net.Conn { return &conn{ask: ask} }

type conn struct {
	ask    func(args []string) (Reply, error)
	in     input
	out    bytes.Buffer // not yet read by the client
	broken error
}

func (c *conn) Write(p []byte) (int, error) {
	if c.broken != nil {
		return 0, c.broken
	}
	c.in.feed(p)
	return len(p), nil
}

func (c *conn) Read(p []byte) (int, error) {
	for c.out.Len() == 0 {
		if c.broken != nil {
			return 0, c.broken
		}
		args, err := c.in.next()
		if err != nil || args == nil {
			c.broken = io.EOF
			return 0, c.broken
		}
		c.answer(args)
	}
	return c.out.Read(p)
}

// answer executes a command. HELLO, CLIENT and SELECT take no round trip.
func (c *conn) answer(args []string) {
	switch verb := strings.ToUpper(args[0]); verb {
	case "HELLO":
		c.reply([]Reply{})
		return
	case "CLIENT", "SELECT":
		c.reply(status("OK"))
		return
	}
	v, err := c.ask(args)
	if err != nil {
		c.broken = err
		return
	}
	c.reply(v)
}

func (c *conn) reply(v Reply) { c.out.Write(appendReply(c.out.AvailableBuffer(), v, false)) }

// Close and the methods below complete net.Conn. The world handles timeouts.
func (c *conn) Close() error {
	c.broken = net.ErrClosed
	return nil
}

func (*conn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (*conn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (*conn) SetDeadline(time.Time) error      { return nil }
func (*conn) SetReadDeadline(time.Time) error  { return nil }
func (*conn) SetWriteDeadline(time.Time) error { return nil }
