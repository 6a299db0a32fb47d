package election

import "github.com/leasestorm/leasestorm/internal/core"

// State is the state of a member.
type State uint8

// The states.
const (
	Follower State = iota
	Candidate
	Leader
)

// String returns the name of the state in upper case.
func (s State) String() string {
	names := [...]string{"FOLLOWER", "CANDIDATE", "LEADER"}
	if int(s) < len(names) {
		return names[s]
	}
	return "UNKNOWN"
}

// Config configures a Machine. All durations are in nanoseconds.
type Config struct {
	Instance   string
	TTL        int64 // of the leader key
	Interval   int64 // between two cycles of a follower
	Heartbeat  int64 // between two heartbeats of a leader
	StartDelay int64 // before the first attempt; the caller draws it at random
}

// HeartbeatSlack is how much longer than the leader key a heartbeat lives. A member also accepts heartbeats whose time is ahead of its own
// clock by up to HeartbeatSlack.
const HeartbeatSlack = 5 * core.Second

// HeartbeatTTL returns the TTL of a heartbeat.
func (c *Config) HeartbeatTTL() int64 { return c.TTL + HeartbeatSlack }

// Kind is the kind of an Input.
type Kind uint8

// The inputs.
const (
	// Tick: time has reached Machine.Next, or passed.
	Tick Kind = iota + 1
	// Start: take part, after the start delay. The first input.
	Start
	// Stop: withdraw. A leader gives its lease back once no work runs under it.
	Stop
	// Attempt: the core is about to send an attempt to acquire the lease. For an attempt that it does not send, only the refusal comes.
	Attempt
	// Tell: the core sent Input.Tell about the lease: acquired (Fence), uncertain, renewed, lost, released, refused, yield.
	Tell
	// Looked: the result of Effects.Look.
	Looked
	// Busy: work runs under the leadership; Done: it has returned. In between, the member does not give leadership back, and after a loss
	// it does not campaign again.
	Busy
	Done
)

// Input is one input of a Machine, at one instant.
type Input struct {
	Kind   Kind
	Now    core.Now
	Tell   core.TellKind
	Fence  int64
	Owner  string // lost, refused: holder of the lease, if known
	Reason string // lost, released, refused, uncertain
	Look   Look
}

// TellInput returns the Input for a Tell of the core.
func TellInput(now core.Now, t *core.Tell) Input {
	reason := t.Cause.String()
	if t.Text != "" {
		reason += ": " + t.Text
	}
	return Input{Kind: Tell, Now: now, Tell: t.Kind, Fence: t.Fence, Owner: t.Owner, Reason: reason}
}

// Look is one reading of an election's keys.
type Look struct {
	Failed    bool   // no answer: nothing else is set
	Leader    string // the leader key, "" if there is none
	Fence     int64  // the last fence granted, 0 if unknown
	Of        string // instance whose heartbeat was read
	Beats     bool   // there is a heartbeat of Of
	Heartbeat string // its value, may be empty
}

// Effects is the output of one step. Events are valid until the next step.
type Effects struct {
	Want   bool // send core.EvWant with Wait: want the lease and wait for it, or, while waiting, try now
	Drop   bool // send core.EvDrop: give the lease back, or stop wanting it
	Doubt  bool // send core.EvDoubt: find out whether Redis lost its data
	Beat   bool // set the own heartbeat to the wall clock in ms, for Config.HeartbeatTTL
	Unbeat bool // delete the own heartbeat
	Look   bool // read leader key, fence and the heartbeat of LookOf ("": of the instance in the leader key), then send Looked
	LookOf string
	Sweep  bool // delete the heartbeats of dead members
	Events []Event
}

// EventKind is the kind of an Event.
type EventKind uint8

// The events. The first four belong to transitions, the others do not.
const (
	StateChanged       EventKind = iota + 1 // From, To; Fence of the leadership that begins or ends
	LeadershipAcquired                      // Fence
	LeadershipLost                          // Fence, Reason
	ElectionFailed                          // Reason, Leader if known
	LeaderChanged                           // Leader: the present leader, as far as known; Fence if known
	HeartbeatStale                          // Leader: its heartbeat is missing or does not change, though it holds the leader key
	HeartbeatInvalid                        // Leader, Reason: its heartbeat is not a time, or lies in the future
	DuplicateInstance                       // Reason: another process has this member's ID, or had it a moment ago
)

// Event is one event for listeners.
type Event struct {
	Kind     EventKind
	At       core.Time
	From, To State
	Fence    int64
	Leader   string
	Reason   string
}

// Leadership is the leader, as a member knows it.
type Leadership struct {
	Instance string    // "" no leader is known
	Fence    int64     // 0 unknown
	Since    core.Time // own: when it was acquired; others': when this member first knew of it
	Until    core.Time // others': when it has expired unless renewed since it was last seen; own: 0
}

// At reports whether a leader is known at t, on the own clock.
func (l *Leadership) At(t core.Time) bool { return l.Instance != "" && (l.Until == 0 || t < l.Until) }
