// Package traces records the terms of leases in OpenTelemetry: one span for
// each, from its acquisition to its end. It is optional: nothing else in the
// library imports OpenTelemetry's API, and the program chooses the SDK.
// docs/performance.md has its cost.
//
// The span "lease term" is a root span of kind internal, with the times of the
// events, not of their handling:
//
//	leasestorm.instance              the owner of the term
//	leasestorm.lease.name
//	leasestorm.lease.fence           rises with each term of a lease, over all instances
//	leasestorm.vacancy               how the lease lost its last owner (lease.Event): expired or given back
//	leasestorm.vacancy.seconds       for how long it had no owner, as far as is known
//	leasestorm.previous.instance     the last owner
//	leasestorm.term.end              lost, released, or unknown: the end was missed, or was not waited for
//	leasestorm.term.cause            a cause of docs/log.md
//	leasestorm.term.renewals         number of successful renewals
//	leasestorm.term.uncertainties    number of uncertainties, each until a renewal succeeded or the lease was lost
//	leasestorm.next.instance         the new owner, or the one that should follow
//
// The three attributes of a vacancy are set if it is known, the last attribute
// if an instance is known. A lost term has the status Error. The events of the
// span are uncertain, renewed (which ended an uncertainty), yield and kept.
// Only the first 32 are recorded, each with a leasestorm.cause and, if another
// instance requested it, its leasestorm.next.instance.
//
// # Handovers
//
// No trace context travels through Redis: other programs read lease keys, and a
// release names no trace. So a term has no link to the previous one, whose
// fence its successor does not know either. Attributes connect them: the
// previous term has the same leasestorm.lease.name, the instance
// leasestorm.previous.instance, and the highest lower fence.
//
// The leases that the instance holds bound the memory. After missed events
// (Event.Dropped), the spans of terms that have ended by then end as unknown.
package traces

import (
	"context"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/lease"
)

// Scope is the name of the tracer.
const Scope = "github.com/leasestorm/leasestorm/lease/traces"

// Source is a *lease.Manager, a *lease.Keeper or an *election.Election. For a
// poll.SessionManager use its Leases.
type Source interface {
	InstanceID() string
}

// eventsMax bounds the number of events of a span.
const eventsMax = 32

// terms are the open spans of one source.
type terms struct {
	tracer   trace.Tracer
	instance attribute.KeyValue
	over     func(*lease.Lease) bool // replaced by tests

	mu      sync.Mutex
	changed *sync.Cond // an event was handled, or the wait for more is over
	open    map[*lease.Lease]*term
	stopped bool
}

type term struct {
	span          trace.Span
	uncertainties int64
	events        int
	uncertain     bool
}

// Watch opens a span for each term that begins from now on. Call it before
// Start. A term that is not sampled costs only a call of the sampler. Watch
// does not delay the source: a goroutine of the source makes the spans after
// the fact.
//
// Call stop when the source has stopped, and before you shut the provider down.
// stop waits, as long as ctx allows, until the spans of finished terms have
// ended, and ends the open ones. It is safe for concurrent use.
func Watch(p trace.TracerProvider, source Source) (stop func(ctx context.Context)) {
	w := newTerms(p, source.InstanceID())
	cancel := inner.Of(source).(interface {
		SubscribeChanges(func(lease.Event)) (cancel func())
	}).SubscribeChanges(w.take)
	return func(ctx context.Context) {
		w.settle(ctx)
		cancel()
		w.stop()
	}
}

func newTerms(p trace.TracerProvider, instance string) *terms {
	w := &terms{
		tracer: p.Tracer(Scope), instance: attribute.String("leasestorm.instance", instance),
		over: func(h *lease.Lease) bool { return h.Context().Err() != nil },
		open: map[*lease.Lease]*term{},
	}
	w.changed = sync.NewCond(&w.mu)
	return w
}

