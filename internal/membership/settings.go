package membership

import (
	"time"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/intentnames"
)

// Defaults of a worker.
const (
	MaxTries = 5   // deliveries of an unfinished start before it becomes a dead letter
	Starting = 128 // most sessions that start at once
)

// Settings returns the default settings of a worker's machine, from the TTL of its leases and the longest wait for Redis.
func Settings(n *intentnames.Names, instance string, slots []string, ttl, opTimeout time.Duration) core.Config {
	return core.Config{
		Worker: instance, Slots: slots, Grace: int64(ttl / 6), StopTimeout: int64(ttl), Patience: int64(opTimeout), Retry: int64(Retry(ttl)),
		MaxTries: MaxTries, Starting: Starting, Resource: n.Resource, Slot: n.Slot,
	}
}

// ReleaseTimeout bounds how long a drained worker waits for Redis to confirm the release of its leases.
func ReleaseTimeout(ttl, opTimeout time.Duration) time.Duration { return min(ttl/3, opTimeout) }
