package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/intentnames"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/proxies"
	"github.com/leasestorm/leasestorm/internal/ready"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// Store is the part of *store.Store that a handler uses.
type Store interface {
	Put(ctx context.Context, id string, r intent.Request, ttl time.Duration) (session string, known bool, err error)
	PutLeased(ctx context.Context, id string, r intent.Request, ttl time.Duration) (session string, known bool, err error)
	Stop(ctx context.Context, id string) (ended bool, err error)
	Get(ctx context.Context, id string) (intent.Session, error)
	// If List's error has a method Skipped() (count int, names []string), the
	// returned sessions are valid.
	List(ctx context.Context, cursor string, limit int) (sessions []intent.Session, next string, err error)
	Ping(ctx context.Context) error
}

// Config configures a handler.
type Config struct {
	// Names are those of the store (store.Options.Names).
	Names intent.Names
	// Tokens are the accepted tokens, at least one. SetTokens replaces them.
	Tokens []Token
	// AllowedNets are the networks from which requests are allowed; nil:
	// loopback, private and link-local ones.
	AllowedNets []netip.Prefix
	// TrustedProxies are the only peers that may forward requests
	// (X-Forwarded-For); nil: none. NewHandler refuses a network wider than any
	// private one, because its hosts could claim any address.
	TrustedProxies []netip.Prefix
	// LeaseFirst makes the API acquire the resource's lease for the session. If
	// the resource is in use, the API answers 409, even to an equal request.
	// Without LeaseFirst, only workers acquire leases, and if the resource is
	// in use, the worker ends the session.
	LeaseFirst bool
	// KeyTTL is how long an idempotency key lives if no worker starts its
	// session. 0: 24 h.
	KeyTTL time.Duration
	// BodyMax, in bytes, and BodyTimeout bound a body. 0: 8 KiB, 5 s.
	BodyMax     int64
	BodyTimeout time.Duration
	// Quotas bound the accepted starts. Retention is that of the store; 0: 1 h.
	Quotas    Quotas
	Retention time.Duration
	// Observer counts for metrics; nil: no counts. If a call panics, its count
	// is missing, and the log says so.
	Observer intent.Observer
	// Metrics serves /metrics without a token, to allowed addresses only; nil:
	// the path does not exist.
	Metrics http.Handler
	// Logger gets an info entry for each accepted start and stop (token name,
	// outcome, session), and at most once a second the reason for 503 answers.
	// No request waits for the log; see Handler.Flush. nil: warnings and errors
	// go to standard error; zap.NewNop() silences them.
	Logger *zap.Logger
	// NewID makes the UUID of a session; nil: version 7, which orders lists by
	// time.
	NewID func() (uuid.UUID, error)

	_ struct{}
}

// Handler is the API. It is safe for concurrent use.
type Handler struct {
	cfg    Config
	log    *zaplog.Log // writes to cfg.Logger
	guard  guard
	tokens tokens
	quotas *quotas
	store  Store
	names  *intentnames.Names
	texts  documents

	faults  logLimit      // answers with 503
	foreign logLimit      // keys that hold another type
	lists   chan struct{} // one slot for each list in progress
	stuck   atomic.Int64  // start of the call that was last logged as not returning

	writes, stops, reads ready.Watch // new starts, stops, probes
	probe                probe
}

// NewHandler returns the API.
func NewHandler(st Store, cfg Config) (*Handler, error) {
	if cfg.AllowedNets == nil {
		cfg.AllowedNets = lan()
	}
	cfg.KeyTTL = cmp.Or(cfg.KeyTTL, 24*time.Hour)
	cfg.BodyMax = cmp.Or(cfg.BodyMax, 8<<10)
	cfg.BodyTimeout = cmp.Or(cfg.BodyTimeout, 5*time.Second)
	cfg.Retention = cmp.Or(cfg.Retention, time.Hour)
	if cfg.Logger == nil {
		cfg.Logger = zaplog.Default()
	}
	log := zaplog.NewLog(cfg.Logger, "")
	cfg.Logger = log.Logger
	if cfg.NewID == nil {
		cfg.NewID = uuid.NewV7
	}
	switch {
	case cfg.Retention < time.Second:
		return nil, fmt.Errorf("%w: Retention is %v; it must be at least 1s", lease.ErrInvalidConfig, cfg.Retention)
	case cfg.KeyTTL < time.Second:
		return nil, fmt.Errorf("%w: KeyTTL is %v; it must be at least 1s", lease.ErrInvalidConfig, cfg.KeyTTL)
	case cfg.BodyMax < 1 || cfg.BodyTimeout < time.Millisecond:
		return nil, fmt.Errorf("%w: BodyMax is %d and BodyTimeout %v; they must be at least 1 and 1ms", lease.ErrInvalidConfig, cfg.BodyMax,
			cfg.BodyTimeout)
	}
	if err := proxies.Check(cfg.TrustedProxies); err != nil {
		return nil, fmt.Errorf("%w: %w", lease.ErrInvalidConfig, err)
	}
	names := cfg.Names.Table()
	h := &Handler{cfg: cfg, log: log, store: st, names: names, texts: newDocuments(names), quotas: newQuotas(cfg.Quotas, cfg.Retention),
		guard:  guard{allowed: cfg.AllowedNets, trusted: cfg.TrustedProxies, log: cfg.Logger, proxied: logLimit{every: time.Minute}},
		tokens: tokens{names: cfg.Names}, lists: make(chan struct{}, listsMax),
		faults: logLimit{every: time.Second}, foreign: logLimit{every: time.Minute}}
	if err := h.SetTokens(cfg.Tokens); err != nil {
		return nil, err
	}
	h.writes.Life, h.stops.Life = refusedFor, refusedFor
	return h, nil
}

