package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Errors for errors.Is.
var (
	// ErrHeld: another owner holds the lease; errors.As gives a *HeldError.
	ErrHeld = errors.New("lease is held by another")
	// ErrLost: the term is over, or the instance never held the lease.
	ErrLost = errors.New("lease is not held")
	// ErrQuarantineTooShort: the group that shares the epoch has agreed on a quarantine shorter than this instance's TTL or Quarantine.
	ErrQuarantineTooShort = redisstore.ErrQuarantineTooShort
	// ErrQuarantine: Redis may have lost data and grants nothing yet; errors.As gives a *QuarantineError.
	ErrQuarantine = errors.New("redis may have lost leases and grants nothing until the last of them has run out")
	// ErrUnknown: Redis did not answer, so the outcome is unknown, and the instance does not believe in a lease that it may have
	// acquired. It wraps an error of the connection (no route, an untrusted certificate) unchanged.
	ErrUnknown = errors.New("no answer from redis: the outcome is not known")
	// ErrRefused: Redis answered with an error, whose text follows (OOM, NOPERM, READONLY …). Unless the error is also ErrUnknown, Redis
	// changed nothing.
	ErrRefused = redisstore.ErrRefused
	// ErrDenied: an ACL or a renamed command denies what leases need; the message names it and the line that grants it. It is ErrRefused too.
	ErrDenied = redisstore.ErrDenied
	// ErrUnacknowledged: with Config.Replicas, fewer than a majority of the Redis nodes have the write, so it does not count. Bring a
	// replica back. It is ErrRefused and ErrUnknown too.
	ErrUnacknowledged = redisstore.ErrUnacknowledged
	// ErrClock: Redis' clock jumped forward, so leases may have expired early. The instance acquires nothing for one TTL.
	ErrClock = errors.New("redis' clock jumped forward: leases may have expired early")
	// ErrNested: a Do or Acquire inside a Do of the same lease, which would wait for itself.
	ErrNested = errors.New("the lease is held by the Do that this call is made in")
	// ErrStopped: the instance is stopping or has stopped; make a new one.
	ErrStopped = errors.New("stopped")
	// ErrStuck: Stop has ended, but Sessions, Notify, one of Hooks, or Logger's writer has not returned. It may go on; the leases do not.
	ErrStuck = errors.New("stopped, and something of the configuration has not returned")
	// ErrNotStarted: Start was not called.
	ErrNotStarted = errors.New("not started: call Start first")
	// ErrConfig: settings contradict each other or are out of range.
	ErrConfig = errors.New("invalid lease configuration")
	// ErrSessionID: the session ID is no UUID in lower case or, with Config.NamedSessions, no valid name.
	ErrSessionID = errors.New("not the ID of a session")
	// ErrName: the lease name is empty, too long or has spaces or control characters.
	ErrName = errors.New("invalid lease name")
	// ErrWrongType: the lease's key holds another type, so it belongs to another program.
	ErrWrongType = errors.New("lease key holds another type")
)

// declare is used only for a server without an epoch: any other server may have granted a lease that its owner still believes in.
const declare = "if this Redis has never granted a lease, admin.Bootstrap with this instance's Config ends the wait"

func unproven(doubt string) string { return "redis may have lost leases, because " + doubt }

// HeldError names the owner of a lease.
type HeldError struct {
	Name  string
	Owner string        // instance ID
	TTL   time.Duration // time to expiry without a renewal; 0: not known

	_ struct{}
}

// Error implements error.
func (e *HeldError) Error() string {
	if e.TTL <= 0 {
		return fmt.Sprintf("lease %q is held by %q", e.Name, e.Owner)
	}
	return fmt.Sprintf("lease %q is held by %q and expires in %v unless renewed", e.Name, e.Owner,
		e.TTL.Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *HeldError) Is(target error) bool { return target == ErrHeld }

// QuarantineError reports when Redis grants leases again.
type QuarantineError struct {
	Until time.Time // on this instance's clock

	doubt string     // reason why a server without an epoch grants nothing
	began core.Cause // why the epoch began, if known
}

// Error implements error.
func (e *QuarantineError) Error() string {
	return ungranting(e.Until, e.doubt, e.began)
}

// ungranting returns why Redis grants nothing before until.
func ungranting(until time.Time, doubt string, began core.Cause) string {
	why, remedy := "redis was restarted or is new, and may have lost data", ""
	switch {
	case doubt != "":
		why, remedy = unproven(doubt), " ("+declare+")"
	case began == core.CauseOperator:
		why = "an operator changed the group's quarantine or replicas"
	case began == core.CauseAttached:
		why = "a replica attached itself to redis, and may have acknowledged an older master"
	}
	return why + ": nothing is granted before " + stamp(until) + remedy
}

// Is makes errors.Is(err, ErrQuarantine) true.
func (e *QuarantineError) Is(target error) bool { return target == ErrQuarantine }
