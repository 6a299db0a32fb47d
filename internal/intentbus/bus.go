// Package intentbus is how workers reach what lease/intent/store does not show: the bus, the registry of workers, and their writes.
package intentbus

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease/intent"
)

// Open returns the access of the worker with that instance ID to a *store.Store. Package store sets it.
var Open func(store any, worker string) (Bus, error)

// ErrUnfinished means that the search of all keys for leases took more than sixty times Options.OpTimeout, or that there are more than a
// million leases. The leases found until then were processed.
var ErrUnfinished = errors.New("not all keys were read")

// Entry is a start on the bus, as delivered to one worker.
type Entry struct {
	ID      string
	Type    string // "start"; other programs may write anything else
	Session string
	intent.Request
	Tries int    // deliveries, including this one
	From  string // the dead worker that had the entry; "": none
	Owner string // the worker in the session's record; only from Sweep
	Fence int64  // fence of the session's record; only from Sweep
}

// Write is a worker's update of a session.
type Write struct {
	Session   string
	Resource  string
	State     intent.State
	Reason    intent.Reason
	Detail    string
	Slot      string
	Fence     int64 // of the resource's lease; without a lease, of the record that the decision is based on
	SlotFence int64
	Ack       string // the entry that this write finishes
}

// Wrote is the outcome of a write.
type Wrote string

// The outcomes of Write. After WroteOK, no stop is pending.
const (
	WroteOK      Wrote = "K"
	WroteStop    Wrote = "S" // written, and a stop is pending
	WroteOver    Wrote = "O" // not written: the session has ended, a newer term has written, or another worker has taken over the start
	WroteMissing Wrote = "M" // not written: there is no session of this ID and resource
)

// Worker is one worker of the registry.
type Worker struct {
	Instance string
	Info     string
	Age      time.Duration // since its last beat, by Redis' clock
	Left     bool          // it has stopped cleanly
	Beat     float64       // time of its last beat, ms
}

// Bus is one worker's access to the bus.
type Bus interface {
	// Create creates the consumer group if it does not exist. Fetch calls it when the group is missing.
	Create(ctx context.Context) error
	// Fetch waits at most block for undelivered entries, and returns up to n. It must not be called concurrently.
	Fetch(ctx context.Context, n int, block time.Duration) ([]Entry, error)
	// Sweep cleans up after dead workers. It ends their running sessions with ReasonLeaseLost and takes over their unfinished entries.
	// It also returns unfinished entries delivered to this worker at least idle ago, because an answer may have been lost.
	//
	// A worker is dead once its last beat is life ago. Even then, its session counts as running while Redis has the resource's lease for
	// it. more reports that there is more work.
	Sweep(ctx context.Context, life, idle time.Duration) (entries []Entry, more bool, err error)
	// Write writes a session's state.
	Write(ctx context.Context, w Write) (Wrote, error)
	// Bury makes an entry a dead letter. It ends the entry's session with reason, unless reason is "", the session runs, or a term newer
	// than fence has it. It ignores an entry with this ID that names another session, because another server numbered it.
	Bury(ctx context.Context, e Entry, why string, fence int64, reason intent.Reason) error
	// StopAsked reports whether a session's record has a pending stop.
	StopAsked(ctx context.Context, id string) (bool, error)

	// Beat keeps the worker, described by info, alive in the registry. stops are its sessions with a pending stop. begun counts the
	// sessions that it has begun and not ended, by the records. server identifies the run of Redis. Another run may have an older copy.
	Beat(ctx context.Context, info string) (stops []string, begun int, server string, err error)
	// Foreign returns the dispensable keys that the last Beat found to hold another type. Without "stops", stops come a beat later.
	// Without "ended", no record is deleted.
	Foreign() []string
	// Disown ends, with ReasonLeaseLost, the sessions that run here only by their records. unknown returns, of the given sessions, those
	// that do not run.
	Disown(ctx context.Context, unknown func([]string) []string) error
	// Leave declares a worker dead: this one when it stops, or another that is known to be dead.
	Leave(ctx context.Context, worker string) error
	// Listen calls stop and left for the messages on the channel until ctx ends. It calls up after each subscription, because it may have
	// missed messages. Any client of Redis can publish there, so a message is only a reason to read the records (StopAsked, Sweep).
	Listen(ctx context.Context, stop, left func(string), up func())

	// Workers returns all workers of the registry, including dead ones that no sweep has removed.
	Workers(ctx context.Context) ([]Worker, error)
	// Leases passes the names of all leases on resources and slots to take, page by page, until take returns an error. A name may occur
	// twice. Leases skips foreign keys that cannot be leases. It returns ErrUnfinished if there may be more.
	Leases(ctx context.Context, take func(names []string) error) error
	// DeleteAllLeases deletes all leases on resources and slots, at the start of an installation's only worker. The caller guarantees that
	// the workers in others, as returned by Workers, are dead. beats is a worker that has appeared or beaten since then. Each step checks
	// for such a worker, and deletes nothing if there is one (I1). DeleteAllLeases returns ErrUnfinished if it may have missed leases.
	DeleteAllLeases(ctx context.Context, others []Worker) (deleted int, beats string, err error)

	// Explain adds the line that grants a worker its rights if err is a denial by an ACL. Otherwise it returns err.
	Explain(err error) error
	// Close closes the connection of Fetch, and ends a running one.
	Close() error
}

// Refused returns the code, such as WRONGTYPE or NOPERM, of Redis' refusal, also within a script, or "" if Redis did not answer.
func Refused(err error) string {
	if redisstore.Denied(err) != nil { // in a script it begins with ERR; Ping reports it with the rules to add
		return "NOPERM"
	}
	var said redis.Error
	if !errors.As(err, &said) || errors.Is(err, redis.Nil) {
		return ""
	}
	text := said.Error()
	if _, inner, ok := strings.Cut(text, ": -"); ok && strings.HasPrefix(text, "ERR ") { // Redis 6.2 wraps a script's error
		text = inner
	}
	code, _, _ := strings.Cut(text, " ")
	if code == "" || strings.ContainsFunc(code, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		return "ERR"
	}
	return code
}
