package respguard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/servetest"
)

// message is what who hears a channel is sent.
func message(text string) string {
	return fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n%s\r\n", len(text), text)
}

// source is a connection on which a stream comes.
type source struct {
	net.Conn
	io.Reader
}

func (s source) Read(b []byte) (int, error) { return s.Reader.Read(b) }
func (source) Close() error                 { return nil }

// What is longer than who hears may hear is an empty string, and so is what is none, and all else is what it was, however it comes.
func TestLongStringsArePassedOver(t *testing.T) {
	const most = 100
	long := strings.Repeat("*1\r\n$5\r\n", most)
	rest := "+OK\r\n-ERR x\r\n:1\r\n*0\r\n$0\r\n\r\n%1\r\n+a\r\n$1\r\nb\r\n=7\r\ntxt:abc\r\n"
	for stream, want := range map[string]string{
		rest:                                 rest,
		message(strings.Repeat("x", most)):   message(strings.Repeat("x", most)),
		message(strings.Repeat("x", most+1)): message(""),
		rest + message(long) + message(long) + message("a") + rest:       rest + message("") + message("") + message("a") + rest,
		"*4\r\n$1\r\na\r\n$-1\r\n*-1\r\n_\r\n":                           "*4\r\n$1\r\na\r\n" + strings.Repeat("$0\r\n\r\n", 3),
		"*2\r\n$" + fmt.Sprint(len(long)) + "\r\n" + long + "\r\n:1\r\n": "*2\r\n$0\r\n\r\n:1\r\n",
	} {
		for name, in := range map[string]func(io.Reader) io.Reader{
			"whole":  func(r io.Reader) io.Reader { return r },
			"halves": iotest.HalfReader, "bytes": iotest.OneByteReader, "end with the last": iotest.DataErrReader,
		} {
			for _, out := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
				got, err := io.ReadAll(out(Hear(source{Reader: in(strings.NewReader(stream))}, most)))
				if err != nil || string(got) != want {
					t.Errorf("%.60q, %s: %q, %v; want %q", stream, name, got, err, want)
				}
			}
		}
	}
}

// Who hears a channel is guarded as all others are.
func TestWhoHearsIsGuarded(t *testing.T) {
	for what, c := range hostile {
		if what == "strings" {
			continue // honest up to its end
		}
		_, err := io.ReadAll(Hear(source{Reader: strings.NewReader(c.stream)}, bulkMax))
		if !errors.Is(err, ErrReply) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q in it", what, err, c.says)
		}
	}
}

// A time-out in the middle of a string that is passed over does not end that: the next to come is understood.
func TestPassingOverGoesOnAfterATimeOut(t *testing.T) {
	const most, size = 10, 1000
	first := fmt.Sprintf("$%d\r\n%s", size, strings.Repeat("x", size/2))
	last := strings.Repeat("x", size/2) + "\r\n+OK\r\n"
	conn := Hear(source{Reader: io.MultiReader(strings.NewReader(first), iotest.ErrReader(os.ErrDeadlineExceeded))}, most)
	got, err := io.ReadAll(conn)
	if string(got) != "$0\r\n\r\n" || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%q, %v", got, err)
	}
	conn.(*hearing).Conn = source{Reader: strings.NewReader(last)}
	if got, err := io.ReadAll(conn); string(got) != "+OK\r\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// Of a message go-redis has no more than the empty string, and nobody makes room for it.
func TestNobodyMakesRoomForAMessage(t *testing.T) {
	const size, times, piece = 28_000_000, 5, 10_007
	text := make([]byte, size)
	addr := servetest.Serve(t, func(c net.Conn) {
		servetest.Commands(c, func(words []string) string {
			if words[0] != "subscribe" {
				return "-ERR unknown command\r\n"
			}
			_, _ = io.WriteString(c, "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n")
			for range times {
				_, _ = fmt.Fprintf(c, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$%d\r\n", size)
				for from := 0; from < size; from += piece {
					_, _ = c.Write(text[from:min(from+piece, size)])
				}
				_, _ = io.WriteString(c, "\r\n"+message("heard"))
			}
			return ""
		})
	})
	opt := &redis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1}
	dial := Dialer(opt)
	opt.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return Hear(conn, 1000), nil
	}
	client := NewClient(opt)
	defer client.Close()
	ps := client.Subscribe(t.Context(), "c")
	defer ps.Close()
	if _, err := ps.ReceiveTimeout(t.Context(), time.Minute); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range times {
		for _, want := range []string{"", "heard"} {
			said, err := ps.ReceiveTimeout(t.Context(), time.Minute)
			if m, ok := said.(*redis.Message); err != nil || !ok || m.Payload != want {
				t.Fatalf("%v, %v; want %q", said, err, want)
			}
		}
	}
	runtime.ReadMemStats(&after)
	took := (after.TotalAlloc - before.TotalAlloc) / times
	t.Logf("%d bytes for a message of %d", took, size)
	if took > 100_000 {
		t.Errorf("%d bytes are taken for a message of %d", took, size)
	}
}
