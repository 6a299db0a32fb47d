package poll

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/lease"
)

// publisher polls one session. It exists while this instance holds the lease or the poll runs.
// SessionManager.mu guards it.
type publisher struct {
	id     string
	polls  policy.Poller
	hold   *lease.Lease // the present term; nil: none
	failed int          // polls in a row that failed
	err    error        // of the last of them
	run    *run         // the running poll
	wakeAt core.Time    // next wake-up in the agenda
	index  int          // position in the agenda; -1: not in it
}

type run struct {
	hold    *lease.Lease
	cancel  context.CancelCauseFunc
	policy  policy.Result
	err     error // of the poll function
	stopped bool  // something else ended it

	abandoned []*lease.Lease // holds given up until it returns
}

// outcomeOf returns the error of a poll that returned err, and whether something else than its timeout ended it.
func outcomeOf(ctx context.Context, err error, timeout time.Duration) (failure error, stopped bool) {
	switch {
	case err == nil || ctx.Err() == nil:
		return err, false
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return fmt.Errorf("%w: the poll was cut off; if the target needs longer than %v, set a longer poll.Config.Timeout (one above "+
			"nine tenths of the TTL also needs LongPolls)", err, timeout), false
	}
	return err, true
}

// agenda is a heap of publishers by their next wake-up.
type agenda []*publisher

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].wakeAt < a[j].wakeAt }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

// Push implements heap.Interface.
func (a *agenda) Push(x any) {
	p := x.(*publisher)
	p.index = len(*a)
	*a = append(*a, p)
}

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	old := *a
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	p.index = -1
	return p
}
