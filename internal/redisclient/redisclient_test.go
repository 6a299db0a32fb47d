package redisclient

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/redis/go-redis/v9"
)

// source is a connection that delivers a stream.
type source struct {
	net.Conn
	io.Reader
}

func (s source) Read(b []byte) (int, error) { return s.Reader.Read(b) }

func message(text string) string {
	return fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n", len(text), text)
}

// A string longer than the limit becomes empty. Everything else stays unchanged, however it arrives.
func TestBounded(t *testing.T) {
	const limit = 100
	long := strings.Repeat("*1\r\n$5\r\n", limit)
	rest := "+OK\r\n-ERR x\r\n:1\r\n*0\r\n$0\r\n\r\n$-1\r\n$1\r\nb\r\n"
	for stream, want := range map[string]string{
		rest:                                  rest,
		message(strings.Repeat("x", limit)):   message(strings.Repeat("x", limit)),
		message(strings.Repeat("x", limit+1)): message(""),
		rest + message(long) + message(long) + message("a") + rest:       rest + message("") + message("") + message("a") + rest,
		"*2\r\n$" + fmt.Sprint(len(long)) + "\r\n" + long + "\r\n:1\r\n": "*2\r\n$0\r\n\r\n:1\r\n",
	} {
		for name, in := range map[string]func(io.Reader) io.Reader{
			"whole":  func(r io.Reader) io.Reader { return r },
			"halves": iotest.HalfReader, "bytes": iotest.OneByteReader, "end with the last": iotest.DataErrReader,
		} {
			got, err := io.ReadAll(Bounded(source{Reader: in(strings.NewReader(stream))}, limit))
			if err != nil || string(got) != want {
				t.Errorf("%.60q, %s: %q, %v; want %q", stream, name, got, err, want)
			}
		}
	}
}

// pausing times out before each byte.
type pausing struct {
	io.Reader
	now bool
}

func (p *pausing) Read(b []byte) (int, error) {
	if p.now = !p.now; p.now {
		return 0, os.ErrDeadlineExceeded
	}
	return p.Reader.Read(b[:1])
}

// A subscription times out at any byte of a silent connection, and continues.
func TestBoundedGoesOnAfterATimeOut(t *testing.T) {
	conn := Bounded(source{Reader: &pausing{Reader: strings.NewReader(message("long") + message("a"))}}, 3)
	var got strings.Builder
	var b [16]byte
	for {
		n, err := conn.Read(b[:])
		got.Write(b[:n])
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
	}
	if want := "*3\r\n$0\r\n\r\n$1\r\nc\r\n$0\r\n\r\n*3\r\n$0\r\n\r\n$1\r\nc\r\n$1\r\na\r\n"; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
}

// Mask removes the arguments that Redis repeats, for each of several servers, and the error stays one of Redis.
func TestMask(t *testing.T) {
	said := errors.New("ERR unknown command `AUTH`, with args beginning with: `app`, `c4n4ry`, ")
	err := Mask(fmt.Errorf("all sentinels: %w", errors.Join(said, errors.New("dial tcp: refused"), said)))
	want := strings.ReplaceAll("all sentinels: X\ndial tcp: refused\nX", "X", "ERR unknown command `AUTH`, with args beginning with: …")
	if reply := redis.Error(nil); err.Error() != want || !errors.As(err, &reply) {
		t.Errorf("%T: %v", err, err)
	}
	for _, err := range []error{nil, redis.Nil, io.EOF} {
		if Mask(err) != err { //nolint:errorlint // the very same
			t.Errorf("%v became %v", err, Mask(err))
		}
	}
}
