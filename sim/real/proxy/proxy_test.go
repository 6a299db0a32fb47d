package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	control "github.com/Shopify/toxiproxy/v2/client"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/internal/servetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo is an upstream that answers with what it gets.
func echo(t *testing.T) string {
	t.Helper()
	return servetest.Serve(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

func openProxy(t *testing.T, upstream string) *Proxy {
	t.Helper()
	l, err := New("node-1", redisfixture.Loopback, upstream, 1, 1, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// want reads exactly text, within 30 s, and returns how long it took.
func want(t *testing.T, c net.Conn, text string) time.Duration {
	t.Helper()
	start := time.Now()
	got := make([]byte, len(text))
	_ = c.SetReadDeadline(start.Add(30 * time.Second))
	if n, err := io.ReadFull(c, got); err != nil || string(got) != text {
		t.Fatalf("read %q, %v; want %q", got[:n], err, text)
	}
	return time.Since(start)
}

// silent fails if anything arrives within d.
func silent(t *testing.T, c net.Conn, d time.Duration) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(d))
	var b [64]byte
	if n, err := c.Read(b[:]); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %q, %v; want silence", b[:n], err)
	}
}

func TestBlackHolesHealOnTheLivingConnection(t *testing.T) {
	hold := Network{Hold: true}
	for name, e := range map[string]Effect{
		"both ways": {Up: hold, Down: hold}, "requests": {Up: hold}, "replies": {Down: hold},
	} {
		t.Run(name, func(t *testing.T) {
			l := openProxy(t, echo(t))
			c := dial(t, l.Addr())
			send(t, c, "before ")
			want(t, c, "before ")
			if err := l.Apply(1, e); err != nil {
				t.Fatal(err)
			}
			send(t, c, "during ")
			send(t, c, "it ")
			silent(t, c, 50*time.Millisecond)
			fresh := dial(t, l.Addr()) // a connection made meanwhile is as silent
			send(t, fresh, "hello")
			silent(t, fresh, 20*time.Millisecond)
			if err := l.Heal(1); err != nil {
				t.Fatal(err)
			}
			want(t, c, "during it ")
			want(t, fresh, "hello")
			send(t, c, "after")
			want(t, c, "after")
		})
	}
}

// Bytes that a process sent before it died are in the network. They arrive when the black hole heals.
func TestBytesOfADeadClientArriveLate(t *testing.T) {
	arrived := make(chan string, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		text, _ := io.ReadAll(c)
		_ = c.Close()
		arrived <- string(text)
	}()
	p := openProxy(t, l.Addr().String())
	if err := p.Apply(1, Effect{Up: Network{Hold: true}}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, p.Addr())
	send(t, c, "last words")
	_ = c.Close()
	select {
	case text := <-arrived:
		t.Fatalf("%q came through a black hole", text)
	case <-time.After(50 * time.Millisecond):
	}
	if err := p.Heal(1); err != nil {
		t.Fatal(err)
	}
	select {
	case text := <-arrived:
		if text != "last words" {
			t.Errorf("%q arrived", text)
		}
	case <-time.After(30 * time.Second):
		t.Error("nothing arrived")
	}
}

func TestCutResetsAndRefuses(t *testing.T) {
	l := openProxy(t, echo(t))
	c := dial(t, l.Addr())
	send(t, c, "x")
	want(t, c, "x")
	if err := l.Apply(1, Effect{Cut: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.Apply(2, Effect{Cut: true}); err != nil { // a second cut of the same proxy changes nothing
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read from a cut connection: %v, want a reset", err)
	}
	if fresh, err := net.Dial("tcp", l.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			_ = fresh.Close()
		}
		t.Errorf("dial of a cut proxy: %v, want a refusal", err)
	}
	if err := l.Heal(1); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", l.Addr()); err == nil {
		t.Error("the proxy is back although one of two cuts goes on")
	}
	if err := l.Heal(2); err != nil {
		t.Fatal(err)
	}
	again := dial(t, l.Addr())
	send(t, again, "y")
	want(t, again, "y")
}

// While Redis is down, nobody can connect. The remains of failed connections do not keep the proxy from being healed.
func TestAProxyToNobodyHeals(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	l := openProxy(t, nobody.Addr().String())
	for range 3 {
		if c, err := net.Dial("tcp", l.Addr()); err == nil { // otherwise it was already reset
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("who finds nobody is not sent away: %v", err)
			}
			_ = c.Close()
		}
		if err := errors.Join(l.Apply(1, Effect{Cut: true}), l.Heal(1)); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := net.Dial("tcp", l.Addr()); err == nil {
		_ = c.Close()
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		t.Error("the proxy is not open")
	}
}

func TestLatencyDelaysAndKeepsOrder(t *testing.T) {
	l := openProxy(t, echo(t))
	c := dial(t, l.Addr())
	slow := Network{Latency: 40 * time.Millisecond, Jitter: 20 * time.Millisecond}
	if err := l.Apply(1, Effect{Up: slow, Down: slow}); err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for i := range 50 {
		text := string(rune('a' + i%26))
		all.WriteString(text)
		send(t, c, text)
	}
	if took := want(t, c, all.String()); took < 40*time.Millisecond {
		t.Errorf("there and back took %v, want at least twice 20 ms", took)
	}
	send(t, c, "in flight when it heals")
	if err := l.Heal(1); err != nil {
		t.Fatal(err)
	}
	want(t, c, "in flight when it heals")
}

// A closed sender does not cut a long delay short.
func TestAClosedConnectionWaitsForWhatIsUnderWay(t *testing.T) {
	late := &link{last: time.Now().Add(40 * time.Second)}
	if got := late.lingers(); got <= 40*time.Second || got > 40*time.Second+lingerMax {
		t.Errorf("what comes in 40 s is waited for %v", got)
	}
	if got := new(link).lingers(); got != lingerMax {
		t.Errorf("what has come is waited for %v", got)
	}
}

func TestDelaysAreDrawnFromTheSeed(t *testing.T) {
	draw := func(seed uint64) (out []time.Duration) {
		d := newDirection(seed, 3)
		for range 20 {
			out = append(out, d.delay(Network{Latency: time.Second, Jitter: time.Second}))
		}
		return out
	}
	a, b, c := draw(1), draw(1), draw(2)
	same := 0
	for i := range a {
		if a[i] != b[i] {
			t.Fatalf("delay %d is %v and %v with one seed", i, a[i], b[i])
		}
		if a[i] == c[i] {
			same++
		}
		if a[i] < 0 || a[i] > 2*time.Second {
			t.Errorf("delay %v is outside of 1 s ± 1 s", a[i])
		}
	}
	if same == len(a) {
		t.Error("two seeds draw the same delays")
	}
}

func TestBandwidthAndFragments(t *testing.T) {
	l := openProxy(t, echo(t))
	c := dial(t, l.Addr())
	text := string(bytes.Repeat([]byte("0123456789abcdef"), 128)) // 2 KiB
	if err := l.Apply(1, Effect{Up: Network{Rate: 20 << 10}}); err != nil {
		t.Fatal(err)
	}
	send(t, c, text)
	if took := want(t, c, text); took < 80*time.Millisecond {
		t.Errorf("2 KiB at 20 KiB/s took %v, want 100 ms", took)
	}
	if err := l.Heal(1); err != nil {
		t.Fatal(err)
	}
	if err := l.Apply(2, Effect{Up: Network{Fragments: true}, Down: Network{Fragments: true}}); err != nil {
		t.Fatal(err)
	}
	send(t, c, text)
	reads := 0
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	var got []byte
	for b := make([]byte, 4096); len(got) < len(text); reads++ {
		n, err := c.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b[:n]...)
	}
	if string(got) != text || reads < 5 {
		t.Errorf("%d bytes in %d reads, want all in pieces", len(got), reads)
	}
}

