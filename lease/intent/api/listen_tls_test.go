package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/headerlines"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// none is a store without sessions.
type none struct{ Store }

func (none) List(context.Context, string, int) ([]intent.Session, string, error) { return nil, "", nil }

// overTLS runs f with a dialler of an API that ends TLS, in a bubble.
func overTLS(t *testing.T, f func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	overTLSOf(t, func(*tls.Config) {}, func(l net.Listener) net.Listener { return l }, f)
}

// overTLSOf is overTLS with another configuration and another listener around.
func overTLSOf(t *testing.T, change func(*tls.Config), around func(net.Listener) net.Listener, f func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	lends := httptest.NewTLSServer(http.NotFoundHandler())
	lends.Close()
	synctest.Test(t, func(t *testing.T) {
		// A pipe keeps nothing: a ticket that nobody reads would hold up the server.
		config := &tls.Config{Certificates: lends.TLS.Certificates, SessionTicketsDisabled: true}
		change(config)
		h, err := NewHandler(none{}, Config{Tokens: []Token{NewToken("r", reader, intent.ScopeRead)}, Logger: zap.NewNop(), TLS: config})
		if err != nil {
			t.Fatal(err)
		}
		in, srv := make(pipes), NewServer("", h)
		go func() { _ = srv.Serve(around(h.Listener(in))) }() // until it is closed
		defer srv.Close()
		defer close(in)
		f(t, func() net.Conn {
			near, far := net.Pipe()
			in <- from{far, "127.0.0.1:1"}
			return near
		})
	})
}

// trusting offers HTTP/2, which no API speaks.
var trusting = tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}

// asks sends requests, all by one connection.
func asks(t *testing.T, dial func() net.Conn, requests int, pause time.Duration) {
	t.Helper()
	dialled := 0
	transport := &http.Transport{TLSClientConfig: trusting.Clone(), ForceAttemptHTTP2: true,
		DialContext: func(context.Context, string, string) (net.Conn, error) { dialled++; return dial(), nil }}
	defer transport.CloseIdleConnections()
	for range requests {
		req, err := http.NewRequest(http.MethodGet, "https://h/api/v3/sessions", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+reader)
		req.Header.Set("Cookie", strings.Repeat("x", 500))
		resp, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if resp.Body.Close(); resp.StatusCode != http.StatusOK || resp.ProtoMajor != 1 {
			t.Fatalf("%s %s", resp.Proto, resp.Status)
		}
		<-time.After(pause)
	}
	if dialled != 1 {
		t.Errorf("%d connections", dialled)
	}
}

// hiding is a listener whose connections have the methods of net.Conn only, as those of who counts bytes.
type hiding struct{ net.Listener }

func (l hiding) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return struct{ net.Conn }{c}, err
}

// Honest clients are served whatever the caller puts around the listener, and whichever configuration he chooses for one of them.
func TestTLSOfTheCallersOwn(t *testing.T) {
	as := func(l net.Listener) net.Listener { return l }
	for name, tt := range map[string]struct {
		change func(*tls.Config)
		around func(net.Listener) net.Listener
	}{
		"a listener around": {func(*tls.Config) {}, func(l net.Listener) net.Listener { return hiding{l} }},
		"chosen for a client": {func(c *tls.Config) {
			chosen := c.Clone()
			chosen.NextProtos = []string{"h2"}
			c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return chosen, nil }
		}, as},
	} {
		t.Run(name, func(t *testing.T) {
			overTLSOf(t, tt.change, tt.around, func(t *testing.T, dial func() net.Conn) { asks(t, dial, 20, time.Second) })
		})
	}
}

// Who says nothing after the handshake, or half a header, is gone as soon as who is not encrypted.
func TestEncryptedStrangersAreGoneSoon(t *testing.T) {
	for name, sent := range map[string]string{"silent after the handshake": "", "half a header": "GET / HTTP/1.1\r\n"} {
		t.Run(name, func(t *testing.T) {
			overTLS(t, func(t *testing.T, dial func() net.Conn) {
				began, conn := time.Now(), tls.Client(dial(), &trusting)
				defer conn.Close()
				<-time.After(strangerTimeout - time.Millisecond) // the handshake has as long
				if _, err := io.WriteString(conn, sent); err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, conn) // to its end
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("closed after %v", took)
				}
			})
		})
	}
	t.Run("with a token", func(t *testing.T) {
		overTLS(t, func(t *testing.T, dial func() net.Conn) {
			asks(t, dial, 2, 30*time.Second)
		})
	})
}

