// Package redisclient extends go-redis with a dialer that honours its context, a bound on the size of received messages, and errors that
// show no password.
package redisclient

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Dialer is like redis.NewDialer, but ctx also bounds the TLS handshake: a store dials one connection at a time, and a silent server must
// not block it.
func Dialer(o *redis.Options) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := &net.Dialer{Timeout: cmp.Or(o.DialTimeout, 5*time.Second)} // the default of go-redis
	if o.TLSConfig == nil {
		return dial.DialContext
	}
	return (&tls.Dialer{NetDialer: dial, Config: o.TLSConfig}).DialContext
}

// Bounded returns conn for a subscription, with each string longer than limit bytes replaced by an empty one. A publisher may send 512 MB,
// which go-redis would allocate at once. If Bounded closed the connection instead, a publisher could silence the channel.
func Bounded(conn net.Conn, limit int) net.Conn {
	return &bounded{Conn: conn, in: bufio.NewReader(conn), limit: limit}
}

// bounded parses RESP line by line. A read that times out loses no data.
type bounded struct {
	net.Conn

	in         *bufio.Reader
	limit      int
	line, out  []byte // line: the part read so far; out: bytes to return
	body, skip int    // body: bytes of a string to return after out; skip: bytes of a string to drop
}

func (b *bounded) Read(p []byte) (n int, err error) {
	for err == nil && len(b.out) == 0 && b.body == 0 {
		err = b.next()
	}
	if len(b.out) > 0 {
		n = copy(p, b.out)
		b.out = b.out[n:]
	} else if err == nil {
		n, err = b.in.Read(p[:min(len(p), b.body)])
		b.body -= n
	}
	return n, err
}

// next reads a line. After a dropped string, that is the string's line end.
func (b *bounded) next() error {
	n, err := b.in.Discard(b.skip)
	if b.skip -= n; err != nil {
		return err
	}
	part, err := b.in.ReadSlice('\n')
	if b.line = append(b.line, part...); err != nil {
		return err
	}
	b.out, b.line = b.line, b.line[:0]
	if size, err := strconv.Atoi(strings.TrimSpace(string(b.out[1:]))); err == nil && b.out[0] == '$' && size > b.limit {
		b.out, b.skip = []byte("$0\r\n"), size
	} else if err == nil && b.out[0] == '$' && size >= 0 {
		b.body = size + len("\r\n")
	}
	return nil
}

// repeated matches the part of an error in which Redis repeats the arguments of an unknown command, such as a renamed AUTH or HELLO.
var repeated = regexp.MustCompile(`(with args beginning with: )[^\n]*`)

// Reply is the text of an error reply of Redis. It wraps no error, because the original may show a password.
type Reply string

func (r Reply) Error() string { return string(r) }

// RedisError implements redis.Error.
func (Reply) RedisError() {}

// Mask returns err without the command arguments that Redis, a Sentinel or a cluster server repeats: they may contain a password.
func Mask(err error) error {
	if err == nil || !repeated.MatchString(err.Error()) {
		return err
	}
	return Reply(repeated.ReplaceAllString(err.Error(), "${1}…"))
}

// Masking is a hook that masks the errors of a client's commands.
type Masking struct{}

// DialHook changes nothing.
func (Masking) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook masks the error of a command.
func (Masking) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := Mask(next(ctx, cmd))
		cmd.SetErr(err)
		return err
	}
}

// ProcessPipelineHook masks the errors of all commands.
func (Masking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := Mask(next(ctx, cmds))
		for _, cmd := range cmds {
			cmd.SetErr(Mask(cmd.Err()))
		}
		return err
	}
}
