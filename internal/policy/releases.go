package policy

import (
	"maps"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Releases holds the callers that wait for Redis to confirm the release of leases. C identifies a caller. The zero value has none. Not safe
// for concurrent use.
type Releases[C any] struct{ waiting map[string][]C }

// Wait adds a caller that has released a lease.
func (r *Releases[C]) Wait(name string, who C) {
	if r.waiting == nil {
		r.waiting = map[string][]C{}
	}
	r.waiting[name] = append(r.waiting[name], who)
}

// Over removes and returns the callers of a lease that is released or lost, or whose release is given up.
func (r *Releases[C]) Over(name string) []C {
	all := r.waiting[name]
	delete(r.waiting, name)
	return all
}

// Answered removes and returns the callers whose release the answer to op confirms.
func (r *Releases[C]) Answered(op *core.Op, a *core.Answer) (all []C) {
	if op.Kind != core.OpRelease || a.Failure != core.FailNone || a.Stale {
		return nil
	}
	for i := range op.Items {
		if i < len(a.Results) && a.Results[i].Outcome != core.OutUnknown {
			all = append(all, r.Over(op.Items[i].ID)...)
		}
	}
	return all
}

// Left returns the leases whose release a caller waits for, in ascending order.
func (r *Releases[C]) Left() []string { return slices.Sorted(maps.Keys(r.waiting)) }
