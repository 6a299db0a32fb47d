package api

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/leasestorm/leasestorm/internal/headerlines"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// pipes is a listener whose connections come from where the test says.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// from is one end of a connection with that peer.
type from struct {
	net.Conn
	peer string
}

func (f from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.peer)) }

func TestConnectionsAreLimited(t *testing.T) {
	in := make(pipes, 1)
	l := LimitListener(in, Limits{Conns: 4, PeerConns: 2, Allowed: LAN(), Proxies: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}})
	got := make(chan net.Conn, 1)
	defer close(in)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			got <- c
		}
	}()
	var open []net.Conn
	for i, step := range []struct {
		peer  string // "": the first that is open is closed
		taken bool
	}{
		{"10.0.0.1:1", true}, {"10.0.0.1:2", true}, {"10.0.0.1:3", false}, {"[::ffff:10.0.0.1]:4", false},
		{"198.51.100.1:1", false}, // from where nobody may come
		{"", true}, {"10.0.0.1:5", true}, {"10.0.0.1:6", false},
		{"203.0.113.1:1", true}, {"203.0.113.1:2", true}, // a proxy, up to the limit of all
		{"203.0.113.1:3", false}, {"10.0.0.2:1", false}, {"", true}, {"10.0.0.2:1", true},
		{"", true}, {"", true}, {"", true}, {"[fd00::1:1]:1", true}, {"[fd00::2:2]:1", true}, {"[fd00::3:3]:1", false}, // one host's
		{"[fd00:0:0:1::1]:1", true}, // another's
	} {
		if step.peer == "" {
			open[0].Close()
			open[0].Close() // a second time counts for nothing
			open = open[1:]
			continue
		}
		ours, theirs := net.Pipe()
		defer theirs.Close()
		closed := make(chan error, 1)
		go func() {
			_, err := theirs.Read(make([]byte, 1))
			closed <- err
		}()
		in <- from{ours, step.peer}
		select {
		case c := <-got:
			defer c.Close()
			open = append(open, c)
			if !step.taken {
				t.Errorf("step %d: %s was taken", i, step.peer)
			}
		case err := <-closed:
			if step.taken || !errors.Is(err, io.EOF) {
				t.Errorf("step %d: %s was closed: %v", i, step.peer, err)
			}
		}
	}
}

// listening returns the address of a server that is closed with the test, and with those that it runs beside each other.
func listening(t *testing.T) string {
	t.Helper()
	h := setup(t, Config{}).handler.(*Handler)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer("", h)
	go func() { _ = srv.Serve(h.Listener(l)) }() // until it is closed
	t.Cleanup(func() { srv.Close() })
	return l.Addr().String()
}

// Who shows no token is gone within 5 s, whatever he sends and however slowly.
func TestStrangersAreGoneSoon(t *testing.T) {
	t.Parallel()
	addr := listening(t)
	for name, sent := range map[string]string{
		"nothing":        "",
		"half a header":  "POST /api/v3/intents HTTP/1.1\r\nHost: h\r\n",
		"a dripped body": "POST /api/v3/intents HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"wrong token":    "POST /api/v3/intents HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer x\r\nContent-Length: 100\r\n\r\n{",
		"health":         "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n",
		"readiness":      "GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n",
		"document":       "GET /api/v3/openapi.json HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			start := time.Now()
			if _, err := conn.Write([]byte(sent)); err != nil {
				t.Fatal(err)
			}
			// It reads until it is closed. What drips keeps the server's reads going.
			if err := conn.SetReadDeadline(start.Add(20 * time.Second)); err != nil {
				t.Fatal(err)
			}
			const every = 300 * time.Millisecond
			drip := time.NewTicker(every)
			defer drip.Stop()
			over, stalled := make(chan struct{}), make(chan time.Duration, 1)
			go func() {
				var late time.Duration // in which this process got no turn
				for last := start; ; {
					select {
					case now := <-drip.C:
						late, last = late+max(0, time.Since(last)-every), now
						_, _ = conn.Write([]byte(" ")) // it may be closed
					case <-over:
						stalled <- late
						return
					}
				}
			}()
			_, err = io.Copy(io.Discard, conn)
			took := time.Since(start)
			close(over)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal("the connection is still there")
			}
			if late := <-stalled; took > 5*time.Second+late {
				t.Errorf("closed after %v, of which the machine stalled for %v", took, late)
			}
		})
	}
}

