package lease

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
)

// LeaseManager coordinates the polling leases of all instances
// (docs/specification.md, 000). Every method is safe for concurrent use.
type LeaseManager interface {
	// Start begins the heartbeat, renewals and, if configured, placement. They
	// run until Stop. ctx bounds only the call of Start.
	Start(ctx context.Context) error

	// Stop ends the work under each lease, releases it and leaves the registry.
	Stop() error

	// TryAcquire makes one attempt. It returns true if the instance owns the
	// lease now, newly or already. False without an error means that another
	// instance holds it.
	TryAcquire(ctx context.Context, sessionID string) (bool, error)

	// Release releases the lease. If an instance waits for it, that instance
	// acquires it at once.
	Release(ctx context.Context, sessionID string) error

	// IsOwned reports whether work for the session may begin now. It reads
	// local memory: no request, no allocation.
	IsOwned(sessionID string) bool

	// OwnedSessions returns the sessions whose leases this instance holds now,
	// ascending.
	OwnedSessions() []string

	// GetLiveNodes reads from Redis the IDs of the instances with a heartbeat,
	// ascending.
	GetLiveNodes(ctx context.Context) ([]string, error)

	// PreferredOwner returns the instance that should own the session, by
	// rendezvous hashing within each instance's quota.
	PreferredOwner(ctx context.Context, sessionID string) (string, error)

	// InstanceID returns this instance's unique identifier.
	InstanceID() string
}

// LeaseState is the state of a lease, as an instance knows it.
type LeaseState int

// The states of docs/specification.md, 000.
const (
	LeaseStateUnknown LeaseState = iota // not known, or nobody holds it
	LeaseStateOwned                     // this instance holds the lease
	LeaseStateOther                     // another instance holds the lease
	// LeaseStateUncertain: a renewal failed, so no work may begin.
	LeaseStateUncertain
)

// String returns the state's name.
func (s LeaseState) String() string {
	names := [...]string{"unknown", "owned", "other", "uncertain"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("LeaseState(%d)", int(s))
	}
	return names[s]
}

// LeaseInfo is the result of Manager.Info.
type LeaseInfo struct {
	SessionID     string
	OwnerID       string // "" if no owner is known
	State         LeaseState
	AcquiredAt    time.Time // zero unless this instance holds it
	LastRenewedAt time.Time // zero before the first renewal
}

// state is the state of a whole instance.
type state int32

// The states in the order of an instance's life. Balancing and settled alternate.
const (
	stateStarting  state = iota // Redis has not been read yet
	stateBalancing              // some leases still have to move, as far as this instance knows
	stateSettled                // every session has its owner, and no lease has to move
	stateDraining               // Stop was called: work is ending, leases are being released
	stateStopped                // no lease is held and nothing runs
)

// GenerateInstanceID returns hostname-bootTimestamp-randomSuffix, a new ID at
// each call, because a restarted process is a new instance.
func GenerateInstanceID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, time.Now().UnixNano(), uuid.NewString()[:8])
}
