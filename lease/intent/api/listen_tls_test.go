package api

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease/intent"
)

// none is a store without sessions.
type none struct{ Store }

func (none) List(context.Context, string, int) ([]intent.Session, string, error) { return nil, "", nil }

// encrypted runs f with a dialler of a server of HTTP/2, in a bubble.
func encrypted(t *testing.T, f func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	lends := httptest.NewTLSServer(http.NotFoundHandler())
	lends.Close()
	synctest.Test(t, func(t *testing.T) {
		h, err := NewHandler(none{}, Config{Tokens: []Token{NewToken("r", reader, intent.ScopeRead)}, Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		in, srv := make(pipes), NewServer("", h)
		// A pipe keeps nothing: a ticket that nobody reads would hold up the server.
		srv.TLSConfig = &tls.Config{Certificates: lends.TLS.Certificates, SessionTicketsDisabled: true}
		go func() { _ = srv.ServeTLS(h.Listener(in), "", "") }() // until it is closed
		defer srv.Close()
		defer close(in)
		f(t, func() net.Conn {
			near, far := net.Pipe()
			in <- from{far, "127.0.0.1:1"}
			return near
		})
	})
}

var trusting = tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}}

// HTTP/2 has no time-out for a header: who says nothing after the handshake, or asks nothing, is gone as soon as others are.
func TestEncryptedStrangersAreGoneSoon(t *testing.T) {
	for name, sent := range map[string]string{
		"silent after the handshake": "",
		"asks nothing":               "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			encrypted(t, func(t *testing.T, dial func() net.Conn) {
				began, conn := time.Now(), tls.Client(dial(), &trusting)
				defer conn.Close()
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
		encrypted(t, func(t *testing.T, dial func() net.Conn) {
			dialled := 0
			transport := &http.Transport{TLSClientConfig: trusting.Clone(), ForceAttemptHTTP2: true,
				DialContext: func(context.Context, string, string) (net.Conn, error) { dialled++; return dial(), nil }}
			defer transport.CloseIdleConnections()
			for range 2 {
				req, err := http.NewRequest(http.MethodGet, "https://h/api/v3/sessions", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", "Bearer "+reader)
				resp, err := transport.RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				if resp.Body.Close(); resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
					t.Fatalf("%s %s", resp.Proto, resp.Status)
				}
				<-time.After(30 * time.Second)
			}
			if dialled != 1 {
				t.Errorf("%d connections", dialled)
			}
		})
	})
}

// A connection of HTTP/2 is told how many requests it may have under way, which take memory like connections.
func TestRequestsOfAConnectionAreBounded(t *testing.T) {
	encrypted(t, func(t *testing.T, dial func() net.Conn) {
		conn := tls.Client(dial(), &trusting)
		defer conn.Close()
		if _, err := io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"); err != nil {
			t.Fatal(err)
		}
		frame := make([]byte, 9)
		if _, err := io.ReadFull(conn, frame); err != nil || frame[3] != 4 {
			t.Fatalf("%x, %v; want SETTINGS", frame, err)
		}
		settings := make([]byte, int(frame[1])<<8|int(frame[2]))
		if _, err := io.ReadFull(conn, settings); err != nil {
			t.Fatal(err)
		}
		const maxConcurrentStreams = 3
		for ; len(settings) >= 6; settings = settings[6:] {
			if binary.BigEndian.Uint16(settings) == maxConcurrentStreams {
				if n := binary.BigEndian.Uint32(settings[2:]); n != streamsMax {
					t.Errorf("%d requests at once; want %d", n, streamsMax)
				}
				return
			}
		}
		t.Error("no bound is told")
	})
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