// The lines of a header are counted inside of TLS as they are without.
func TestEncryptedHeadersAreBounded(t *testing.T) {
	for name, line := range map[string]string{
		"of many lines": strings.Repeat("a:\r\n", headerlines.Most), "with a trailer": "Trailer: a\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			overTLS(t, func(t *testing.T, dial func() net.Conn) {
				conn := tls.Client(dial(), &trusting)
				defer conn.Close()
				if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: h\r\n"+line); err != nil { // and no end
					t.Fatal(err)
				}
				resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if resp.StatusCode != http.StatusBadRequest || !resp.Close {
					t.Errorf("%s, close %v", resp.Status, resp.Close)
				}
			})
		})
	}
}

// Of a greeting that names thousands of protocols crypto/tls keeps ten times its bytes until the client answers.
func TestGreetingsAreBounded(t *testing.T) {
	for names, want := range map[int]bool{1000: true, greetingMax / 2: false} {
		overTLS(t, func(t *testing.T, dial func() net.Conn) {
			names := append(slices.Repeat([]string{"x"}, names), "http/1.1")
			conn := tls.Client(dial(), &tls.Config{InsecureSkipVerify: true, NextProtos: names})
			defer conn.Close()
			err := conn.Handshake()
			if (err == nil) != want {
				t.Errorf("%d protocols: %v", len(names), err)
			}
		})
	}
}

// ServeTLS reads headers where nobody counts their lines: it serves nobody, and says so.
func TestServeTLSServesNobody(t *testing.T) {
	lends := httptest.NewTLSServer(http.NotFoundHandler())
	lends.Close()
	var out bytes.Buffer
	log.SetOutput(&out)
	defer log.SetOutput(os.Stderr)
	in, srv := make(pipes), NewServer("", http.NotFoundHandler())
	srv.TLSConfig = lends.TLS
	ended := make(chan error)
	go func() { ended <- srv.ServeTLS(in, "", "") }()
	near, far := net.Pipe()
	in <- from{far, "127.0.0.1:1"}
	if err := tls.Client(near, &trusting).Handshake(); err == nil {
		t.Error("it shakes hands")
	}
	close(in)
	srv.Close()
	<-ended
	if !strings.Contains(out.String(), "Config.TLS") {
		t.Errorf("%q", out.String())
	}
}

// Strangers do not fill the log; a panic is in it each time.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	var out bytes.Buffer
	log.SetOutput(&out)
	defer log.SetOutput(os.Stderr)
	complaints := NewServer("", http.NotFoundHandler()).ErrorLog
	for i := range 1000 {
		complaints.Printf("http: TLS handshake error from 203.0.113.9:%d: EOF", i)
	}
	for i := range 3 {
		complaints.Printf("http: panic serving 203.0.113.9:%d: oops", i)
	}
	if n := strings.Count(out.String(), "\n"); n != 4 || strings.Count(out.String(), "panic") != 3 {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

// Who has a token keeps half of what one address may have, so that another token of the same address finds room.
func TestATokenKeepsHalfOfAnAddress(t *testing.T) {
	const peer = 4
	h := setup(t, Config{Conns: 100, PeerConns: peer}).handler.(*Handler)
	srv := httptest.NewUnstartedServer(h)
	srv.Config, srv.Listener = NewServer("", h), h.Listener(srv.Listener)
	srv.Start()
	t.Cleanup(srv.Close)
	ask := func(token string) (net.Conn, error) {
		c, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "GET /api/v3/sessions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %s\r\n\r\n", token)
		_, err = c.Read(make([]byte, 1))
		return c, err
	}
	for i := range peer {
		if _, err := ask(reader); err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
	}
	for i := range peer / 2 {
		if _, err := ask(writer); err != nil {
			t.Errorf("the other token's connection %d: %v", i, err)
		}
	}
}
