package lease

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/google/uuid"
)

// LeaseManager coordinates the polling leases of all instances (docs/specification.md, 000). Every method is safe for concurrent use.
type LeaseManager interface {
	// Start takes part: heartbeat, renewals and, if configured, placement run until Stop. ctx bounds the start only.
	Start(ctx context.Context) error

	// Stop ends the work under each lease, releases it and leaves the registry.
	Stop() error

	// TryAcquire makes one attempt. True: the lease is owned now, newly or already. False without an error: another instance holds it.
	TryAcquire(ctx context.Context, sessionID string) (bool, error)

	// Release gives the lease back; a waiting instance takes it at once.
	Release(ctx context.Context, sessionID string) error

	// IsOwned reports whether work for the session may begin now. It reads local memory: no call to Redis, no allocation.
	IsOwned(sessionID string) bool

	// OwnedSessions returns the sessions whose lease this instance holds now, ascending.
	OwnedSessions() []string

	// GetLiveNodes reads from Redis which instances have a heartbeat, ascending.
	GetLiveNodes(ctx context.Context) ([]string, error)

	// PreferredOwner returns the instance that should own the session: rendezvous rank, bounded by quotas.
	PreferredOwner(ctx context.Context, sessionID string) (string, error)

	// InstanceID returns this instance's unique identifier.
	InstanceID() string
}

// LeaseState is what an instance knows of a lease.
type LeaseState int

// The states of docs/specification.md, 000.
const (
	LeaseStateUnknown   LeaseState = iota // nothing is known, or nobody holds it
	LeaseStateOwned                       // this instance holds the lease
	LeaseStateOther                       // another instance holds the lease
	LeaseStateUncertain                   // a renewal failed: ownership is uncertain, nothing begins under it
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
	OwnerID       string // "" if nobody is known to hold it
	State         LeaseState
	AcquiredAt    time.Time // zero unless this instance holds it
	LastRenewedAt time.Time // zero before the first renewal
}

// State is the state of a whole instance.
type State int32

// The states, in the order an instance goes through them; balancing and settled alternate.
const (
	StateStarting  State = iota // Redis was not read yet
	StateBalancing              // leases are still to move, as far as this instance sees
	StateSettled                // every session has its owner and nothing is left to move
	StateDraining               // Stop was called: work is ending, leases are being released
	StateStopped                // nothing is held and nothing runs
)

// String returns the state's name.
func (s State) String() string {
	names := [...]string{"starting", "balancing", "settled", "draining", "stopped"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("State(%d)", int32(s))
	}
	return names[s]
}

// GenerateInstanceID returns hostname-bootTimestamp-randomSuffix. Each call gives another ID: an instance that restarts is another
// instance.
func GenerateInstanceID() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	return fmt.Sprintf("%s-%d-%s", host, time.Now().UnixNano(), uuid.NewString()[:8])
}
