package real

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// ErrTarget: the target cannot listen, cannot serve any more, or nobody reads what it witnesses.
var ErrTarget = errors.New("polled target")

// What a target on its own keeps, which anybody may fill: all of it takes less than 100 MB (docker/compose.yaml gives it 128).
const (
	sessionsMax = 10_000 // a poll of one more is 404
	visitorsMax = 1024   // connections at once; one more is closed
	tellingMax  = 4      // answers that tell all sessions, at once; one more is 503
)

// Target is the polled target (and the tuners) of a run as a server of its own, for nodes that something else than a run has
// started. A session is known from its first poll on.
type Target struct {
	Addr    string        // where it listens, host:port
	Serve   time.Duration // how long an answer takes
	Out     io.Writer     // hears of every arrival and of its end, a line of history.jsonl each; T is CLOCK_MONOTONIC in ns
	Started func(url string)

	idle    time.Duration // how long a connection may lie between two requests; 0: idleMax
	written time.Duration // how long a piece of an answer may take to be taken; 0: writtenMax
}

// idleMax is many poll intervals: whoever left for good, or opens connections and asks nothing more, holds none for ever.
const idleMax = 2 * time.Minute

// Run serves until ctx ends, which is no error. Besides polls and pipelines it answers GET /healthz, and GET /sessions: what it
// knows of each session, one JSON object a line. Lines of one session are in the order in which the target decided. Whoever does
// not read Out holds up the polls: a witness that leaves something out is none. Its only error is ErrTarget.
func (s Target) Run(ctx context.Context) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTarget, err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	c := newClock()
	w := &witness{clock: c, out: s.Out, broken: cancel, known: map[string]*Known{}, telling: make(chan struct{}, tellingMax)}
	t := &target{clock: c, rec: w, serve: s.Serve, tell: func(*history.Event) {}, most: sessionsMax, idle: cmp.Or(s.idle, idleMax)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /sessions", w.tell)
	t.open(bounding(listener, visitorsMax, cmp.Or(s.written, writtenMax), func(error) {}), mux)
	s.Started(t.url)
	select {
	case <-ctx.Done():
	case <-t.served:
		cancel(fmt.Errorf("%w: %w", ErrTarget, t.ended))
	}
	t.close()
	if err := context.Cause(ctx); errors.Is(err, ErrTarget) {
		return err
	}
	return nil
}

// Known is what a target knows of a session, a slot or a service.
type Known struct {
	Session  string `json:"session"`
	Instance string `json:"instance"` // the last one that was accepted, "" if none was
	Fence    int64  `json:"fence"`    // the highest seen
	Polls    int64  `json:"polls"`    // accepted
	Rejected int64  `json:"rejected"` // came with an older fence
}

// witness writes what a target sees, and keeps what it is asked for.
type witness struct {
	clock  *clock
	broken context.CancelCauseFunc

	mu    sync.Mutex
	out   io.Writer
	line  []byte
	known map[string]*Known
	order []string // their names, sorted

	telling chan struct{} // has an entry for each answer that tells all sessions
}

// Add implements recorder.
func (w *witness) Add(e history.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.remember(&e)
	e.T += w.clock.mono
	w.line = history.AppendLine(w.line[:0], &e)
	if _, err := w.out.Write(w.line); err != nil {
		w.broken(fmt.Errorf("%w: nobody reads its standard output: %w", ErrTarget, err))
	}
}

// remember counts an arrival. mu is held.
func (w *witness) remember(e *history.Event) {
	k := w.known[e.Session]
	if k == nil {
		if len(w.known) >= sessionsMax {
			return
		}
		k = &Known{Session: e.Session}
		w.known[e.Session] = k
		at, _ := slices.BinarySearch(w.order, e.Session)
		w.order = slices.Insert(w.order, at, e.Session)
	}
	switch e.Kind {
	case history.Arrived:
		k.Instance, k.Fence = e.Instance, max(k.Fence, e.Fence)
		k.Polls++
	case history.Rejected:
		k.Rejected++
	}
}

// page is how many sessions are looked at together: whoever asks and does not read takes no more memory than they do.
const page = 128

// tell answers what is known of every session, in order of their IDs. Each is told as it is when its page begins.
func (w *witness) tell(to http.ResponseWriter, _ *http.Request) {
	select {
	case w.telling <- struct{}{}:
		defer func() { <-w.telling }()
	default:
		to.Header().Set("Retry-After", "1")
		http.Error(to, "others are being told all sessions", http.StatusServiceUnavailable)
		return
	}
	to.Header().Set("Content-Type", "application/jsonl")
	lines := json.NewEncoder(to)
	lines.SetEscapeHTML(false)
	for known := w.page(""); len(known) > 0; known = w.page(known[len(known)-1].Session) {
		for _, k := range known {
			if lines.Encode(k) != nil {
				return // who asked has gone
			}
		}
	}
}

// page is what is known of the sessions that come after the one of that name.
func (w *witness) page(after string) (known []Known) {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, found := slices.BinarySearch(w.order, after)
	if found {
		at++
	}
	for _, name := range w.order[at:min(at+page, len(w.order))] {
		known = append(known, *w.known[name])
	}
	return known
}
