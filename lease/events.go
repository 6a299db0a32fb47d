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

// EventKind says what happened. Its String is the field "event" of log entries.
type EventKind uint8

// The events of a lease. Every term begins with Acquired and ends with exactly one of Lost and Released.
const (
	EventAcquired      EventKind = iota + 1 // Fence, Until, Vacancy if known: a term begins
	EventRenewing                           // an attempt to renew is about to be sent
	EventRenewed                            // Until: the attempt succeeded; it also ends an uncertainty
	EventUncertain                          // Reason: an attempt failed; nothing may begin until renewed (G4)
	EventLost                               // Reason, Owner if known: the term is over
	EventReleased                           // Reason, Owner (the heir, if any): the term was given back
	EventAcquireFailed                      // Reason, Owner: another holds it, or there was no answer
	EventReleaseFailed                      // Reason: Redis did not confirm; it is tried until the lease has expired
	EventYield                              // Reason, Owner (who asked): the work should end
	EventKept                               // Reason: what EventYield asked is off, the work goes on
	EventAcquiring                          // an attempt to acquire is about to be sent
)

var eventNames = [...]string{
	EventAcquired:      logentry.Event(core.TellAcquired),
	EventRenewing:      "renewStart", // nothing has happened yet: it is not logged
	EventRenewed:       logentry.Event(core.TellRenewed),
	EventUncertain:     logentry.Event(core.TellUncertain),
	EventLost:          logentry.Event(core.TellLost),
	EventReleased:      logentry.Event(core.TellReleased),
	EventAcquireFailed: logentry.Event(core.TellRefused),
	EventReleaseFailed: logentry.Event(core.TellReleaseFailed),
	EventYield:         logentry.Event(core.TellYield),
	EventKept:          logentry.Event(core.TellKept),
	EventAcquiring:     "acquireStart", // as renewStart
}

// String returns the event's name in logs.
func (k EventKind) String() string {
	if int(k) >= len(eventNames) || eventNames[k] == "" {
		return fmt.Sprintf("EventKind(%d)", uint8(k))
	}
	return eventNames[k]
}

// Event is one thing that happened to one lease.
type Event struct {
	Kind   EventKind
	Name   string // session ID or lease name
	Fence  int64
	At     time.Time
	Until  time.Time // Acquired, Renewed: end of the trust window
	Reason string
	Cause  string // Reason in one of few words (docs/log.md), without what Redis said: what events can be counted by
	Owner  string
	// Hold is the term; nil with EventAcquiring, EventAcquireFailed and EventReleaseFailed.
	Hold *Hold
	// Vacancy is how the lease came to have no owner before this term; nil where that is not known.
	Vacancy *Vacancy
	// Dropped counts the events that this listener missed just before this one, because it was slow.
	Dropped int64

	routine bool // of no change: who listens to changes is not told

	_ struct{}
}

// Vacancy is how a lease came to have no owner, as far as the acquiring instance knows. It is unknown for a lease that the instance did
// not wait for, that was passed on to it (Keeper.Adopt), or that it found free early: deleted, or given back without a notice.
type Vacancy struct {
	// Since is a time on this instance's clock. With GivenBack it is when the instance heard of the release, otherwise when the last owner's
	// key expired, as it was last read: from then on that owner no longer believes in its lease.
	Since time.Time
	// Owner is the last owner's instance ID.
	Owner string

	GivenBack bool
}

// eventsMax is how many events a listener may be behind before it misses some: renewing 10,000 leases makes twice as many.
const eventsMax = 1 << 16

// hub is the event stream. Each listener has its own queue, so that one that is slow or panics harms only itself.
type hub struct {
	mu        sync.Mutex
	listeners []subscriber
	closed    bool
}

type subscriber struct {
	*queue.Queue[Event]
	changes bool // it does not want the routine
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