// SetTokens replaces the accepted tokens at once. If tokens are unusable or
// contain duplicates, SetTokens keeps the old tokens and returns
// lease.ErrInvalidConfig.
func (h *Handler) SetTokens(tokens []Token) error { return h.tokens.set(tokens) }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var p *problem
	switch r.URL.Path {
	case "/healthz":
		p = status(w, "ok", only(r, http.MethodGet, http.MethodHead))
	case "/readyz":
		p = status(w, "ready", h.ready(r))
	default:
		p = h.serve(w, r)
	}
	if p != nil {
		p.write(w)
	}
}

func status(w http.ResponseWriter, text string, p *problem) *problem {
	if p == nil {
		writeJSON(w, http.StatusOK, "application/json", map[string]string{"status": text})
	}
	return p
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request) *problem {
	path, under := strings.CutPrefix(r.URL.Path, h.names.Path)
	intents := under && path == "/intents"
	p := h.guard.check(r)
	if p == nil {
		switch id, one := strings.CutPrefix(path, "/sessions/"); {
		case intents:
			p = h.intent(w, r)
		case under && path == "/sessions":
			p = h.list(w, r)
		case under && path == "/openapi.json":
			p = h.openAPI(w, r)
		case under && one:
			p = h.session(w, r, id)
		case r.URL.Path == "/metrics" && h.cfg.Metrics != nil:
			h.cfg.Metrics.ServeHTTP(w, r)
		default:
			p = refused(http.StatusNotFound, "not-found", "there is nothing at this path")
		}
	}
	if intents && p != nil {
		h.observe(func(o intent.Observer) { o.Intent(p.outcome, h.cfg.LeaseFirst) })
	}
	return p
}

func (h *Handler) observe(tell func(intent.Observer)) {
	if h.cfg.Observer != nil {
		callback.Tell(h.log.Calls, "Config.Observer", tell, h.cfg.Observer)
	}
}

// Flush waits until all log entries have been written or ctx ends, and reports
// whether they were. Call it before the process ends.
func (h *Handler) Flush(ctx context.Context) bool { return h.log.Flush(ctx) }

func only(r *http.Request, methods ...string) *problem {
	if slices.Contains(methods, r.Method) {
		return nil
	}
	p := refused(http.StatusMethodNotAllowed, "method", "use "+strings.Join(methods, " or "))
	p.allow = strings.Join(methods, ", ")
	return p
}

type accepted struct {
	SessionID string `json:"sessionId"`
	Replayed  bool   `json:"replayed,omitempty"` // an equal start had made this session
	Ended     bool   `json:"ended,omitempty"`    // a stop of a session that had already ended
}

func (h *Handler) intent(w http.ResponseWriter, r *http.Request) *problem {
	if p := only(r, http.MethodPost); p != nil {
		return p
	}
	token, p := h.tokens.authorize(r, intent.ScopeWrite)
	if p != nil {
		return p
	}
	body, p := readBody(w, r, h.cfg.BodyMax, h.cfg.BodyTimeout)
	if p != nil {
		return p
	}
	req, err := parse(h.cfg.Names, body)
	if err != nil {
		return refused(http.StatusBadRequest, "invalid", err.Error())
	}
	// Redis may execute the request even if the client hangs up, and the log
	// must have the outcome. OpTimeout bounds the wait.
	r = r.WithContext(context.WithoutCancel(r.Context()))
	var a accepted
	outcome, mine, other := "accepted", &h.writes, &h.stops
	sent := time.Now()
	if req.stop {
		a.SessionID = req.session
		a.Ended, err = h.store.Stop(r.Context(), req.session)
		outcome, mine, other = "stopped", &h.stops, &h.writes
	} else {
		if p := h.quotas.admit(token, time.Now()); p != nil {
			return p
		}
		a.SessionID, a.Replayed, err = h.publish(r.Context(), req.start)
	}
	switch {
	case err == nil && !a.Replayed && !a.Ended:
		mine.Note(nil)
		other.Wrote(sent, true)
		h.cfg.Logger.Info("request", zap.String("token", token.Name), zap.String("outcome", outcome), zap.String("session", a.SessionID),
			zap.String("peer", r.RemoteAddr))
	case errors.Is(err, store.ErrUnavailable): // other errors wrote nothing, so they say nothing about writes
		mine.Note(err)
	}
	if err != nil {
		return h.failed(r, err)
	}
	if a.Replayed {
		outcome = "replayed"
		h.observe(intent.Observer.Replay)
	}
	h.observe(func(o intent.Observer) { o.Intent(outcome, h.cfg.LeaseFirst) })
	w.Header().Set("Location", h.names.Path+"/sessions/"+a.SessionID)
	writeJSON(w, http.StatusAccepted, "application/json", &a)
	return nil
}