// OPTIONS *, which net/http would answer by itself and keep the connection, comes to the handler as any other request.
func TestNothingIsAnsweredPastTheHandler(t *testing.T) {
	addr := listening(t)
	for _, path := range []string{"*", "/healthz"} {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "OPTIONS %s HTTP/1.1\r\nHost: h\r\n\r\n", path)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode < 400 || !resp.Close {
			t.Errorf("OPTIONS %s without a token: %s, close %v", path, resp.Status, resp.Close)
		}
	}
}

// A client that shows its token keeps its connection.
func TestKnownClientKeepsItsConnection(t *testing.T) {
	f := setup(t, Config{})
	h := f.handler.(*Handler)
	srv := httptest.NewUnstartedServer(h)

	srv.Listener = h.Listener(srv.Listener)
	srv.Start()
	defer srv.Close()
	req, err := http.NewRequest(http.MethodGet, srv.URL+"/api/v3/sessions", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+reader)
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Close {
		t.Errorf("%s, close %v", resp.Status, resp.Close)
	}
}

// pinged is a store that counts how often it is asked whether it answers.
type pinged struct {
	Store
	n   int
	err error
}

func (p *pinged) Ping(context.Context) error {
	p.n++
	return p.err
}

// However often anybody asks for readiness, Redis is asked once a second at most.
func TestReadinessIsRemembered(t *testing.T) {
	st := &pinged{}
	h, err := NewHandler(st, Config{Tokens: []Token{NewToken("w", writer, intent.ScopeWrite)}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
		return w.Code
	}
	for range 100 {
		if code := ask(); code != http.StatusOK {
			t.Fatalf("ready: %d", code)
		}
	}
	if st.n != 1 {
		t.Errorf("100 probes asked Redis %d times", st.n)
	}
	st.err = fmt.Errorf("%w: silence", store.ErrUnavailable)
	h.probe.next = time.Now()
	if code := ask(); code != http.StatusServiceUnavailable || st.n != 2 {
		t.Errorf("a second later: %d, asked %d times", code, st.n)
	}
	h.probe.under = true // another's question is under way: it is not waited for
	h.probe.next = time.Now()
	if code := ask(); code != http.StatusServiceUnavailable || st.n != 2 {
		t.Errorf("meanwhile: %d, asked %d times", code, st.n)
	}
}

// Neither who has many addresses nor who has the same one keeps out those who have a token.
func TestStrangersMakeRoom(t *testing.T) {
	for what, limits := range map[string]Config{"of all": {Conns: 2, PeerConns: 4}, "of one address": {Conns: 9, PeerConns: 2}} {
		t.Run(what, func(t *testing.T) { strangersMakeRoom(t, limits) })
	}
}

func strangersMakeRoom(t *testing.T, limits Config) {
	f := setup(t, limits)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := NewServer("", f.handler)
	go func() { _ = srv.Serve(f.handler.(*Handler).Listener(l)) }() // until it is closed
	t.Cleanup(func() { srv.Close() })
	ask := func(c net.Conn, token string) {
		t.Helper()
		fmt.Fprintf(c, "GET /api/v3/sessions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", token)
		if err := c.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatalf("a connection that showed a token: %v", err)
		}
		defer func() { _ = res.Body.Close() }()
		if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode == http.StatusUnauthorized {
			t.Fatalf("%s, %v", res.Status, err)
		}
	}
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	client := dial()
	ask(client, reader)
	stranger := dial()
	if _, err := stranger.Write([]byte("G")); err != nil {
		t.Fatal(err)
	}
	other := dial()
	ask(other, writer) // in the stranger's place
	if err := stranger.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := stranger.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the stranger reads %d bytes, %v", n, err)
	}
	ask(client, reader) // neither gave way, and nor do they now
	refused := dial()
	if err := refused.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if n, err := refused.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one too many reads %d bytes, %v", n, err)
	}
	ask(other, writer)
}

