package poll

import (
	"context"
	"errors"

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
	cut    int          // polls in a row that the timeout cut off
	failed int          // polls in a row that failed otherwise
	err    error        // of the last of them
	run    *run         // the running poll
	wakeAt core.Time    // next wake-up in the agenda
	index  int          // position in the agenda; -1: not in it
}

type run struct {
	hold    *lease.Lease
	cancel  context.CancelCauseFunc
	policy  policy.Result
	outcome outcome
	err     error // of the poll function

	abandoned []*lease.Lease // holds given up until it returns
}

// outcome says how a poll ended: by itself, by its timeout, or by something else.
type outcome uint8

const (
	ended    outcome = iota + 1 // by itself
	cutOff                      // by its timeout
	stopping                    // by something else, which says nothing about the timeout
)

func outcomeOf(ctx context.Context, err error) outcome {
	switch {
	case err == nil || ctx.Err() == nil:
		return ended
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return cutOff
	}
	return stopping
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
