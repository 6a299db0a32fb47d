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

// A slot that does not confirm that it let go may still serve. It is asked again until it has, has ended the session, or the trust in the
// leases has ended: then the session has not ended well.
func TestSlotThatDoesNotLetGo(t *testing.T) {
	const ends, distrust = -1, -2 // what else than a status comes of being asked
	for name, tc := range map[string]struct {
		answers []int // to one DELETE after the other
		want    string
	}{
		"confirmed":       {[]int{http.StatusNoContent}, ""},
		"confirmed later": {[]int{http.StatusServiceUnavailable, http.StatusNotFound, http.StatusNoContent}, ""},
		"ended":           {[]int{http.StatusServiceUnavailable, ends}, ""},
		"never confirmed": {[]int{http.StatusServiceUnavailable, distrust}, "the slot answered 500"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			end, asked := make(chan struct{}), 0
			slot := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					_ = http.NewResponseController(w).Flush()
					select {
					case <-end:
					case <-r.Context().Done():
					}
					return
				}
				status := tc.answers[asked] // one is asked after the other was answered
				asked++
				switch status {
				case ends:
					close(end)
				case distrust:
					cancel()
				}
				if status < 0 {
					status = http.StatusInternalServerError
				}
				w.WriteHeader(status)
			}))
			defer slot.Close()
			u, err := url.Parse(slot.URL)
			if err != nil {
				t.Fatal(err)
			}
			r := &receiver{target: u, http: httpClient()}
			p := r.pipeline(tuning{slot: "1"})
			if err := p.Start(ctx, 1); err != nil {
				t.Fatal(err)
			}
			p.Stop()
			if err := p.Wait(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Wait: %v; want %q", err, tc.want)
			}
			if asked != len(tc.answers) {
				t.Errorf("asked %d times; want %d", asked, len(tc.answers))
			}
		})
	}
}
