package intent

import "github.com/leasestorm/leasestorm/internal/core"

// Config configures a Machine. Durations are in nanoseconds.
type Config struct {
	Worker      string   // instance ID: the owner of the leases
	Slots       []string // pool of slots, in the order in which they are tried
	Resource    string   // what a service is called: in texts, and before ":" in the name of its lease
	Slot        string   // likewise
	Grace       int64    // time between the request to stop a pipeline and the end of its trust
	StopTimeout int64    // after the request to stop, until a pipeline that has not returned is stuck
	Patience    int64    // after a drain has ended all pipelines, longest wait for Redis to confirm the remaining ends
	Retry       int64    // shortest pause after an attempt without an answer
	MaxTries    int      // most deliveries of an entry, before it becomes a dead letter; 0: no limit
	Starting    int      // most sessions that are being started at once; 0: no limit
}

// State is the state of a session as it is written.
type State string

// The states a worker writes.
const (
	Starting State = "STARTING"
	Running  State = "RUNNING"
	Ended    State = "ENDED"
)

// Reason is why a session ended.
type Reason string

// The reasons.
const (
	LeaseBusy      Reason = "R_LEASE_BUSY"
	NoSlot         Reason = "R_NO_SLOT"
	LeaseLost      Reason = "R_LEASE_LOST"
	Stopped        Reason = "R_STOPPED"
	PipelineFailed Reason = "R_PIPELINE_FAILED"
)

// EventKind is the kind of an Event.
type EventKind uint8

// The events. Exactly one event answers each effect that names one.
const (
	EvTick     EventKind = iota + 1 // time has reached Next
	EvEntry                         // the bus delivered Entry
	EvLease                         // answers Acquire: Outcome, Owner, Wait, Fence, Until
	EvRenewed                       // Lease: its trust now ends at Until
	EvLost                          // Lease: its term is over
	EvReleased                      // answers Release: all its leases were given back, or will expire
	EvWritten                       // answers Write: Wrote
	EvLaunched                      // answers Launch: Launch, Text
	EvReturned                      // the pipeline has ended: Text is its error, "" for none
	EvStop                          // a stop of Session was requested
	EvCheck                         // Redis may have lost records: write RUNNING again for all running sessions
	EvDrain                         // begin nothing more, end everything
)

// Outcome is the result of an attempt to acquire a lease.
type Outcome uint8

// The outcomes of EvLease.
const (
	Granted  Outcome = iota + 1 // Fence, Until
	Held                        // Owner, Wait (ns until it expires unless renewed; 0 unknown)
	NotNow                      // Redis lost its data and grants nothing for Wait
	NoAnswer                    // the shell gives the lease back if the attempt turns out to have succeeded
	Refused                     // the lease cannot be acquired under this name: Text
)

// Wrote is the result of a write.
type Wrote uint8

// The outcomes of EvWritten.
const (
	WroteOK      Wrote = iota + 1 // written
	WroteStop                     // written, and a stop was requested meanwhile
	WroteOver                     // the session has ended, a newer term has written, or another worker has taken the start over
	WroteMissing                  // there is no such session
	WroteFailed                   // no answer: write again
)

// Launched is the result of a launch.
type Launched uint8

// The outcomes of EvLaunched.
const (
	LaunchOK    Launched = iota + 1
	LaunchFail           // the pipeline did not start: Text
	LaunchDoubt          // a lease is uncertain at this instant: the pipeline did not start
)

// Entry is one start on the bus.
type Entry struct {
	ID      string // of the bus
	Session string
	Service string
	Tries   int    // deliveries, this one included
	From    string // dead worker it was claimed from, "" for a first delivery
	Owner   string // worker in the session's record, "" for none
	Fence   int64  // of the session's record, 0 for none
}

// Event is one input of the machine, at one instant of the instance's monotonic clock.
type Event struct {
	Kind    EventKind
	Now     core.Time
	Entry   Entry  // EvEntry
	Session string // EvLease, EvReleased, EvWritten, EvLaunched, EvReturned, EvStop
	Lease   string // EvLease, EvRenewed, EvLost
	Outcome Outcome
	Wrote   Wrote
	Launch  Launched
	Owner   string
	Wait    int64
	Fence   int64 // EvLease, and of the term in EvRenewed and EvLost
	Until   core.Time
	Text    string
}

// EffectKind is the kind of an Effect.
type EffectKind uint8

// The effects, and the events that answer them.
const (
	Acquire EffectKind = iota + 1 // try Lease once; From: take it over from that owner. EvLease
	Release                       // give back all Leases. EvReleased
	Abandon                       // the work under Leases is stuck: let them expire
	Write                         // State, Reason, Text, Slot, Fence, SlotFence; Ack. EvWritten
	Launch                        // start the pipeline. EvLaunched, and if that is LaunchOK one EvReturned
	Halt                          // ask the pipeline to end
	Bury                          // make Ack a dead letter (Text), and end its session if there is a Reason
	Forget                        // the machine has dropped Session; its pipeline has returned, so abandoned leases may be acquired again
	Drained                       // EvDrain is done, or took too long: Left, Stuck. The last effect
)

// Effect is one output of the machine.
type Effect struct {
	Kind      EffectKind
	Session   string
	Lease     string
	From      string
	Leases    []string
	State     State
	Reason    Reason
	Text      string
	Slot      string
	Fence     int64  // of the service lease; if no lease is held, the highest of the session so far
	SlotFence int64  // of the tuner lease, 0 for none
	Ack       string // bus entry that this acknowledges
	Left      int    // sessions whose end is not confirmed
	Stuck     bool   // a pipeline has not returned
}

// SessionOwner returns the owner under which an API holds a service lease for a session until a worker takes it over.
func SessionOwner(session string) string { return "session:" + session }