// Who has a token and many addresses cannot keep out those who have another one.
func TestATokenKeepsNobodyOut(t *testing.T) {
	const conns = 6
	f := setup(t, Config{Conns: conns, PeerConns: 4})
	in := make(pipes)
	srv := NewServer("", f.handler)
	limited := f.handler.(*Handler).Listener(in).(*limited)
	go func() { _ = srv.Serve(limited) }() // until it is closed
	end := sync.OnceValue(func() error {
		close(in) // of which the server's end waits
		return srv.Close()
	})
	t.Cleanup(func() { _ = end() })
	host := 0
	ask := func(token string) (net.Conn, error) {
		near, far := net.Pipe()
		host++
		in <- from{far, fmt.Sprintf("127.0.0.%d:1", host)}
		t.Cleanup(func() { near.Close() })
		if err := near.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(near, "GET /api/v3/sessions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", token); err != nil {
			return near, err
		}
		res, err := http.ReadResponse(bufio.NewReader(near), nil)
		if err != nil {
			return near, err
		}
		_, err = io.Copy(io.Discard, res.Body)
		return near, errors.Join(err, res.Body.Close())
	}
	for range conns {
		if _, err := ask(reader); err != nil {
			t.Fatal(err)
		}
	}
	var mine []net.Conn
	for range 2 {
		c, err := ask(writer)
		if err != nil {
			t.Fatalf("who has another token is kept out: %v", err)
		}
		mine = append(mine, c)
	}
	for range conns { // they make room for one another
		if _, err := ask(reader); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range mine {
		if _, err := fmt.Fprintf(c, "GET /api/v3/sessions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", writer); err != nil {
			t.Errorf("a connection within its token's share made room: %v", err)
		}
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	limited.mu.Lock()
	defer limited.mu.Unlock()
	if len(limited.tokens) != 0 || limited.open != 0 {
		t.Errorf("of closed connections %v of tokens and %d are counted still", limited.tokens, limited.open)
	}
}

// net/http bounds a header by its bytes only, and each line of it, however short, costs a hundred more.
func TestHeadersOfManyLinesAreRefused(t *testing.T) {
	conn, err := net.Dial("tcp", listening(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /api/v3/sessions HTTP/1.1\r\nHost: h\r\n%s", strings.Repeat("a:\r\n", headerlines.Most)) // and no end
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || !resp.Close {
		t.Errorf("%s, close %v", resp.Status, resp.Close)
	}
}

// One address has a quarter of all connections, unless something else is configured.
func TestAnAddressHasAQuarter(t *testing.T) {
	for conns, want := range map[int]int{0: 256, -1: 256, 100: 25, 2: 1} {
		if h := setup(t, Config{Conns: conns}).handler.(*Handler); h.cfg.PeerConns != want {
			t.Errorf("of %d: %d, want %d", conns, h.cfg.PeerConns, want)
		}
	}
}

// Of a body in chunks nothing is parsed, nor of the trailer behind it, whoever sends it and whatever for (but what net/http itself refuses: an
// Expect that nobody knows).
func TestChunksAreRefused(t *testing.T) {
	f := setup(t, Config{})
	read := false
	srv := NewServer("", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		read = true
		f.handler.ServeHTTP(w, r)
	}))
	in := make(pipes)
	go func() { _ = srv.Serve(f.handler.(*Handler).Listener(in)) }() // until it is closed
	t.Cleanup(func() { close(in); srv.Close() })
	for _, head := range []string{
		"POST /api/v3/intents HTTP/1.1\r\nAuthorization: Bearer " + writer,
		"POST /api/v3/intents HTTP/1.1\r\nExpect: 100-continue", "GET /healthz HTTP/1.1",
	} {
		near, far := net.Pipe()
		in <- from{far, "127.0.0.1:1"}
		if err := near.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		body := "2\r\n{}\r\n0\r\n" + strings.Repeat("a:\r\n", 400) + "\r\n"
		if _, err := io.WriteString(near, head+"\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"+body); err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(near)
		if err != nil || !strings.HasPrefix(string(said), "HTTP/1.1 411 ") || !strings.HasSuffix(string(said), `is not read"}`) || read {
			t.Errorf("%.30s: %q, %v; the handler was asked: %v", head, said, err, read)
		}
		near.Close()
	}
}

// An honest client whose body comes in chunks hears why it is refused, also while it still sends.
func TestWhoSendsChunksIsAnswered(t *testing.T) {
	addr := listening(t)
	for range 20 {
		resp, err := http.Post("http://"+addr+"/api/v3/intents", "application/json", io.MultiReader(strings.NewReader(strings.Repeat("x", 200_000))))
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusLengthRequired || !strings.Contains(string(said), "Content-Length") {
			t.Errorf("%d %q, %v", resp.StatusCode, said, err)
		}
		resp.Body.Close()
	}
}
