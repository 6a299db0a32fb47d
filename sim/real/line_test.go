package real

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/servetest"
)

// echo is an upstream that answers with what it gets.
func echo(t *testing.T) string {
	t.Helper()
	return servetest.Serve(t, func(c net.Conn) { _, _ = io.Copy(c, c) })
}

func openLine(t *testing.T, upstream string) *line {
	t.Helper()
	l, err := newLine("node-1", loopback, upstream, 1, 1, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
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
	hold := network{hold: true}
	for name, e := range map[string]effect{
		"both ways": {up: hold, down: hold}, "requests": {up: hold}, "replies": {down: hold},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLine(t, echo(t))
			c := dial(t, l.addr())
			send(t, c, "before ")
			want(t, c, "before ")
			if err := l.apply(1, e); err != nil {
				t.Fatal(err)
			}
			send(t, c, "during ")
			send(t, c, "it ")
			silent(t, c, 50*time.Millisecond)
			fresh := dial(t, l.addr()) // a connection made meanwhile is as silent
			send(t, fresh, "hello")
			silent(t, fresh, 20*time.Millisecond)
			if err := l.heal(1); err != nil {
				t.Fatal(err)
			}
			want(t, c, "during it ")
			want(t, fresh, "hello")
			send(t, c, "after")
			want(t, c, "after")
		})
	}
}

// What a process sent before it died is in the network: it arrives when the black hole heals.
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
	way := openLine(t, l.Addr().String())
	if err := way.apply(1, effect{up: network{hold: true}}); err != nil {
		t.Fatal(err)
	}
	c := dial(t, way.addr())
	send(t, c, "last words")
	_ = c.Close()
	select {
	case text := <-arrived:
		t.Fatalf("%q came through a black hole", text)
	case <-time.After(50 * time.Millisecond):
	}
	if err := way.heal(1); err != nil {
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
	l := openLine(t, echo(t))
	c := dial(t, l.addr())
	send(t, c, "x")
	want(t, c, "x")
	if err := l.apply(1, effect{cut: true}); err != nil {
		t.Fatal(err)
	}
	if err := l.apply(2, effect{cut: true}); err != nil { // a second cut of the same line changes nothing
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read from a cut connection: %v, want a reset", err)
	}
	if fresh, err := net.Dial("tcp", l.addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		if err == nil {
			_ = fresh.Close()
		}
		t.Errorf("dial of a cut line: %v, want a refusal", err)
	}
	if err := l.heal(1); err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("tcp", l.addr()); err == nil {
		t.Error("the line is back although one of two cuts goes on")
	}
	if err := l.heal(2); err != nil {
		t.Fatal(err)
	}
	again := dial(t, l.addr())
	send(t, again, "y")
	want(t, again, "y")
}

// While Redis is down nobody comes in, and what is left of who tried does not keep the line from being healed.
func TestALineToNobodyHeals(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = nobody.Close()
	l := openLine(t, nobody.Addr().String())
	for range 3 {
		if c, err := net.Dial("tcp", l.addr()); err == nil { // else it was reset already
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("who finds nobody is not sent away: %v", err)
			}
			_ = c.Close()
		}
		if err := errors.Join(l.apply(1, effect{cut: true}), l.heal(1)); err != nil {
			t.Fatal(err)
		}
	}
	if c, err := net.Dial("tcp", l.addr()); err == nil {
		_ = c.Close()
	} else if errors.Is(err, syscall.ECONNREFUSED) {
		t.Error("the line is not open")
	}
}

func TestLatencyDelaysAndKeepsOrder(t *testing.T) {
	l := openLine(t, echo(t))
	c := dial(t, l.addr())
	slow := network{latency: 40 * time.Millisecond, jitter: 20 * time.Millisecond}
	if err := l.apply(1, effect{up: slow, down: slow}); err != nil {
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
	if err := l.heal(1); err != nil {
		t.Fatal(err)
	}
	want(t, c, "in flight when it heals")
}

// A long delay is not cut off because its sender has closed.
func TestAClosedConnectionWaitsForWhatIsUnderWay(t *testing.T) {
	late := &link{last: time.Now().Add(40 * time.Second)}
	if got := late.lingers(); got <= 40*time.Second || got > 40*time.Second+wireLinger {
		t.Errorf("what comes in 40 s is waited for %v", got)
	}
	if got := new(link).lingers(); got != wireLinger {
		t.Errorf("what has come is waited for %v", got)
	}
}

func TestDelaysAreDrawnFromTheSeed(t *testing.T) {
	draw := func(seed uint64) (out []time.Duration) {
		d := newDirection(seed, 3)
		for range 20 {
			out = append(out, d.delay(network{latency: time.Second, jitter: time.Second}))
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
	l := openLine(t, echo(t))
	c := dial(t, l.addr())
	text := string(bytes.Repeat([]byte("0123456789abcdef"), 128)) // 2 KiB
	if err := l.apply(1, effect{up: network{rate: 20 << 10}}); err != nil {
		t.Fatal(err)
	}
	send(t, c, text)
	if took := want(t, c, text); took < 80*time.Millisecond {
		t.Errorf("2 KiB at 20 KiB/s took %v, want 100 ms", took)
	}
	if err := l.heal(1); err != nil {
		t.Fatal(err)
	}
	if err := l.apply(2, effect{up: network{fragments: true}, down: network{fragments: true}}); err != nil {
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

// A client that does not read, while much is under way, must not hold up a change of its network: toxiproxy itself hangs
// then.
func TestAFrozenReaderDoesNotHoldUpFaults(t *testing.T) {
	l := openLine(t, echo(t))
	c := dial(t, l.addr())
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
	for n, e := range []effect{{down: network{hold: true}}, {up: network{latency: time.Millisecond}}, {cut: true}} {
		start := time.Now()
		if err := l.apply(n, e); err != nil {
			t.Errorf("effect %d: %v", n, err)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("effect %d took %v", n, took)
		}
	}
	for n := range 3 {
		if err := l.heal(n); err != nil {
			t.Error(err)
		}
	}
	fresh := dial(t, l.addr())
	send(t, fresh, "alive")
	want(t, fresh, "alive")
}
