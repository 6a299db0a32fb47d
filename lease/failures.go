package lease

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// failures has the last failure of each kind of request. A failure ends when Redis answers a request of the same kind, or when the
// answer to another kind shows that the failure is over.
type failures struct {
	life  time.Duration // age at which a failure that is not repeated ends: such requests are not sent any more
	kinds map[core.OpKind]failure
}

type failure struct {
	err       error
	executed  bool // Redis may have executed the request
	since, at time.Time
}

func newFailures(life time.Duration) failures {
	return failures{life: life, kinds: map[core.OpKind]failure{}}
}

// note records the outcome of a request sent at the time sent.
func (f *failures) note(kind core.OpKind, a *core.Answer, sent, now time.Time) {
	if a.Failure == core.FailNone {
		delete(f.kinds, kind)
		wrote, grown := written(kind, a)
		f.over(sent, func(err error) bool {
			return a.Acked > 0 && errors.Is(err, errUnacknowledged) || wrote && redisstore.Outdated(err, grown)
		})
		return
	}
	last := f.kinds[kind]
	if isRefused(last.err) && !isRefused(a.Err) && now.Sub(last.at) <= f.life {
		return // Redis refused: a connection that fails as well is not the reason
	}
	if a.Err == nil || errors.Is(a.Err, context.Canceled) || timeOnly(a.Err) && len(f.kinds) > 0 {
		return // this failure says less than the last one
	}
	since := last.since
	if last.err == nil || now.Sub(last.at) > f.life {
		since = now
	}
	f.kinds[kind] = failure{a.Err, a.Failure == core.FailUnknown || a.Failure == core.FailUncounted, since, now}
}

// over drops the failures from before sent that are outdated: all errors of the connection, which works again, and the refusals for
// which is returns true.
func (f *failures) over(sent time.Time, is func(error) bool) {
	for k, last := range f.kinds {
		if last.at.Before(sent) && (!isRefused(last.err) || is(last.err)) {
			delete(f.kinds, k)
		}
	}
}

// written reports whether Redis carried out a write, and whether that write needed memory.
func written(kind core.OpKind, a *core.Answer) (wrote, grown bool) {
	if a.Stale {
		return false, false
	}
	wrote, grown = kind == core.OpBeat || kind == core.OpLeave, kind == core.OpBeat
	for i := range a.Results {
		switch a.Results[i].Outcome {
		case core.OutGranted:
			return true, true
		case core.OutAdopted, core.OutRenewed, core.OutReasserted, core.OutReleased:
			wrote = true
		}
	}
	return wrote, grown
}

// denied returns the error of a request that an ACL denied and that has not succeeded since.
func (f *failures) denied() error {
	for _, last := range f.kinds {
		if redisstore.Denies(last.err) {
			return last.err
		}
	}
	return nil
}

// renewals returns the last failure to renew. Failed probes count too, because an instance sends nothing else to a silent Redis,
// and so do errors of the connection.
func (f *failures) renewals(now time.Time) (last failure) {
	for k, one := range f.kinds {
		renews := k == core.OpRenew || k == core.OpReassert || k == core.OpObserve
		if (renews || !isRefused(one.err)) && now.Sub(one.at) <= f.life && one.at.After(last.at) {
			last = one
		}
	}
	return last
}

// present returns the failure of requests of that kind or, if there is none, of any kind not in but. Refusals come before errors of the
// connection. The zero failure means none.
func (f *failures) present(kind core.OpKind, now time.Time, but ...core.OpKind) (last failure) {
	for k, one := range f.kinds {
		switch {
		case now.Sub(one.at) > f.life || slices.Contains(but, k):
		case k == kind:
			return one
		case last.err == nil || isRefused(one.err) && !isRefused(last.err) || isRefused(one.err) == isRefused(last.err) && one.at.After(last.at):
			last = one
		}
	}
	return last
}

// timeOnly reports whether err says only that the timeout expired.
func timeOnly(err error) bool {
	var way *net.OpError
	return errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &way)
}

// noResult is the error of a request that failed with f, such as "renewal" (what) of the lease name. Without an error in f, text says why.
func (f failure) noResult(kind core.OpKind, what, name, text string) error {
	switch {
	case f.err == nil:
		return fmt.Errorf("%w: %s of lease %q: %s", errUnknown, what, name, text)
	case !isRefused(f.err):
		return fmt.Errorf("%w: %s of lease %q: %w", errUnknown, what, name, f.err)
	}
	err := fmt.Errorf("%s of lease %q: %w", what, name, f.err)
	if f.executed || kind == core.OpRelease { // a release is either confirmed or unknown
		return unconfirmed{err}
	}
	return err
}

// failedLooks counts consecutive failed discoveries. A discovery needs more rights than any other request, so discoveries may fail
// forever while all other requests succeed. Such an instance never finds a free lease.
type failedLooks struct {
	count int
	since time.Time // when the first of them failed
	err   error
}

// failingMany is the number of failed discoveries in a row that Health reports.
const failingMany = 2

func (l *failedLooks) note(a *core.Answer) {
	switch {
	case a.Failure == core.FailNone:
		*l = failedLooks{}
	case a.Failure == core.FailUnsent && a.Err == nil: // it waited too long for the previous one
	default:
		if l.count == 0 {
			l.since = time.Now()
		}
		l.count++
		l.err = a.Err
	}
}
