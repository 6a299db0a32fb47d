package traces

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/keepertest"
	"github.com/leasestorm/leasestorm/internal/redistest"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/admin"
	"github.com/leasestorm/leasestorm/lease/election"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorded returns a provider and its recorded spans.
func recorded(t testing.TB, options ...sdk.TracerProviderOption) (*sdk.TracerProvider, *tracetest.SpanRecorder) {
	t.Helper()
	r := tracetest.NewSpanRecorder()
	p := sdk.NewTracerProvider(append(options, sdk.WithSpanProcessor(r))...)
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return p, r
}

// of returns a span's attribute, or "".
func of(s sdk.ReadOnlySpan, key string) string {
	for _, a := range s.Attributes() {
		if string(a.Key) == "leasestorm."+key {
			return a.Value.String()
		}
	}
	return ""
}

// says fails unless a span has all attributes, given as keys and values in turn.
func says(t *testing.T, s sdk.ReadOnlySpan, pairs ...string) {
	t.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		if got := of(s, pair[0]); got != pair[1] {
			t.Errorf("%s is %q, want %q, of %v", pair[0], got, pair[1], s.Attributes())
		}
	}
}

func keeper(t *testing.T, server *redistest.Server, id string) (*lease.Keeper, *tracetest.SpanRecorder, func()) {
	t.Helper()
	cfg := lease.Config{InstanceID: id, TTL: time.Second, RenewInterval: 50 * time.Millisecond, Logger: zap.NewNop()}
	k := keepertest.New(t, server, cfg)
	p, r := recorded(t)
	stop := Watch(p, k)
	if err := k.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k, r, func() {
		_ = k.Stop() // an error for the first keeper, whose lease expires
		stop(t.Context())
	}
}

