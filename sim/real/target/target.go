// Package target is the polled target and the witness of pipelines, in a run or as a server of its own.
package target

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// Target is the polled target, an HTTP server beside the proxies and an independent witness. It accepts POST /poll/{sessionID} with the
// headers X-Instance and X-Fence. It refuses a fence that is older than the session's highest one with 409. Its methods are safe for
// concurrent use.
type Target struct {
	clock  *host.Clock
	rec    Recorder
	serve  time.Duration // duration of an answer
	URL    string
	server *http.Server
	tell   func(*history.Event) // called for each accepted arrival; must not block
	served chan struct{}        // closed when the server's goroutine has ended
	ended  error                // error of Serve, valid once served is closed
	stop   chan struct{}        // closed to abort the polls being served
	away   func()               // detaches from a target that serves elsewhere; nil: this one serves

	number     atomic.Int64
	Polls      atomic.Int64
	Rejected   atomic.Int64
	Violations atomic.Int64 // polls accepted while another instance was served; for the progress line only
	Strangers  atomic.Int64 // polls of unknown sessions

	mu       sync.RWMutex
	sessions map[string]*polled
	meets    bool // a poll adds an unknown session
}

// Recorder gets events.
type Recorder interface{ Add(e history.Event) }

type polled struct {
	mu       sync.Mutex
	fence    int64
	serving  map[string]int // instance → polls being served
	slow     time.Duration  // duration of an answer, if longer than target.serve
	hang     chan struct{}  // polls wait until it is closed; nil: they do not
	unlisted bool           // GET /sessions omits it
}

// Follow returns a target that another process serves, and that writes its events to out. away detaches from this target. If the
// target ends before away is called, Follow calls lost.
func Follow(out io.ReadCloser, c *host.Clock, rec Recorder, tell func(*history.Event), away, lost func()) *Target {
	t := &Target{
		clock: c, rec: rec, tell: tell, served: make(chan struct{}), stop: make(chan struct{}), sessions: map[string]*polled{}, away: away,
	}
	go func() {
		defer close(t.served)
		defer func() { _ = out.Close() }()
		var decoder history.Decoder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e history.Event
			failed := decoder.Decode(lines.Bytes(), &e) // fails for a log line or a partial line
			if e.T = c.FromMono(e.T); failed == nil && e.T >= 0 {
				t.heard(&e)
			}
		}
		if !host.Closed(t.stop) {
			lost()
		}
	}()
	return t
}

// Dial connects to the target.
func (t *Target) Dial() (net.Conn, error) {
	return net.DialTimeout("tcp", strings.TrimPrefix(t.URL, "http://"), time.Second)
}

// heard counts and records an event of a target that another process serves.
func (t *Target) heard(e *history.Event) {
	switch e.Kind {
	case history.Arrived:
		t.Polls.Add(1)
		t.tell(e)
	case history.Rejected:
		t.Rejected.Add(1)
	}
	t.rec.Add(*e)
}

// Add registers a session. Sessions stay known after their removal, so that their late polls are witnessed too.
func (t *Target) Add(session string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[session] == nil {
		t.sessions[session] = &polled{serving: map[string]int{}}
	}
}

// List adds a session to the answer of GET /sessions, a JSON array of IDs, or removes it.
func (t *Target) List(session string, listed bool) {
	if p := t.find(session); p != nil {
		p.mu.Lock()
		p.unlisted = !listed
		p.mu.Unlock()
	}
}

func (t *Target) list(w http.ResponseWriter, _ *http.Request) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	listed := []string{}
	for id, p := range t.sessions {
		p.mu.Lock()
		if !p.unlisted {
			listed = append(listed, id)
		}
		p.mu.Unlock()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(listed)
}

func (t *Target) find(session string) *polled {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.sessions[session]
}

// meet is like find, but adds an unknown session if t.meets is set.
func (t *Target) meet(session string) *polled {
	p := t.find(session)
	if p == nil && t.meets {
		t.Add(session)
		return t.find(session)
	}
	return p
}

func (t *Target) poll(w http.ResponseWriter, req *http.Request) {
	session, instance := req.PathValue("session"), req.Header.Get("X-Instance")
	fence, err := protocol.ParseFence(req.Header.Get("X-Fence"))
	p := t.meet(session)
	switch {
	case p == nil:
		t.Strangers.Add(1)
		http.Error(w, "no such session", http.StatusNotFound)
		return
	case instance == "":
		http.Error(w, "header X-Instance must name the instance", http.StatusBadRequest)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	n := t.number.Add(1)
	if highest, ok := t.accept(p, session, instance, fence, n); !ok {
		http.Error(w, "fence older than "+strconv.FormatInt(highest, 10), http.StatusConflict)
		return
	}
	if t.work(req.Context(), p) {
		// Stamp the end before the answer is sent: a client may act on the answer before this goroutine runs again.
		t.finish(p, history.Served, session, instance, n)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	t.finish(p, history.Aborted, session, instance, n)
}

// accept decides on an arrival and records it under the session's lock, so that records follow the order of decisions.
func (t *Target) accept(p *polled, session, instance string, fence, n int64) (highest int64, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := history.Event{Kind: history.Arrived, Session: session, Instance: instance, Fence: fence, N: n, T: t.clock.Now()}
	if fence != 0 && fence < p.fence {
		e.Kind = history.Rejected
		e.Reason = "fence older than " + strconv.FormatInt(p.fence, 10)
		t.Rejected.Add(1)
		t.rec.Add(e)
		return p.fence, false
	}
	p.fence = max(p.fence, fence)
	if len(p.serving) > 1 || len(p.serving) == 1 && p.serving[instance] == 0 {
		t.Violations.Add(1)
	}
	p.serving[instance]++
	t.Polls.Add(1)
	t.rec.Add(e)
	t.tell(&e)
	return p.fence, true
}

func (t *Target) finish(p *polled, kind history.Kind, session, instance string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t.rec.Add(history.Event{T: t.clock.Now(), Kind: kind, Session: session, Instance: instance, N: n})
	if p.serving[instance]--; p.serving[instance] == 0 {
		delete(p.serving, instance)
	}
}

func (t *Target) work(ctx context.Context, p *polled) bool {
	p.mu.Lock()
	length, hang := max(t.serve, p.slow), p.hang
	p.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return false
		case <-t.stop:
			return false
		}
	}
	if length <= 0 {
		return true
	}
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	case <-t.stop:
		return false
	}
}

// Slow makes later polls of the session take d; 0 ends this.
func (t *Target) Slow(session string, d time.Duration) {
	if p := t.find(session); p != nil {
		p.mu.Lock()
		p.slow = d
		p.mu.Unlock()
	}
}

// Hang delays the answers to later polls of the session until release is called.
func (t *Target) Hang(session string) (release func()) {
	p := t.find(session)
	if p == nil {
		return func() {}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c := make(chan struct{})
	if p.hang == nil {
		p.hang = c
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.hang == c {
			close(c)
			p.hang = nil
		}
	}
}

// Close aborts the polls being served and ends the target.
func (t *Target) Close() {
	close(t.stop)
	if t.away != nil {
		t.away()
		<-t.served
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if t.server.Shutdown(ctx) != nil {
		_ = t.server.Close()
	}
	<-t.served
}
