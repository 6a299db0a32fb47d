package intent

import "time"

// State is the state of a session.
type State string

// The states. StateEnded is final.
const (
	StateNew      State = "NEW"      // accepted and on the bus
	StateStarting State = "STARTING" // a worker holds both its leases
	StateRunning  State = "RUNNING"  // its pipeline runs
	StateEnded    State = "ENDED"    // with a Reason
)

// Reason is why a session ended.
type Reason string

// The reasons.
const (
	// ReasonLeaseBusy: another session uses the resource.
	ReasonLeaseBusy Reason = "R_LEASE_BUSY"
	// ReasonNoSlot: no slot of the pool is free.
	ReasonNoSlot Reason = "R_NO_SLOT"
	// ReasonLeaseLost: a lease, or the worker itself, was lost.
	ReasonLeaseLost Reason = "R_LEASE_LOST"
	// ReasonStopped: stopped on request, or the pipeline ended by itself.
	ReasonStopped Reason = "R_STOPPED"
	// ReasonPipelineFailed: Detail has the error.
	ReasonPipelineFailed Reason = "R_PIPELINE_FAILED"
)

// Session is the record of one accepted request.
type Session struct {
	ID string
	Request
	Key string // equal for equal requests

	State     State
	Reason    Reason // with StateEnded
	Detail    string // one sentence for people
	StopAsked bool   // a stop is pending
	Worker    string // the instance that holds, or last held, its leases
	Slot      string
	Fence     int64 // of the resource's lease; writes to the record check it
	SlotFence int64
	CreatedAt time.Time // by Redis' clock, as UpdatedAt
	UpdatedAt time.Time

	_ struct{}
}

// Scopes that the API requires of a token.
const (
	ScopeWrite = "write"
	ScopeRead  = "read"
)

// Observer counts for metrics. Its methods must not block. Package metrics
// implements it.
type Observer interface {
	// Intent counts a request to an API. outcome is accepted, replayed,
	// stopped, conflict or the cause of a refusal. leased is
	// api.Config.LeaseFirst.
	Intent(outcome string, leased bool)
	// Replay counts a request that was answered with an existing session.
	Replay()
	// WorkerStart counts a request that a worker has processed. outcome is
	// started, rejected_busy, rejected_no_slot, failed or stopped.
	WorkerStart(outcome string)
}
