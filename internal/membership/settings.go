package membership

import (
	"time"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
)

// Defaults of a worker.
const (
	MaxTries = 5   // deliveries of a start without an end after which it is a dead letter
	Starting = 128 // sessions that are being started at once
)

// Settings are those of the machine of a worker whose leases live for ttl, where nothing else is said. opTimeout is the longest wait for
// an answer of Redis.
func Settings(instance string, slots []string, ttl, opTimeout time.Duration) core.Config {
	return core.Config{
		Worker: instance, Slots: slots, Grace: int64(ttl / 6), StopTimeout: int64(ttl), Patience: int64(opTimeout), Retry: int64(Retry(ttl)),
		MaxTries: MaxTries, Starting: Starting,
	}
}

// ReleaseTimeout is how long a worker that stops waits for Redis to confirm that its leases are free. A drain has waited for them before.
func ReleaseTimeout(ttl, opTimeout time.Duration) time.Duration { return min(ttl/3, opTimeout) }
