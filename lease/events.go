package lease

import (
	"fmt"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry"
	"github.com/leasestorm/leasestorm/internal/queue"
)

// EventKind is the kind of an event. Its String is the field "event" of log
// entries.
type EventKind uint8

// The events of a lease, with the fields that they set. Every term begins with
// Acquired and ends with exactly one of Lost and Released.
const (
	// EventAcquired begins a term. It sets Fence and Until, and VacantSince,
	// GivenBack and Owner (the last one) if they are known.
	EventAcquired EventKind = iota + 1
	// EventRenewing: an attempt to renew is about to be sent.
	EventRenewing
	// EventRenewed: a renewal succeeded, which also ends an uncertainty. It sets
	// Until.
	EventRenewed
	// EventUncertain: an attempt failed, and no work may begin until a renewal
	// succeeds (G4). It sets Reason.
	EventUncertain
	// EventLost ends a term. It sets Reason, and Owner if it is known.
	EventLost
	// EventReleased ends a term with a release. It sets Reason, and Owner if an
	// heir was named.
	EventReleased
	// EventAcquireFailed: another instance holds the lease, or Redis did not
	// answer. It sets Reason and Owner.
	EventAcquireFailed
	// EventReleaseFailed: Redis did not confirm a release. The release is
	// retried until the lease has expired. It sets Reason.
	EventReleaseFailed
	// EventYield: the work should end. It sets Reason, and Owner if an instance
	// requests the lease.
	EventYield
	// EventKept withdraws an EventYield, so the work goes on. It sets Reason.
	EventKept
	// EventAcquiring: an attempt to acquire is about to be sent.
	EventAcquiring
)

var eventNames = [...]string{
	EventAcquired:      logentry.Event(core.TellAcquired),
	EventRenewing:      "renewStart", // not logged: nothing has happened yet
	EventRenewed:       logentry.Event(core.TellRenewed),
	EventUncertain:     logentry.Event(core.TellUncertain),
	EventLost:          logentry.Event(core.TellLost),
	EventReleased:      logentry.Event(core.TellReleased),
	EventAcquireFailed: logentry.Event(core.TellRefused),
	EventReleaseFailed: logentry.Event(core.TellReleaseFailed),
	EventYield:         logentry.Event(core.TellYield),
	EventKept:          logentry.Event(core.TellKept),
	EventAcquiring:     "acquireStart", // not logged either
}

// String returns the event's name in logs.
func (k EventKind) String() string {
	if int(k) >= len(eventNames) || eventNames[k] == "" {
		return fmt.Sprintf("EventKind(%d)", uint8(k))
	}
	return eventNames[k]
}

// Event is something that happened to one lease.
type Event struct {
	Kind   EventKind
	Name   string // session ID or lease name
	Fence  int64
	At     time.Time
	Until  time.Time // end of the trust window, with Acquired and Renewed
	Reason string
	// Cause: Reason as one of a few fixed texts (docs/log.md), for counting
	Cause string
	Owner string
	// Repeated: this EventAcquireFailed or EventUncertain has the same Cause
	// and Owner as the last failure of this lease, less than a renewal interval
	// ago. Each failure has an event, but the log entry of a repeated failure
	// has the level debug.
	Repeated bool
	// Lease is the term; nil with EventAcquiring, EventAcquireFailed and
	// EventReleaseFailed.
	Lease *Lease
	// VacantSince is when the lease lost its last owner before this term, on
	// this instance's clock. If GivenBack is true, that owner released the
	// lease, and VacantSince is when this instance received the notice.
	// Otherwise it is when the owner's key expired, as last read. VacantSince
	// is zero if unknown: this instance did not wait for the lease, received it
	// directly from its owner, or found it deleted or released without a
	// notice.
	VacantSince time.Time
	GivenBack   bool
	// Dropped counts the events just before this one that this listener missed
	// because it was slow.
	Dropped int64

	routine bool // an attempt, or a renewal that ends no uncertainty: not for SubscribeChanges

	_ struct{}
}

// eventsMax is how many events a listener may be behind before it misses some. Renewing 10,000 leases makes twice as many events.
const eventsMax = 1 << 16

// hub is the event stream. Each listener has its own queue, so a slow or panicking listener harms only itself.
type hub struct {
	mu        sync.Mutex
	listeners []subscriber
	closed    bool
}

type subscriber struct {
	*queue.Queue[Event]
	changes bool // no routine events
}

func (b *hub) subscribe(f func(Event), changes bool, calls *callback.Calls) (cancel func()) {
	q := queue.New(eventsMax, func(e Event, dropped int64) {
		e.Dropped = dropped
		callback.Tell(calls, "a function given to Subscribe", f, e)
	})
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		q.Close()
		return func() {}
	}
	b.listeners = append(append([]subscriber{}, b.listeners...), subscriber{q, changes})
	return func() {
		q.Close()
		b.mu.Lock()
		defer b.mu.Unlock()
		var rest []subscriber
		for _, l := range b.listeners {
			if l.Queue != q {
				rest = append(rest, l)
			}
		}
		b.listeners = rest
	}
}

func (b *hub) current() []subscriber {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.listeners
}

func (b *hub) close() {
	b.mu.Lock()
	b.closed = true
	all := b.listeners
	b.listeners = nil
	b.mu.Unlock()
	for _, q := range all {
		q.Close()
	}
}