// A client that does not read must not delay a change of its network, however many bytes are in flight. toxiproxy itself would hang.
func TestAFrozenReaderDoesNotHoldUpFaults(t *testing.T) {
	l := openProxy(t, echo(t))
	c := dial(t, l.Addr())
	stuffed := make(chan struct{})
	go func() {
		defer close(stuffed)
		_ = c.SetWriteDeadline(time.Now().Add(500 * time.Millisecond))
		block := make([]byte, 1<<20)
		for {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}()
	<-stuffed
	for n, e := range []Effect{{Down: Network{Hold: true}}, {Up: Network{Latency: time.Millisecond}}, {Cut: true}} {
		start := time.Now()
		if err := l.Apply(n, e); err != nil {
			t.Errorf("effect %d: %v", n, err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("effect %d took %v", n, took)
		}
	}
	for n := range 3 {
		if err := l.Heal(n); err != nil {
			t.Error(err)
		}
	}
	fresh := dial(t, l.Addr())
	send(t, fresh, "alive")
	want(t, fresh, "alive")
}

// A cut connection ends without the bytes in flight, and toxiproxy does not block on it.
func TestTheSenderOfACutConnectionIsNotBlocked(t *testing.T) {
	d := newDirection(1, 1)
	d.set(Network{Hold: true})
	in, out := make(chan *stream.StreamChunk), make(chan *stream.StreamChunk)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		(&toxic{dir: d}).Pipe(toxics.NewToxicStub(in, out))
	}()
	for range 2 {
		select {
		case in <- &stream.StreamChunk{Data: []byte("PING\r\n")}:
		case <-time.After(30 * time.Second):
			t.Fatal("nobody takes what was sent")
		}
		d.lose()
	}
	close(in)
	<-ended
	if c, open := <-out; open {
		t.Errorf("%q was passed on", c.Data)
	}
}

func TestRequestsAreCountedHoweverTheyAreTorn(t *testing.T) {
	sent := "*1\r\n$4\r\nPING\r\n" +
		"*3\r\n$7\r\nEVALSHA\r\n$14\r\n*1\r\n$4\r\nPING\r\n\r\n$0\r\n\r\n" + // a value that looks like a command is none
		"PING\r\n\r\n" + // a line of words is a command, an empty one none
		"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
	for size := 1; size <= len(sent); size++ {
		var r requests
		got := int64(0)
		for b := []byte(sent); len(b) > 0; b = b[min(size, len(b)):] {
			got += r.take(b[:min(size, len(b))])
		}
		if got != 4 {
			t.Errorf("in pieces of %d bytes: %d commands, want 4", size, got)
		}
	}
}

func TestRequestsOutliveNonsense(t *testing.T) {
	for _, sent := range []string{
		"*99999999999999999999\r\n", "$5\r\nhello\r\n", "*2\r\nwhat\r\n", "\x16\x03\x01\x02\x00\n\n\n", "*-1\r\n",
	} {
		var r requests
		r.take([]byte(sent + strings.Repeat("x", 100) + "\r\n"))
		if r.skip < 0 || r.words < 0 {
			t.Errorf("%q: %+v", sent, r)
		}
	}
}

// echoed reports whether addr echoes within the time.
func echoed(addr string, within time.Duration) bool {
	c, err := net.DialTimeout("tcp", addr, within)
	if err != nil {
		return false
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(within))
	_, _ = c.Write([]byte("x"))
	_, err = io.ReadFull(c, make([]byte, 1))
	return err == nil
}

// Effects of faults on a remote toxiproxy add up, and end with the faults.
func TestRemote(t *testing.T) {
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = upstream.Close() })
	go func() {
		for {
			c, err := upstream.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	api := ""
	err = redisfixture.Listen(redisfixture.Loopback, func(addr string) error {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return err
		}
		api = addr
		return l.Close()
	})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Listen(api)
	}()
	t.Cleanup(func() {
		_ = server.Collection.Clear()
		_ = server.Shutdown()
		<-done
	})
	c := control.NewClient(api)
	var proxy *control.Proxy
	if err := redisfixture.Await(t.Context(), func(context.Context) bool {
		proxy, err = c.CreateProxy("node-1", "127.0.0.1:0", upstream.Addr().String())
		return err == nil
	}); err != nil {
		t.Fatal(err)
	}
	w, err := NewRemote(proxy)
	if err != nil {
		t.Fatal(err)
	}
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	passes := func(want bool, within time.Duration) {
		t.Helper()
		if got := echoed(proxy.Listen, within); got != want {
			t.Errorf("it passes something on: %v, want %v", got, want)
		}
	}
	passes(true, 30*time.Second)
	do(w.Apply(1, Effect{Up: Network{Hold: true}}))
	passes(false, 200*time.Millisecond)
	do(w.Apply(2, Effect{Up: Network{Latency: time.Millisecond}, Down: Network{Latency: time.Millisecond, Jitter: time.Millisecond}}))
	passes(false, 200*time.Millisecond)
	do(w.Heal(1))
	passes(true, 30*time.Second)
	do(w.Apply(3, Effect{Cut: true}))
	do(w.Apply(4, Effect{Cut: true}))
	do(w.Heal(3))
	passes(false, 200*time.Millisecond)
	do(w.Heal(4))
	passes(true, 30*time.Second)
}