func (h *Handler) publish(ctx context.Context, start intent.Request) (id string, replayed bool, err error) {
	var fresh uuid.UUID
	err = h.log.Calls.Call("Config.NewID", 0, func() (err error) {
		fresh, err = h.cfg.NewID()
		return err
	})
	if err != nil {
		return "", false, fmt.Errorf("%w: %w", store.ErrUnavailable, err)
	}
	if h.cfg.LeaseFirst {
		return h.store.PutLeased(ctx, fresh.String(), start, h.cfg.KeyTTL)
	}
	return h.store.Put(ctx, fresh.String(), start, h.cfg.KeyTTL)
}

func (h *Handler) failed(r *http.Request, err error) *problem {
	p := storeProblem(h.names.Resource, err)
	if p.Status != http.StatusServiceUnavailable || r.Context().Err() != nil { // the client is gone
		return p
	}
	if more, now := h.faults.due(time.Now()); now {
		h.cfg.Logger.Warn("request answered with 503", zap.String("method", r.Method), zap.String("path", r.URL.Path), zap.Error(err),
			zap.Int("sinceLast", more))
	}
	return p
}

// refusedFor is how long the API reports that it is not ready after a failed
// start or stop. In this time, a proxy may send no request that could succeed.
const refusedFor = 10 * time.Second

// Health reports whether the API can accept starts, and otherwise why. It sends
// no requests: it knows only the outcomes of earlier requests and probes. For a
// readiness probe use /readyz, which checks Redis first.
func (h *Handler) Health() lease.Health {
	ok := lease.Health{State: lease.HealthOK, Reason: "no request has come yet"}
	switch {
	case h.writes.Answered():
		ok.Reason = "starts are accepted"
	case h.reads.Answered():
		ok.Reason = "the bus can be read; no start has been accepted yet"
	}
	return h.reads.Add(h.stops.Add(h.writes.Add(h.blocked(ok), "starts are not accepted"), "stops are not accepted"), "the bus cannot be read")
}

// blocked returns ok, or HealthBlocked if a function of the caller has not
// returned for refusedFor. It logs each such call once.
func (h *Handler) blocked(ok lease.Health) lease.Health {
	begun := time.Now().Add(-refusedFor)
	what, since := h.log.Calls.Late(begun)
	if s, known := h.store.(interface {
		Late(begun time.Time) (string, time.Time)
	}); known && what == "" {
		what, since = s.Late(begun)
	}
	if what == "" {
		return ok
	}
	ok.State, ok.Since, ok.Reason = lease.HealthBlocked, since, what+" has not returned since "+since.Format(time.RFC3339Nano)
	if h.stuck.Swap(since.UnixNano()) != since.UnixNano() {
		h.cfg.Logger.Warn("a function of your program does not return", zap.String("event", "blocked"), zap.String("error", ok.Reason))
	}
	return ok
}

func (h *Handler) ready(r *http.Request) *problem {
	if p := only(r, http.MethodGet, http.MethodHead); p != nil {
		return p
	}
	if err := cmp.Or(h.probe.ask(r.Context(), h.store.Ping, &h.reads), h.Health().Error()); err != nil {
		return h.failed(r, err)
	}
	return nil
}

// probe checks Redis at most once a second, because anyone may request it
// without a token.
type probe struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

func (p *probe) ask(ctx context.Context, ping func(context.Context) error, watch *ready.Watch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) < time.Second {
		return p.err
	}
	err := ping(context.WithoutCancel(ctx)) // other requests use the answer; the store's timeout bounds it
	watched := err
	if !errors.Is(err, store.ErrUnavailable) {
		watched = nil // an answer, and no failure of Redis
	}
	watch.Note(watched)
	p.at, p.err = time.Now(), err
	return err
}
