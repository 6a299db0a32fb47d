package real

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/headerlines"
	"github.com/leasestorm/leasestorm/sim/history"
)

// lines is a standard output that somebody reads, or nobody.
type lines struct {
	mu     sync.Mutex
	text   bytes.Buffer
	closed error
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		return 0, l.closed
	}
	return l.text.Write(p)
}

func (l *lines) events(t *testing.T) (events []history.Event) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var d history.Decoder
	for line := range strings.Lines(l.text.String()) {
		var e history.Event
		if err := d.Decode([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events = append(events, e)
	}
	return events
}

// standalone runs a target that writes to out, and returns its URL, and what ends it and says how.
func standalone(t *testing.T, out *lines) (url string, end func() error) {
	t.Helper()
	return standaloneOf(t, Target{Out: out})
}

func standaloneOf(t *testing.T, target Target) (url string, end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	urls, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		target.Addr, target.Started = "127.0.0.1:0", func(url string) { urls <- url }
		ended <- target.Run(ctx)
	}()
	end = sync.OnceValue(func() error {
		cancel()
		http.DefaultClient.CloseIdleConnections()
		return <-ended
	})
	t.Cleanup(func() { _ = end() })
	select {
	case url = <-urls:
	case err := <-ended:
		t.Fatal(err)
	}
	return url, end
}

func TestStandaloneTargetTellsWhatItSees(t *testing.T) {
	out := &lines{}
	before := monotonic()
	url, end := standalone(t, out)
	long := strings.Repeat("s", nameMax+1)
	for i, c := range []struct {
		session, instance string
		fence             int64
		want              int
	}{
		{"b", "one", 5, 204}, {"a", "one", 2, 204}, {"b", "two", 6, 204}, {"b", "one", 5, 409}, {"b", "", 7, 400}, {long, "one", 1, 404},
	} {
		if got := pollAs(t.Context(), url, c.session, c.instance, c.fence); got != c.want {
			t.Errorf("poll %d: status %d, want %d", i+1, got, c.want)
		}
	}
	resp, err := http.Get(url + "/sessions")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var known []Known
	for d := json.NewDecoder(resp.Body); d.More(); {
		var k Known
		if err := d.Decode(&k); err != nil {
			t.Fatal(err)
		}
		known = append(known, k)
	}
	want := []Known{
		{Session: "a", Instance: "one", Fence: 2, Polls: 1}, {Session: "b", Instance: "two", Fence: 6, Polls: 2, Rejected: 1},
	}
	if len(known) != len(want) || known[0] != want[0] || known[1] != want[1] {
		t.Errorf("/sessions: %+v, want %+v", known, want)
	}
	if err := end(); err != nil {
		t.Errorf("ended with %v", err)
	}
	kinds, after := "", monotonic()
	for _, e := range out.events(t) {
		kinds += " " + e.Kind.String()
		if e.T < before || e.T > after {
			t.Errorf("%s at %d, want CLOCK_MONOTONIC from %d to %d", e.Kind, e.T, before, after)
		}
	}
	if kinds != " arrived served arrived served arrived served rejected" {
		t.Errorf("said%s", kinds)
	}
}

