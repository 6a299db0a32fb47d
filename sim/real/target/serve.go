package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// New starts a target at an address of this machine. short gets a host.ErrNoVerdict when files or ports run out.
func New(at netip.Addr, c *host.Clock, rec Recorder, serve time.Duration, tell func(*history.Event), short func(error)) (*Target, error) {
	var listener net.Listener
	err := redisfixture.Listen(at, func(addr string) (err error) {
		listener, err = net.Listen("tcp", addr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("polled target: %w", err)
	}
	t := &Target{clock: c, rec: rec, serve: serve, tell: tell}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /sessions", t.list)
	t.open(host.Listener{Listener: listener, Short: short}, mux)
	return t, nil
}

func (t *Target) open(listener net.Listener, mux *http.ServeMux) {
	t.served, t.stop, t.sessions = make(chan struct{}), make(chan struct{}), map[string]*polled{}
	t.URL = "http://" + listener.Addr().String()
	mux.HandleFunc("POST /poll/{session}", t.poll)
	newTuners(t).register(mux)
	t.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(t.served)
		t.ended = t.server.Serve(listener)
	}()
}

// ErrServe: the target cannot listen or serve any more, or cannot write its output.
var ErrServe = errors.New("polled target")

// Server is the polled target, with the tuners, as a server for nodes outside a run. A session is known from its first poll on.
type Server struct {
	Addr    string        // address to listen on, host:port
	Serve   time.Duration // duration of an answer
	Out     io.Writer     // gets every arrival and its end, a line of history.jsonl each; T is CLOCK_MONOTONIC in ns
	Started func(url string)
}

// Run serves until ctx ends, which is no error. Besides polls and pipelines it serves GET /healthz, and GET /sessions with one JSON
// object a line. Lines of one session follow the order of the target's decisions. A blocked Out blocks the polls, because a witness must
// not omit anything. Its only error is ErrServe.
func (s Server) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrServe, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := host.NewClock()
	w := &witness{clock: c, out: s.Out, broken: cancel, known: map[string]*Known{}}
	t := &Target{clock: c, rec: w, serve: s.Serve, tell: func(*history.Event) {}, meets: true}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /sessions", w.tell)
	t.open(listener, mux)
	s.Started(t.URL)
	select {
	case <-ctx.Done():
	case <-t.served:
		cancel(fmt.Errorf("%w: %w", ErrServe, t.ended))
	}
	t.Close()
	if err := context.Cause(ctx); errors.Is(err, ErrServe) {
		return err
	}
	return nil
}

// Known is the target's record of a session, a slot or a service.
type Known struct {
	Session  string `json:"session"`
	Instance string `json:"instance"` // last accepted instance; "": none
	Fence    int64  `json:"fence"`    // highest seen
	Polls    int64  `json:"polls"`    // accepted
	Rejected int64  `json:"rejected"` // refused for an older fence
}

type witness struct {
	clock  *host.Clock
	broken context.CancelCauseFunc

	mu    sync.Mutex
	out   io.Writer
	line  []byte
	known map[string]*Known
}

// Add implements recorder.
func (w *witness) Add(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remember(&e)
	e.T += w.clock.Mono
	w.line = history.AppendLine(w.line[:0], &e)
	if _, err := w.out.Write(w.line); err != nil {
		w.broken(fmt.Errorf("%w: nobody reads its standard output: %w", ErrServe, err))
	}
}

// remember counts an arrival. mu is held.
func (w *witness) remember(e *history.Event) {
	k := w.known[e.Session]
	if k == nil {
		k = &Known{Session: e.Session}
		w.known[e.Session] = k
	}
	switch e.Kind {
	case history.Arrived:
		k.Instance, k.Fence = e.Instance, max(k.Fence, e.Fence)
		k.Polls++
	case history.Rejected:
		k.Rejected++
	}
}

func (w *witness) tell(to http.ResponseWriter, _ *http.Request) {
	to.Header().Set("Content-Type", "application/jsonl")
	lines := json.NewEncoder(to)
	lines.SetEscapeHTML(false)
	for _, k := range w.all() {
		if lines.Encode(k) != nil {
			return
		}
	}
}

func (w *witness) all() (known []Known) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(w.known)) {
		known = append(known, *w.known[name])
	}
	return known
}
