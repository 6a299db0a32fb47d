package intent

import "github.com/leasestorm/leasestorm/internal/core"

// Config is what a machine needs to know. Durations are nanoseconds.
type Config struct {
	Worker      string   // instance ID: the owner of the leases
	Slots       []string // the pool, in the order in which it is tried
	Grace       int64    // a pipeline is asked to stop this long before its trust ends
	StopTimeout int64    // a pipeline that has not returned this long after it was asked is stuck
	Patience    int64    // how long Redis may take to confirm the end of what is left when a drain has ended all pipelines
	Retry       int64    // pause after an attempt that had no answer
	MaxTries    int      // deliveries after which an entry is poison
	Starting    int      // sessions that are being started at once, at most; the others wait their turn
}

// State is the state of a session as it is written.
type State uint8

// The states a worker writes.
const (
	Starting State = iota + 1
	Running
	Ended
)

// Reason says why a session ended.
type Reason uint8

// The reasons of the specification.
const (
	NoReason Reason = iota
	LeaseBusy
	NoTuner
	LeaseLost
	Stopped
	PipelineFailed
)

// EventKind says what an Event tells the machine.
type EventKind uint8

// What the machine can be told. Every effect that asks something is answered by exactly one event.
const (
	EvTick     EventKind = iota + 1 // time has reached Next
	EvEntry                         // the bus delivered Entry
	EvLease                         // answers Acquire: Outcome, Owner, Wait, Fence, Until
	EvRenewed                       // Lease: its trust now ends at Until
	EvLost                          // Lease: its term is over
	EvReleased                      // answers Release: all of it was given back, or is known to expire
	EvWritten                       // answers Write: Wrote
	EvLaunched                      // answers Launch: Launch, Text
	EvReturned                      // the pipeline has ended: Text, "" for well
	EvStop                          // a stop of Session was asked
	EvCheck                         // Redis may have lost records: write RUNNING again for all that run
	EvDrain                         // begin nothing more, end everything
)

// Outcome is what became of an attempt to take a lease.
type Outcome uint8

// The outcomes of EvLease.
const (
	Granted  Outcome = iota + 1 // Fence, Until
	Held                        // Owner, Wait (ns until it expires unless renewed; 0 unknown)
	NotNow                      // Redis forgot its leases: nothing is granted for Wait
	NoAnswer                    // not believed in; given back if it turns out to be won
	Refused                     // never under this name: Text
)

// Wrote is what a store says to a write.
type Wrote uint8

// The outcomes of EvWritten.
const (
	WroteOK      Wrote = iota + 1 // written
	WroteStop                     // written, and a stop was asked meanwhile
	WroteOver                     // the session has ended, a newer term has written, or another has taken the start over
	WroteMissing                  // there is no such session
	WroteFailed                   // no answer: ask again
)

// Launched is what became of a launch.
type Launched uint8

// The outcomes of EvLaunched.
const (
	LaunchOK    Launched = iota + 1
	LaunchFail           // the pipeline did not start: Text
	LaunchDoubt          // a lease is uncertain at this instant: nothing was begun
)

// Entry is one start on the bus.
type Entry struct {
	ID      string // of the bus
	Session string
	Service string
	Tries   int    // deliveries, this one included
	From    string // the dead worker it was claimed from, "" for a first delivery
	Owner   string // the worker that the session's record names, "" for none
	Fence   int64  // of the session's record, 0 for none
}

// Event is one thing the machine is told, at one instant of the instance's monotonic clock.
type Event struct {
	Kind    EventKind
	Now     core.Time
	Entry   Entry  // EvEntry
	Session string // all others, but EvRenewed and EvLost
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

// EffectKind says what the machine asks for.
type EffectKind uint8

// The effects.
const (
	Acquire EffectKind = iota + 1 // try Lease once; From: take it over from that owner. EvLease
	Release                       // give back Leases, all of them. EvReleased
	Abandon                       // the work under Leases is stuck: let them expire
	Write                         // State, Reason, Text, Slot, Fence, TunerFence; Ack. EvWritten
	Launch                        // start the pipeline. EvLaunched, and if that is LaunchOK one EvReturned
	Halt                          // ask the pipeline to end
	Bury                          // Ack goes to the dead letters (Text), and if there is a Reason its session ends with it
	Forget                        // nothing is held or known of Session any more
	Drained                       // EvDrain is done, or took too long: Left, Stuck. Nothing is asked for any more
)

// Effect is one thing the machine asks for.
type Effect struct {
	Kind       EffectKind
	Session    string
	Lease      string
	From       string
	Leases     []string
	State      State
	Reason     Reason
	Text       string
	Slot       string
	Fence      int64  // of the service lease; with no lease held, the fence the verdict stands on
	TunerFence int64  // of the tuner lease, 0 for none
	Ack        string // entry of the bus that is done with this
	Left       int    // sessions whose end is not confirmed
	Stuck      bool   // a pipeline has not returned
}

// ServiceLease and TunerLease are the names of a session's leases.
func ServiceLease(service string) string { return "service:" + service }

// TunerLease is the name of a slot's lease.
func TunerLease(slot string) string { return "tuner:" + slot }

// SessionOwner is the owner under which an API holds a service lease for a session until a worker takes it over.
func SessionOwner(session string) string { return "session:" + session }
