package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// lines is a standard output, with or without a reader.
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

// standalone runs a target that writes to out. It returns the URL, and a function that ends the target and returns its error.
func standalone(t *testing.T, out *lines) (url string, end func() error) {
	t.Helper()
	target := Server{Out: out}
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
	before := host.Monotonic()
	url, end := standalone(t, out)
	for i, c := range []struct {
		session, instance string
		fence             int64
		want              int
	}{
		{"b", "one", 5, 204}, {"a", "one", 2, 204}, {"b", "two", 6, 204}, {"b", "one", 5, 409}, {"b", "", 7, 400},
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
	kinds, after := "", host.Monotonic()
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

// A target whose output is not read ends, because it must not answer polls that it cannot record.
func TestStandaloneTargetEndsWhenNobodyReads(t *testing.T) {
	out := &lines{closed: errors.New("the reader has gone")}
	ended := make(chan error, 1)
	urls := make(chan string, 1)
	go func() {
		ended <- Server{Addr: "127.0.0.1:0", Out: out, Started: func(url string) { urls <- url }}.Run(t.Context())
	}()
	pollAs(t.Context(), <-urls, "s", "one", 1)
	if err := <-ended; !errors.Is(err, ErrServe) || !errors.Is(err, out.closed) {
		t.Errorf("ended with %v", err)
	}
	http.DefaultClient.CloseIdleConnections()
}