func (w *terms) take(e lease.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		return
	}
	if e.Dropped > 0 {
		w.giveUp(e.Lease)
	}
	if e.Kind == lease.EventAcquired {
		w.begin(e)
	} else if t := w.open[e.Lease]; t != nil {
		w.goOn(t, e)
	}
	w.changed.Broadcast()
}

// begin opens the span of a term, if it is recorded.
func (w *terms) begin(e lease.Event) {
	about := []attribute.KeyValue{
		w.instance, attribute.String("leasestorm.lease.name", e.Name), attribute.Int64("leasestorm.lease.fence", e.Fence),
	}
	if !e.VacantSince.IsZero() {
		how := "expired"
		if e.GivenBack {
			how = "given back"
		}
		about = append(about, attribute.String("leasestorm.vacancy", how),
			attribute.Float64("leasestorm.vacancy.seconds", e.At.Sub(e.VacantSince).Seconds()),
			attribute.String("leasestorm.previous.instance", e.Owner))
	}
	_, span := w.tracer.Start(context.Background(), "lease term", trace.WithNewRoot(), trace.WithTimestamp(e.At),
		trace.WithAttributes(about...))
	if span.IsRecording() {
		w.open[e.Lease] = &term{span: span}
	}
}

func (w *terms) goOn(t *term, e lease.Event) {
	switch e.Kind {
	case lease.EventRenewed:
		if t.uncertain {
			t.uncertain = false
			t.event(e, "renewed")
		}
	case lease.EventUncertain:
		if !t.uncertain {
			t.uncertain = true
			t.uncertainties++
			t.event(e, "uncertain")
		}
	case lease.EventYield:
		t.event(e, "yield")
	case lease.EventKept:
		t.event(e, "kept")
	case lease.EventLost:
		t.span.SetStatus(codes.Error, e.Reason)
		w.end(e.Lease, "lost", e)
	case lease.EventReleased:
		w.end(e.Lease, "released", e)
	}
}

func (t *term) event(e lease.Event, name string) {
	if t.events++; t.events > eventsMax {
		return
	}
	about := []attribute.KeyValue{attribute.String("leasestorm.cause", e.Cause)}
	if e.Owner != "" {
		about = append(about, attribute.String("leasestorm.next.instance", e.Owner))
	}
	t.span.AddEvent(name, trace.WithTimestamp(e.At), trace.WithAttributes(about...))
}

func (w *terms) end(h *lease.Lease, how string, e lease.Event) {
	t := w.open[h]
	delete(w.open, h)
	renewals := inner.OfLease(h).Renewals()
	t.span.SetAttributes(attribute.String("leasestorm.term.end", how), attribute.Int64("leasestorm.term.renewals", renewals),
		attribute.Int64("leasestorm.term.uncertainties", t.uncertainties))
	if e.Cause != "" {
		t.span.SetAttributes(attribute.String("leasestorm.term.cause", e.Cause))
	}
	if e.Owner != "" {
		t.span.SetAttributes(attribute.String("leasestorm.next.instance", e.Owner))
	}
	if e.At.IsZero() {
		t.span.End()
		return
	}
	t.span.End(trace.WithTimestamp(e.At))
}

// giveUp ends the spans of the finished terms, except but: their ends may be among the missed events.
func (w *terms) giveUp(but *lease.Lease) {
	for h := range w.open {
		if h != but && w.over(h) {
			w.end(h, "unknown", lease.Event{})
		}
	}
}

// settle waits until every finished term's span has ended. Their last events are on their way.
func (w *terms) settle(ctx context.Context) {
	wake := context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.changed.Broadcast()
	})
	defer wake()
	w.mu.Lock()
	defer w.mu.Unlock()
	for ctx.Err() == nil && w.ending() {
		w.changed.Wait()
	}
}

func (w *terms) ending() bool {
	for h := range w.open {
		if w.over(h) {
			return true
		}
	}
	return false
}

func (w *terms) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for h := range w.open {
		w.end(h, "unknown", lease.Event{})
	}
}
