package election

import "github.com/leasestorm/leasestorm/internal/core"

// State is what a member is.
type State uint8

// The states of the specification.
const (
	Follower State = iota
	Candidate
	Leader
)

// String returns the state's name in the specification.
func (s State) String() string {
	names := [...]string{"FOLLOWER", "CANDIDATE", "LEADER"}
	if int(s) < len(names) {
		return names[s]
	}
	return "UNKNOWN"
}

// Config is what a Machine needs to know. All durations are nanoseconds.
type Config struct {
	Instance   string
	TTL        int64 // of the leader key
	Interval   int64 // between two cycles of a follower
	Heartbeat  int64 // between two heartbeats of a leader
	StartDelay int64 // before the first attempt; drawn by whoever makes the machine
}

// HeartbeatSlack is how much longer than the leader key a heartbeat lives, and how stale it may be.
const HeartbeatSlack = 5 * core.Second

// HeartbeatTTL is the life of a heartbeat.
func (c *Config) HeartbeatTTL() int64 { return c.TTL + HeartbeatSlack }

// Kind says what an Input tells.
type Kind uint8

// The inputs.
const (
	// Tick: time has reached Machine.Next, or passed.
	Tick Kind = iota + 1
	// Start: take part, after the start delay. The first input.
	Start
	// Stop: withdraw. A leader gives its lease back once no work runs under it.
	Stop
	// Attempt: an attempt to acquire the lease is about to be sent. One that is not sent is told by its refusal alone.
	Attempt
	// Tell: the core told Input.Tell of the lease: acquired (Fence), uncertain, renewed, lost, released, refused, yield.
	Tell
	// Looked: what was read for Effects.Look.
	Looked
	// Busy: work runs under the leadership; Done: it has returned. In between, leadership is not given back, and one that
	// is lost is not campaigned for again.
	Busy
	Done
)

// Input is one thing a Machine is told, at one instant.
type Input struct {
	Kind   Kind
	Now    core.Now
	Tell   core.TellKind
	Fence  int64
	Owner  string // lost, refused: who holds the lease, if known
	Reason string // lost, released, refused, uncertain
	Look   Look
}

// TellInput makes an Input of what a core told.
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
	Fence     int64  // the last fence granted, 0 if not known
	Of        string // whose heartbeat was read
	Beats     bool   // there is a heartbeat of Of
	Heartbeat string // what it says, which may be nothing
}

// Effects is what one step asks for. Events are valid until the next step.
type Effects struct {
	Want   bool // the core: want the lease and wait for it; or, while waiting, try now
	Drop   bool // the core: give the lease back, or stop wanting it
	Doubt  bool // the core: find out whether Redis lost its data
	Beat   bool // set the own heartbeat: the wall clock in ms, for Config.HeartbeatTTL
	Unbeat bool // delete the own heartbeat
	Look   bool // read leader key, fence and the heartbeat of LookOf ("": of whoever the leader key names), then Looked
	LookOf string
	Sweep  bool // delete the heartbeats of the dead
	Events []Event
}

// EventKind says what an Event tells.
type EventKind uint8

// The events. The first four are those of the table; the others tell of no transition.
const (
	StateChanged       EventKind = iota + 1 // From, To; Fence of the leadership that begins or ends
	LeadershipAcquired                      // Fence
	LeadershipLost                          // Fence, Reason
	ElectionFailed                          // Reason, Leader if known
	LeaderChanged                           // Leader, Fence if known: who leads now, as far as this member knows
	HeartbeatStale                          // Leader: holds the leader key, and its heartbeat stands still or is missing
	HeartbeatInvalid                        // Leader, Reason: its heartbeat is no time, or one to come
	DuplicateInstance                       // Reason: another process has this member's ID, or had it a moment ago
)

// Event is one thing to be told to listeners.
type Event struct {
	Kind     EventKind
	At       core.Time
	From, To State
	Fence    int64
	Leader   string
	Reason   string
}

// Leadership is who leads, as a member knows it.
type Leadership struct {
	Instance string    // "" nobody is known to lead
	Fence    int64     // 0 not known
	Since    core.Time // own: since it was acquired; others': since this member has known of it
	Until    core.Time // others': when it must have expired, unless it was renewed since it was last seen; own: 0
}

// At reports whether somebody is known to lead at t, on the own clock.
func (l *Leadership) At(t core.Time) bool { return l.Instance != "" && (l.Until == 0 || t < l.Until) }
