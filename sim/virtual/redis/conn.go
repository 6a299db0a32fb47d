package redis

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// NewConn returns the client's end of a connection whose server is ask, which waits for the reply. An error of ask breaks the connection.
func NewConn(ask func(args []string) (Reply, error)) net.Conn { return &conn{ask: ask} }

type conn struct {
	ask    func(args []string) (Reply, error)
	in     bytes.Buffer // sent by the client
	out    bytes.Buffer // not yet read by the client
	broken error
}

func (c *conn) Write(p []byte) (int, error) {
	if c.broken != nil {
		return 0, c.broken
	}
	return c.in.Write(p)
}

func (c *conn) Read(p []byte) (int, error) {
	for c.out.Len() == 0 {
		if c.broken != nil {
			return 0, c.broken
		}
		args, err := readCommand(&c.in)
		if err != nil {
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
		writeReply(&c.out, []Reply{})
		return
	case "CLIENT", "SELECT":
		writeReply(&c.out, status("OK"))
		return
	}
	v, err := c.ask(args)
	if err != nil {
		c.broken = err
		return
	}
	writeReply(&c.out, v)
}

func readCommand(in *bytes.Buffer) ([]string, error) {
	n, err := readNumber(in, '*')
	if err != nil {
		return nil, err
	}
	args := make([]string, n)
	for i := range args {
		size, err := readNumber(in, '$')
		if err != nil {
			return nil, err
		}
		word := in.Next(size + 2)
		if len(word) != size+2 {
			return nil, io.ErrUnexpectedEOF
		}
		args[i] = string(word[:size])
	}
	return args, nil
}

func readNumber(in *bytes.Buffer, kind byte) (int, error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("a command of the form %q", line)
	}
	return strconv.Atoi(string(line[1 : len(line)-2]))
}

func writeReply(out *bytes.Buffer, v Reply) {
	line := func(kind byte, text string) {
		out.WriteByte(kind)
		out.WriteString(text)
		out.WriteString("\r\n")
	}
	switch v := v.(type) {
	case nil:
		line('$', "-1")
	case int64:
		line(':', strconv.FormatInt(v, 10))
	case status:
		line('+', string(v))
	case Refusal:
		line('-', string(v))
	case string:
		line('$', strconv.Itoa(len(v)))
		out.WriteString(v)
		out.WriteString("\r\n")
	case []Reply:
		line('*', strconv.Itoa(len(v)))
		for i := range v {
			writeReply(out, v[i])
		}
	default:
		panic(fmt.Sprintf("redis: a command replied %T", v))
	}
}

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
