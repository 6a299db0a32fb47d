package intent

import "time"

// State is the state of a session.
type State string

// The states of ADR-003. Ended is final.
const (
	StateNew      State = "NEW"      // accepted and on the bus
	StateStarting State = "STARTING" // a worker holds both its leases
	StateRunning  State = "RUNNING"  // its pipeline runs
	StateEnded    State = "ENDED"    // with a Reason
)

// Reason is why a session ended.
type Reason string

// The reasons of ADR-003.
const (
	ReasonLeaseBusy      Reason = "R_LEASE_BUSY"      // another session uses the service
	ReasonNoTuner        Reason = "R_NO_TUNER"        // no slot of the pool is free
	ReasonLeaseLost      Reason = "R_LEASE_LOST"      // a lease, or the worker itself, was lost
	ReasonStopped        Reason = "R_STOPPED"         // stopped on request, or the pipeline ended by itself
	ReasonPipelineFailed Reason = "R_PIPELINE_FAILED" // Detail has the error
)

// Session is the record of one accepted start.
type Session struct {
	ID string
	Start
	Key string

	State      State
	Reason     Reason // with StateEnded
	Detail     string // one sentence for people
	StopAsked  bool   // a stop is pending
	Worker     string // the instance that holds, or last held, its leases
	Slot       string
	Fence      int64 // of the service lease; every write to the record checks it
	TunerFence int64
	CreatedAt  time.Time // by Redis' clock, as UpdatedAt
	UpdatedAt  time.Time

	_ struct{}
}

// Scopes that the API requires of a token.
const (
	ScopeWrite = "v3:write"
	ScopeRead  = "v3:read"
)

// Observer counts for the metrics of ADR-003. Its methods must not block. Package metrics implements it.
type Observer interface {
	// Intent counts a request. outcome is accepted, replayed, stopped, conflict or a refusal's cause; mode is phase1 or phase2.
	Intent(outcome, mode string)
	// Replay counts one start that returned an existing session.
	Replay()
	// WorkerStart counts a start that a worker has processed: started, rejected_busy, rejected_no_tuner, failed, stopped.
	WorkerStart(outcome string)
}
