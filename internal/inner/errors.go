package inner

import "errors"

// Errors that the packages beside lease share, and that users see as the text of an error.
var (
	// ErrUnknown: Redis did not answer, so the outcome is unknown, and the instance does not believe in a lease that it may have
	// acquired. It wraps an error of the connection (no route, an untrusted certificate) unchanged.
	ErrUnknown = errors.New("no answer from redis: the outcome is not known")
	// ErrStuck: Stop has ended, but Sessions, Notify, one of Hooks, or Logger's writer has not returned. It may go on; the leases do not.
	ErrStuck = errors.New("stopped, but a function of the configuration has not returned")
)