// A witness that nobody hears is none: it ends instead of answering polls that stand nowhere.
func TestStandaloneTargetEndsWhenNobodyReads(t *testing.T) {
	out := &lines{closed: errors.New("the reader has gone")}
	ended := make(chan error, 1)
	urls := make(chan string, 1)
	go func() {
		ended <- Target{Addr: "127.0.0.1:0", Out: out, Started: func(url string) { urls <- url }}.Run(t.Context())
	}()
	pollAs(t.Context(), <-urls, "s", "one", 1)
	if err := <-ended; !errors.Is(err, ErrTarget) || !errors.Is(err, out.closed) {
		t.Errorf("ended with %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A connection that asks nothing more is closed, however it is kept open from afar, and not before its time: a node polls on it again.
func TestTargetClosesIdleConnections(t *testing.T) {
	const idle = 500 * time.Millisecond
	url, _ := standaloneOf(t, Target{Out: &lines{}, idle: idle})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(conn)
	var asked time.Time
	for range 2 {
		asked = time.Now()
		if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: target\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK || resp.Close {
			t.Fatalf("status %d, %v, close %v", resp.StatusCode, err, resp.Close)
		}
		_ = resp.Body.Close()
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) || time.Since(asked) < idle {
		t.Errorf("after %v: %v, want the end of the connection after %v", time.Since(asked), err, idle)
	}
}

// A body that does not end ends the connection, and one that does changes nothing: neither what is answered nor how long a pipeline lasts.
func TestTargetWaitsForNoBody(t *testing.T) {
	const idle = 500 * time.Millisecond
	url, _ := standaloneOf(t, Target{Out: &lines{}, idle: idle})
	for name, tt := range map[string]struct {
		length int // said of a body of one byte
		want   int
	}{"one that ends": {1, http.StatusOK}, "one that does not": {2, http.StatusRequestEntityTooLarge}, "a long one": {1 << 30, http.StatusRequestEntityTooLarge}} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			asked := time.Now()
			if _, err := fmt.Fprintf(conn, "POST /tune/%d HTTP/1.1\r\nHost: target\r\nX-Instance: i\r\nX-Session: s\r\nX-Service: %d\r\n"+
				"X-Fence: 1\r\nX-Service-Fence: 1\r\nContent-Length: %d\r\n\r\n{", tt.length, tt.length, tt.length); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || resp.StatusCode != tt.want {
				t.Fatalf("%v, %v; want %d", resp, err, tt.want)
			}
			defer resp.Body.Close()
			if tt.want == http.StatusOK { // its body is the pipeline
				_ = conn.SetDeadline(asked.Add(3 * idle))
				if _, err := io.Copy(io.Discard, resp.Body); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("the pipeline ended: %v", err)
				}
				return
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || !resp.Close {
				t.Errorf("%v, close %v", err, resp.Close)
			}
			if _, err := conn.Read(make([]byte, 1)); errors.Is(err, os.ErrDeadlineExceeded) || err == nil {
				t.Errorf("the connection is still there: %v", err)
			}
		})
	}
}

// What net/http answers by itself ends the connection too, if the rest of its body does not come.
func TestTargetWaitsForNoBodyOfWhatItIsNotAsked(t *testing.T) {
	url, _ := standaloneOf(t, Target{Out: &lines{}, idle: 500 * time.Millisecond})
	for _, head := range []string{"POST /poll/a HTTP/1.1\r\nExpect: x", "OPTIONS * HTTP/1.1"} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := fmt.Fprintf(conn, "%s\r\nHost: target\r\nContent-Length: 5\r\n\r\n", head); err != nil {
			t.Fatal(err)
		}
		if said, err := io.ReadAll(conn); err != nil {
			t.Errorf("%s: %q, %v: want the end of the connection", head, said, err)
		}
	}
}

// The trailer of a body, of which net/http keeps a hundred bytes for each of its lines, goes with it.
func TestTargetKeepsNoTrailer(t *testing.T) {
	kept := make(chan http.Header, 1)
	s := httptest.NewServer(bodiless(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { kept <- r.Trailer }), time.Minute))
	defer s.Close()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, io.NopCloser(strings.NewReader("body")))
	if err != nil {
		t.Fatal(err)
	}
	req.Trailer = http.Header{"Said": {"last"}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if trailer := <-kept; len(trailer) > 0 {
		t.Errorf("%v is kept", trailer)
	}
}

// reader is a client that looks at each piece of an answer as it is written.
type reader struct {
	*httptest.ResponseRecorder
	piece func()
}

func (r reader) Write(b []byte) (int, error) {
	r.piece()
	return r.ResponseRecorder.Write(b)
}