// TestTermsAreSpans: on a real Redis, one lease is released and one expires, while another instance waits for each.
func TestTermsAreSpans(t *testing.T) {
	server := redistest.Start(t)
	first, firsts, stopFirst := keeper(t, server, "first")
	second, seconds, stopSecond := keeper(t, server, "second")
	for name, end := range map[string]func(*lease.Lease){
		"given-back": func(h *lease.Lease) {
			if err := h.Release(t.Context()); err != nil {
				t.Error(err)
			}
		},
		"left": func(h *lease.Lease) { inner.OfLease(h).Abandon() },
	} {
		h, err := first.Acquire(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		held, renewed := make(chan struct{}, 1), make(chan struct{}, 1)
		tell := func(c chan struct{}) {
			select {
			case c <- struct{}{}:
			default:
			}
		}
		defer first.Subscribe(func(e lease.Event) {
			if e.Kind == lease.EventRenewed && e.Name == name {
				tell(renewed)
			}
		})()
		defer second.Subscribe(func(e lease.Event) {
			if e.Kind == lease.EventAcquireFailed && e.Name == name {
				tell(held)
			}
		})()
		waited := make(chan error, 1)
		go func() {
			waited <- second.Do(t.Context(), name, func(context.Context, int64) error { return nil })
		}()
		<-held
		<-renewed
		end(h)
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
	}
	stopSecond()
	stopFirst()
	for _, s := range firsts.Ended() {
		if s.Name() != "lease term" || s.Parent().IsValid() {
			t.Errorf("%q under %v, want a root", s.Name(), s.Parent())
		}
		says(t, s, "instance", "first", "vacancy", "", "previous.instance", "")
		if s.EndTime().Before(s.StartTime()) || of(s, "lease.fence") == "" || of(s, "term.renewals") == "0" {
			t.Errorf("from %v to %v: %v", s.StartTime(), s.EndTime(), s.Attributes())
		}
		if of(s, "lease.name") == "left" {
			says(t, s, "term.end", "lost", "term.cause", "stuck")
		} else {
			says(t, s, "lease.name", "given-back", "term.end", "released", "term.cause", "requested")
		}
		if lost := of(s, "term.end") == "lost"; lost != (s.Status().Code == codes.Error) {
			t.Errorf("%v of %v", s.Status(), s.Attributes())
		}
	}
	for _, s := range seconds.Ended() {
		how := map[string]string{"given-back": "given back", "left": "expired"}[of(s, "lease.name")]
		says(t, s, "instance", "second", "previous.instance", "first", "vacancy", how, "term.end", "released", "term.cause", "requested")
	}
	if f, s := len(firsts.Ended()), len(seconds.Ended()); f != 2 || s != 2 {
		t.Errorf("%d and %d spans, want two of each", f, s)
	}
}

// TestSpanOfATerm: a span has the values of the events, at their times.
func TestSpanOfATerm(t *testing.T) {
	p, r := recorded(t)
	w := newTerms(p, "one")
	at, h := time.Unix(1_000_000, 0), &lease.Lease{}
	tell := func(kind lease.EventKind, ms int) {
		owner := map[bool]string{true: "before", false: "next"}[kind == lease.EventAcquired]
		w.take(lease.Event{Kind: kind, Name: "thing", Fence: 7, Lease: h, At: at.Add(time.Duration(ms) * time.Millisecond),
			Cause: "c", Reason: "c: why", Owner: owner, VacantSince: at.Add(-2 * time.Second)})
	}
	tell(lease.EventAcquired, 0)
	tell(lease.EventRenewing, 100)
	tell(lease.EventRenewed, 110)
	tell(lease.EventUncertain, 200)
	tell(lease.EventUncertain, 250)
	tell(lease.EventRenewed, 300)
	tell(lease.EventYield, 400)
	tell(lease.EventKept, 410)
	for i := range eventsMax {
		tell(lease.EventYield, 500+i)
	}
	w.take(lease.Event{Kind: lease.EventLost, Name: "thing", Lease: &lease.Lease{}}) // of a term that began before Watch
	if len(r.Ended()) != 0 || len(w.open) != 1 {
		t.Fatalf("%d spans ended and %d open before the term is over", len(r.Ended()), len(w.open))
	}
	tell(lease.EventLost, 900)
	if len(r.Ended()) != 1 || len(w.open) != 0 {
		t.Fatalf("%d spans ended and %d open after it", len(r.Ended()), len(w.open))
	}
	s := r.Ended()[0]
	says(t, s, "instance", "one", "lease.name", "thing", "lease.fence", "7", "vacancy", "expired", "vacancy.seconds", "2",
		"previous.instance", "before", "term.end", "lost", "term.cause", "c", "term.renewals", "0", "term.uncertainties", "1",
		"next.instance", "next")
	if !s.StartTime().Equal(at) || s.EndTime().Sub(at) != 900*time.Millisecond {
		t.Errorf("from %v to %v, want the times of the events", s.StartTime(), s.EndTime())
	}
	if s.Status().Code != codes.Error || s.Status().Description != "c: why" {
		t.Errorf("status %v", s.Status())
	}
	var told []string
	for _, e := range s.Events()[:4] {
		told = append(told, fmt.Sprint(e.Name, e.Time.Sub(at).Milliseconds()))
	}
	if want := []string{"uncertain200", "renewed300", "yield400", "kept410"}; !slices.Equal(told, want) {
		t.Errorf("events %v, want %v", told, want)
	}
	if len(s.Events()) != eventsMax {
		t.Errorf("%d events, want %d at most", len(s.Events()), eventsMax)
	}
	if set := attribute.NewSet(s.Events()[0].Attributes...); set.Len() != 2 {
		t.Errorf("%v, want who and why", s.Events()[0].Attributes)
	}
}

// TestMissedEnds: a term whose end was missed does not stay open.
func TestMissedEnds(t *testing.T) {
	p, r := recorded(t)
	w := newTerms(p, "one")
	lives, late, gone := &lease.Lease{}, &lease.Lease{}, &lease.Lease{}
	w.over = func(h *lease.Lease) bool { return h != lives }
	for name, h := range map[string]*lease.Lease{"lives": lives, "late": late, "gone": gone} {
		w.take(lease.Event{Kind: lease.EventAcquired, Name: name, Lease: h})
	}
	w.take(lease.Event{Kind: lease.EventReleased, Name: "late", Lease: late, Dropped: 1})
	if len(r.Ended()) != 2 || len(w.open) != 1 {
		t.Fatalf("%d spans have ended and %d are open, want two and one", len(r.Ended()), len(w.open))
	}
	says(t, r.Ended()[0], "lease.name", "gone", "term.end", "unknown")
	says(t, r.Ended()[1], "lease.name", "late", "term.end", "released")
}

// TestStop: unwatch waits for late ends as long as its context allows, and then ends the open spans.
func TestStop(t *testing.T) {
	p, r := recorded(t)
	source := &told{}
	stop := Watch(p, source)
	cfg := lease.Config{Logger: zap.NewNop()}
	comes, never := keepertest.Over(t, cfg), keepertest.Over(t, cfg)
	source.f(lease.Event{Kind: lease.EventAcquired, Name: "comes", Lease: comes})
	go source.f(lease.Event{Kind: lease.EventReleased, Name: "comes", Lease: comes})
	stop(t.Context())
	says(t, r.Ended()[0], "lease.name", "comes", "term.end", "released")

	stop = Watch(p, source)
	source.f(lease.Event{Kind: lease.EventAcquired, Name: "never", Lease: never})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	stop(ctx)
	says(t, r.Ended()[1], "lease.name", "never", "term.end", "unknown")
	source.f(lease.Event{Kind: lease.EventAcquired, Name: "after", Lease: never})
	if n := len(r.Started()); n != 2 {
		t.Errorf("%d spans were started, want none after it was stopped", n)
	}
}

// told is a source with invented events.
type told struct{ f func(lease.Event) }

func (l *told) InstanceID() string                                   { return "one" }
func (l *told) SubscribeChanges(f func(lease.Event)) (cancel func()) { l.f = f; return func() {} }

// TestElections: a leadership is a term of the election's lease, and each election gets its own events.
func TestElections(t *testing.T) {
	server := redistest.Start(t)
	cfg := election.Config{InstanceID: "one", LeaderTTL: time.Second, Logger: zap.NewNop()}
	if err := admin.Bootstrap(t.Context(), server.Client(), cfg, "a", "b"); err != nil {
		t.Fatal(err)
	}
	g, err := election.NewGroup(server.Client(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Stop()
	spans := map[string]*tracetest.SpanRecorder{}
	var stops []func(context.Context)
	for _, key := range []string{"a", "b"} {
		e, err := g.Election(key)
		if err != nil {
			t.Fatal(err)
		}
		p, r := recorded(t)
		stops, spans[key] = append(stops, Watch(p, e)), r
		leads := make(chan struct{}, 1)
		e.Subscribe(func(ev election.Event) {
			if ev.Kind == election.EventLeadershipAcquired {
				leads <- struct{}{}
			}
		})
		if err := e.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-leads
	}
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	for _, stop := range stops {
		stop(t.Context())
	}
	for key, r := range spans {
		if len(r.Ended()) != 1 {
			t.Fatalf("%d spans of %s", len(r.Ended()), key)
		}
		says(t, r.Ended()[0], "instance", "one", "lease.name", key, "term.end", "released", "term.cause", "requested")
	}
}
