package policy

import (
	"maps"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Releases is who waits for Redis' word on leases that were given back. C names one. The zero value has nobody.
type Releases[C any] struct{ waiting map[string][]C }

// Wait is for who has given a lease back.
func (r *Releases[C]) Wait(name string, who C) {
	if r.waiting == nil {
		r.waiting = map[string][]C{}
	}
	r.waiting[name] = append(r.waiting[name], who)
}

// Over says that the lease was lost, or that its release is given up, and returns who waits no more.
func (r *Releases[C]) Over(name string) []C {
	all := r.waiting[name]
	delete(r.waiting, name)
	return all
}

// Answered is told the answer of an op, and returns who has Redis' word by it.
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

// Left returns the leases that somebody waits for.
func (r *Releases[C]) Left() []string { return slices.Sorted(maps.Keys(r.waiting)) }