// Whoever asks for all sessions and reads nothing has a page kept for him, and not a copy of all. Nothing is told twice or left out.
func TestSessionsAreToldByThePage(t *testing.T) {
	w := &witness{clock: newClock(), out: io.Discard, known: map[string]*Known{}, telling: make(chan struct{}, 1)}
	for i := range sessionsMax + 1 {
		w.Add(history.Event{Kind: history.Arrived, Session: strconv.Itoa(i * 7919 % sessionsMax), Instance: "one", Fence: 1})
	}
	w.Add(history.Event{Kind: history.Arrived, Session: "one too many", Instance: "one", Fence: 1})
	var before, first runtime.MemStats
	to := reader{httptest.NewRecorder(), func() {
		if first.TotalAlloc == 0 {
			runtime.ReadMemStats(&first)
			w.Add(history.Event{Kind: history.Arrived, Session: "99", Instance: "two", Fence: 2}) // meanwhile
			more := httptest.NewRecorder()
			if w.tell(more, nil); more.Code != http.StatusServiceUnavailable || more.Header().Get("Retry-After") == "" {
				t.Errorf("one that asks beside as many as are told at once: status %d, %v", more.Code, more.Header())
			}
		}
	}}
	runtime.ReadMemStats(&before)
	w.tell(to, nil)
	if took := first.TotalAlloc - before.TotalAlloc; took > 256<<10 {
		t.Errorf("%d bytes were taken before the first was written", took)
	}
	var told []Known
	for d := json.NewDecoder(to.Body); d.More(); {
		var k Known
		if err := d.Decode(&k); err != nil {
			t.Fatal(err)
		}
		told = append(told, k)
	}
	if !slices.IsSortedFunc(told, func(a, b Known) int { return strings.Compare(a.Session, b.Session) }) || len(told) != sessionsMax {
		t.Errorf("%d sessions are told of, want %d in order", len(told), sessionsMax)
	}
	if last := told[len(told)-12]; last.Session != "99" && !slices.ContainsFunc(told, func(k Known) bool {
		return k.Session == "99" && k.Instance == "two" && k.Polls == 2
	}) {
		t.Error("of what changed meanwhile the old is told")
	}
}

// Answers that nobody reads end the connection, and there are no more connections than the memory of a target bears.
func TestTargetLeavesWhoDoesNotRead(t *testing.T) {
	url, _ := standaloneOf(t, Target{Out: &lines{}, written: 200 * time.Millisecond})
	at := strings.TrimPrefix(url, "http://")
	for i := range 500 {
		pollAs(t.Context(), url, strings.Repeat("s", nameMax-4)+strconv.Itoa(i), "one", 1)
	}
	c := dial(t, at)
	if err := c.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
		t.Fatal(err)
	}
	_ = c.SetDeadline(time.Now().Add(60 * time.Second))
	var err error
	for err == nil { // until it is left, and what is sent is refused
		_, err = c.Write([]byte("GET /sessions HTTP/1.1\r\nHost: x\r\n\r\n"))
	}
	if isTimeout(err) {
		t.Errorf("who asks without reading: %v, want the end of the connection", err)
	}
	_ = c.Close()
	l, lerr := net.Listen("tcp", "127.0.0.1:0")
	if lerr != nil {
		t.Fatal(lerr)
	}
	b := bounding(l, 1, time.Second, func(error) {})
	t.Cleanup(func() { _ = b.Close() })
	go func() { _, _ = b.Accept(); _, _ = b.Accept() }()
	one, more := dial(t, l.Addr().String()), dial(t, l.Addr().String())
	_ = more.SetDeadline(time.Now().Add(30 * time.Second))
	if _, err := more.Read(make([]byte, 1)); err == nil || isTimeout(err) {
		t.Errorf("one connection more: %v, want its end", err)
	}
	_ = one.SetReadDeadline(time.Now())
	if _, err := one.Read(make([]byte, 1)); !isTimeout(err) {
		t.Errorf("the first one: %v, want it to stay", err)
	}
}

// What is kept of a poll is a name, and not the request that it came in.
func TestTargetKeepsNamesOnly(t *testing.T) {
	const polls, long = 1000, headerlines.Bytes
	url, _ := standaloneOf(t, Target{Out: &lines{}})
	kept := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := kept()
	for i := range polls {
		if got := pollAs(t.Context(), url, strconv.Itoa(i)+"?"+strings.Repeat("q", long), "one", 1); got != http.StatusNoContent {
			t.Fatalf("poll %d: status %d", i, got)
		}
	}
	if is := kept(); is > before+polls*long/2 {
		t.Errorf("%d polls of %d bytes have %d kept", polls, long, is-before)
	}
}

// Whoever reaches a target may send it headers: of what is kept while they have no end, each line costs a hundred bytes, however short.
func TestTargetRefusesHeadersOfManyLines(t *testing.T) {
	url, _ := standaloneOf(t, Target{Out: &lines{}})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(8 * time.Second)) // a header may take ten
	if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: target\r\n" + strings.Repeat("a:\r\n", headerlines.Most))); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || !resp.Close {
		t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
	}
}
