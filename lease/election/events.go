package election

import (
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/core"
	rules "github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/queue"
)

// State is the state of a member.
type State uint8

// The states.
const (
	StateFollower  State = 0
	StateCandidate State = 1 // an attempt is in flight
	StateLeader    State = 2
)

// String returns FOLLOWER, CANDIDATE or LEADER.
func (s State) String() string { return rules.State(s).String() }

// EventKind is the kind of an event. Its String is the field "event" of log
// entries.
type EventKind uint8

// The events, with the fields that each one sets. Each transition publishes
// exactly these, in this order, each once:
//
//	FOLLOWER  → CANDIDATE   StateChanged
//	CANDIDATE → LEADER      StateChanged, LeadershipAcquired
//	CANDIDATE → FOLLOWER    StateChanged, ElectionFailed
//	LEADER    → FOLLOWER    StateChanged, LeadershipLost
//
// While attempts fail and the member sees no leader, it publishes
// ElectionFailed again in every ElectionInterval. All other events belong to no
// transition.
const (
	EventStateChanged       EventKind = 1 // From, To; Fence if LEADER
	EventLeadershipAcquired EventKind = 2 // Fence
	EventLeadershipLost     EventKind = 3 // Fence, Reason; Leader if known
	EventElectionFailed     EventKind = 4 // Reason; Leader if known
	EventLeaderChanged      EventKind = 5 // Leader, the new one; Fence if known
	EventHeartbeatStale     EventKind = 6 // Leader, which still has the key
	EventHeartbeatInvalid   EventKind = 7 // Leader, Reason
	EventDuplicateInstance  EventKind = 8 // Reason: the ID is used twice
)

var eventNames = [...]string{
	EventStateChanged: "stateChanged", EventLeadershipAcquired: "leadershipAcquired",
	EventLeadershipLost: "leadershipLost", EventElectionFailed: "electionFailed", EventLeaderChanged: "leaderChanged",
	EventHeartbeatStale: "heartbeatStale", EventHeartbeatInvalid: "heartbeatInvalid",
	EventDuplicateInstance: "duplicateInstance",
}

// String returns the event's name in logs.
func (k EventKind) String() string {
	if int(k) >= len(eventNames) || eventNames[k] == "" {
		return fmt.Sprintf("EventKind(%d)", uint8(k))
	}
	return eventNames[k]
}

// Event is one event of one election, as this member saw it.
type Event struct {
	Kind     EventKind
	Election string // the leader key
	From, To State
	Fence    int64
	Leader   string // instance ID
	Reason   string
	At       time.Time
	// Dropped counts the events just before this one that this listener
	// missed because it was slow.
	Dropped int64

	_ struct{}
}

// queueMax is how many events a listener may be behind before it misses some.
const queueMax = 1 << 16

// listener passes events to one function. A function that blocks or panics delays no other listener.
type listener struct {
	*queue.Queue[Event]

	removed atomic.Bool
}

func newListener(f func(Event), calls *callback.Calls) *listener {
	l := &listener{}
	l.Queue = queue.New(queueMax, func(e Event, dropped int64) {
		if !l.removed.Load() {
			e.Dropped = dropped
			callback.Tell(calls, "a function given to Election.Subscribe", f, e)
		}
	})
	return l
}

func head(e *Event) (zapcore.Level, string) {
	switch e.Kind {
	case EventStateChanged, EventElectionFailed: // other events, or the lease's, report what matters
		return zapcore.DebugLevel, messages[e.Kind]
	case EventLeadershipLost:
		if e.Reason == core.CauseRequested.String() || e.Reason == core.CauseDrain.String() {
			return zapcore.InfoLevel, "Leadership released"
		}
		return zapcore.WarnLevel, messages[e.Kind]
	case EventHeartbeatStale, EventHeartbeatInvalid, EventDuplicateInstance:
		return zapcore.WarnLevel, messages[e.Kind]
	}
	return zapcore.InfoLevel, messages[e.Kind]
}

var messages = [...]string{
	EventStateChanged: "The member's state changed", EventLeadershipAcquired: "Leadership acquired",
	EventLeadershipLost: "Leadership lost", EventElectionFailed: "Election failed", EventLeaderChanged: "Leader changed",
	EventHeartbeatStale:    "The leader's heartbeat is stale; only the leader key decides",
	EventHeartbeatInvalid:  "The leader's heartbeat is malformed",
	EventDuplicateInstance: "This member's instance ID is used twice; give every process its own",
}

// enter logs an event of this instance without waiting.
func enter(log *zap.Logger, instance string, e *Event) {
	ce := log.Check(head(e))
	if ce == nil {
		return
	}
	ce.Time = e.At
	ce.Write(fields(e, instance)...)
}

// fields returns the fields of e's log entry. Only a transition has a previous and a next state.
func fields(e *Event, instance string) []zap.Field {
	f := []zap.Field{zap.String("event", e.Kind.String()), zap.String("instance", instance), zap.String("election", e.Election)}
	if e.Fence != 0 {
		f = append(f, zap.Int64("fence", e.Fence))
	}
	if e.Leader != "" {
		f = append(f, zap.String("leader", e.Leader))
	}
	if e.Reason != "" {
		f = append(f, zap.String("reason", e.Reason))
	}
	if e.Kind == EventStateChanged {
		f = append(f, zap.Stringer("from", e.From), zap.Stringer("to", e.To))
	}
	return f
}
