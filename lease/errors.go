package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// Errors for errors.Is. Most are wrapped in an *OpError.
var (
	// ErrHeld: another instance, or another caller of this one, holds the
	// lease. OpError.Owner is the holder; Until is when its lease expires.
	ErrHeld = errors.New("lease is held by another")
	// ErrLost: the term is over, or the instance never held the lease.
	ErrLost = errors.New("lease is not held")
	// ErrQuarantine: Redis may have lost leases, with its data or because its
	// clock jumped. Nothing is granted before OpError.Until.
	ErrQuarantine = errors.New("redis may have lost leases and grants nothing until the last of them has expired")
	// ErrStopped: the instance does not run. Start was not called, or Stop was;
	// a stopped instance does not start again.
	ErrStopped = errors.New("stopped")
	// ErrInvalidConfig: a setting, a lease name or a session ID is invalid. The
	// text says which. A retry fails, too.
	ErrInvalidConfig = errors.New("invalid lease configuration")
)

// OpError is the error of an operation. errors.Is and errors.As examine Err. If
// Redis refused, Err has the reason in Redis' own words.
type OpError struct {
	Op   string // "acquire", "release", "start" or "stop"
	Name string // the lease; "" for an operation on all

	// Unknown: Redis may have executed the operation, because it gave no
	// answer, or too few replicas acknowledged. If the instance may have
	// acquired a lease, it does not use that lease, and releases it. If Unknown
	// is false, Redis changed nothing.
	Unknown bool

	Owner string // with ErrHeld: the instance that holds the lease
	// With ErrHeld, Until is when the lease expires unless its holder renews
	// it, to within a few milliseconds; zero if unknown. With ErrQuarantine,
	// Until is when Redis grants leases again.
	Until time.Time
	Err   error
}

// Error implements error. The text names the lease.
func (e *OpError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *OpError) Unwrap() error { return e.Err }

// opError wraps err in an OpError. It returns nil if err is nil.
func opError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	e := &OpError{Op: op, Name: name, Unknown: errors.Is(err, errUnknown), Err: err}
	var held *heldError
	var quarantine *quarantineError
	switch {
	case errors.As(err, &held):
		e.Owner = held.owner
		if held.ttl > 0 {
			e.Until = time.Now().Add(held.ttl)
		}
	case errors.As(err, &quarantine):
		e.Until = quarantine.until
	}
	return e
}

// Errors that callers see as one of the exported ones, or as OpError.Unknown.
var (
	errUnknown        = inner.ErrUnknown
	errStuck          = inner.ErrStuck
	errRefused        = redisstore.ErrRefused
	errUnacknowledged = redisstore.ErrUnacknowledged
	// errQuarantineTooShort: the group that shares the epoch has agreed on a quarantine shorter than this instance's TTL or Quarantine.
	errQuarantineTooShort = redisstore.ErrQuarantineTooShort
	// errNested: a Do or Acquire inside a Do of the same lease, which would wait for itself.
	errNested     = &kindError{"the lease is held by the Do that makes this call", ErrInvalidConfig}
	errNotStarted = &kindError{"not started: call Start first", ErrStopped}
	// errName: the lease name is empty, too long or has spaces or control characters.
	errName = &kindError{"invalid lease name", ErrInvalidConfig}
	// errWrongType: the lease's key holds another type, so it belongs to another program.
	errWrongType = &kindError{"lease key holds another type", ErrInvalidConfig}
)

// errLate is the error of a discovery that was not sent.
var errLate = errors.New("Config.Sessions leaves no time to read leases and heartbeats")

// kindError is an error of its own for which errors.Is(err, kind) is also true.
type kindError struct {
	text string
	kind error
}

func (e *kindError) Error() string        { return e.text }
func (e *kindError) Is(target error) bool { return target == e.kind }

// declare is used only for a server without an epoch: any other server may have granted a lease that its owner still believes in.
const declare = "if no instance with its EpochKey ever ran on this Redis, " +
	"admin.Bootstrap with this instance's Config, or leasectl bootstrap with the --system of this instance, ends the wait"

func unproven(doubt string) string {
	return "redis cannot be shown to be new, so it may have lost leases: " + doubt
}

// heldError names the owner of a lease.
type heldError struct {
	name  string
	owner string        // instance ID
	ttl   time.Duration // time to expiry without a renewal; 0: not known
}

// Error implements error.
func (e *heldError) Error() string {
	if e.ttl <= 0 {
		return fmt.Sprintf("lease %q is held by %q", e.name, e.owner)
	}
	return fmt.Sprintf("lease %q is held by %q and expires in %v unless renewed", e.name, e.owner,
		e.ttl.Round(time.Millisecond))
}

// Is makes errors.Is(err, ErrHeld) true.
func (e *heldError) Is(target error) bool { return target == ErrHeld }

// quarantineError reports when Redis grants leases again.
type quarantineError struct {
	until time.Time // on this instance's clock

	doubt string     // reason why a server without an epoch grants nothing
	began core.Cause // why the epoch began, if known; CauseClock: this instance alone waits, because Redis' clock jumped
}

// Error implements error.
func (e *quarantineError) Error() string {
	if e.began == core.CauseClock {
		return fmt.Sprintf("redis' clock jumped forward: leases may have expired early, so nothing is acquired before %s",
			e.until.Format(time.RFC3339Nano))
	}
	return ungranting(e.until, e.doubt, e.began)
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
func (e *quarantineError) Is(target error) bool { return target == ErrQuarantine }

// never reports whether err means that Redis cannot work until somebody changes its settings.
func never(err error) bool {
	return slices.ContainsFunc([]error{redisstore.ErrNotRedis, redisstore.ErrTooOld, redisstore.ErrAuth, redisstore.ErrDenied,
		redisstore.ErrQuarantineTooShort, redisstore.ErrReplicas}, func(never error) bool { return errors.Is(err, never) })
}

func isRefused(err error) bool { return errors.Is(err, errRefused) }

// words returns err's text without the prefix of every refusal, "" for nil.
func words(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), errRefused.Error()+": ")
}

// unconfirmed is an error of Redis that leaves open what Redis did before.
type unconfirmed struct{ error }

func (e unconfirmed) Is(target error) bool { return target == errUnknown }
func (e unconfirmed) Unwrap() error        { return e.error }

// resultless is the error of a read that failed with err.
func resultless(err error) error {
	if err = redisstore.Cause(err); isRefused(err) {
		return err
	}
	return fmt.Errorf("%w: %w", errUnknown, err)
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + words(err)
}

func stamp(t time.Time) string { return t.Format(time.RFC3339Nano) }
