package node

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/leasestorm/leasestorm/lease/poll"
)

// What a target says in its headers and its status takes neither memory nor lines of output.
func TestTargetsAreReadWithLimits(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, buf, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		long := "x"
		if strings.HasSuffix(r.URL.Path, "long") {
			long = strings.Repeat("x", 2*headerMax)
		}
		_, _ = buf.WriteString("HTTP/1.1 500 " + strings.Repeat("A", 3000) + "\r\nX-Long: " + long + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_ = buf.Flush()
		_, _ = io.Copy(io.Discard, buf) // Until the client closes: a close beside unread bytes resets the answer away.
	}))
	defer target.Close()
	u, err := url.Parse(target.URL)
	if err != nil {
		t.Fatal(err)
	}
	n := &node{target: u, http: httpClient()}
	for id, want := range map[string]string{"s": "target answered 500", "long": "exceeded"} {
		if err := n.send(context.Background(), poll.Session{ID: id}); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 300 {
			t.Errorf("%s: %.300v; want %s", id, err, want)
		}
	}
}

// The command health asks the node itself: no proxy, and no other that an answer names.
func TestHealthAsksNobodyElse(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server was asked") }))
	defer other.Close()
	there := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer there.Close()
	out := os.Stdout
	defer func() { os.Stdout = out }()
	os.Stdout = os.NewFile(^uintptr(0), "nowhere")
	addr := strings.TrimPrefix(there.URL, "http://")
	if code, err := askHealth([]string{addr}); code != exitDirty || err != nil {
		t.Errorf("%d, %v", code, err)
	}
	for _, bad := range []string{addr + "/../x", addr + "?x", "unix:/tmp/x", "h:0", "h:65536", "h:http", "u@h:1", "a/b:1"} {
		if _, err := askHealth([]string{bad}); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// A slot that does not confirm that it let go may still serve, and its session has not ended well.
func TestSlotThatDoesNotLetGo(t *testing.T) {
	status := 0
	slot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			w.WriteHeader(status)
		}
	}))
	defer slot.Close()
	u, err := url.Parse(slot.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, status = range []int{http.StatusNoContent, http.StatusServiceUnavailable} {
		r := &receiver{target: u, http: httpClient()}
		p := r.pipeline(tuning{slot: "1"})
		p.ctx = t.Context()
		if err := p.letGo(); (err == nil) != (status == http.StatusNoContent) {
			t.Errorf("%d: %v", status, err)
		}
	}
}
