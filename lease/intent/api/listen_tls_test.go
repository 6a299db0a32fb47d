package api

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// encrypted returns a server of HTTP/2 that is closed with the test.
func encrypted(t *testing.T) *httptest.Server {
	t.Helper()
	h := setup(t, Config{}).handler.(*Handler)
	srv := httptest.NewUnstartedServer(h)
	srv.Config, srv.EnableHTTP2, srv.Listener = NewServer("", h), true, h.Listener(srv.Listener)
	srv.StartTLS()
	t.Cleanup(srv.Close)
	return srv
}

// HTTP/2 has no time-out for a header: who says nothing after the handshake, or asks nothing, is gone as soon as others are.
func TestEncryptedStrangersAreGoneSoon(t *testing.T) {
	t.Parallel()
	srv := encrypted(t)
	for name, sent := range map[string]string{
		"silent after the handshake": "",
		"asks nothing":               "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := tls.Dial("tcp", srv.Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatal(err)
			}
			if err := conn.SetReadDeadline(time.Now().Add(8 * time.Second)); err != nil { // net/http waits for ten and sixty
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection is still there")
			}
		})
	}
	t.Run("with a token", func(t *testing.T) {
		t.Parallel()
		var dialled int
		client := srv.Client()
		client.Transport.(*http.Transport).DialContext = nil
		client.Transport.(*http.Transport).Dial = func(network, addr string) (net.Conn, error) { //nolint:staticcheck // it is short
			dialled++
			return net.Dial(network, addr)
		}
		for range 2 {
			req, err := http.NewRequest(http.MethodGet, srv.URL+"/api/v3/sessions", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+reader)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if resp.Body.Close(); resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
				t.Fatalf("%s %s", resp.Proto, resp.Status)
			}
			<-time.After(strangerTimeout + 2*time.Second)
		}
		if dialled != 1 {
			t.Errorf("%d connections", dialled)
		}
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
