package sentinel

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/lease"
)

// window is a time in which an instance trusted a lease.
type window struct {
	owner    string
	from, to time.Time
}

// record is what the instances believed, and when, from their own events.
type record struct {
	mu      sync.Mutex
	windows map[string][]window // by lease, in the order in which they began
	terms   int
	changed chan struct{}
}

func newRecord() *record {
	return &record{windows: map[string][]window{}, changed: make(chan struct{}, 1)}
}

// note takes an event of an instance. Doubt ends no window: what runs under a lease goes on until the window's end.
func (r *record) note(owner string, e lease.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.last(owner, e.Name)
	switch e.Kind {
	case lease.EventAcquired:
		r.terms++
		r.windows[e.Name] = append(r.windows[e.Name], window{owner, e.At, e.Until})
	case lease.EventRenewed:
		if last == nil || last.to.Before(e.At) {
			r.windows[e.Name] = append(r.windows[e.Name], window{owner, e.At, e.Until})
		} else {
			last.to = e.Until
		}
	case lease.EventLost, lease.EventReleased:
		if last != nil && e.At.Before(last.to) {
			last.to = e.At
		}
	default:
		return
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// last is the owner's latest window of the lease.
func (r *record) last(owner, name string) *window {
	all := r.windows[name]
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].owner == owner {
			return &all[i]
		}
	}
	return nil
}

// count is the number of terms that have begun.
func (r *record) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.terms
}

// owners are who trusts which lease at the time, by lease.
func (r *record) owners(at time.Time) map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	owners := map[string]string{}
	for name, all := range r.windows {
		i := slices.IndexFunc(all, func(w window) bool { return !w.from.After(at) && w.to.After(at) })
		if i >= 0 {
			owners[name] = all[i].owner
		}
	}
	return owners
}

// since judges what was believed from the time on: the number of leases that had two owners at once, for how long the
// worst of them had, and the longest time for which a lease had none.
func (r *record) since(from, to time.Time) (doubled int, longest, idle time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, all := range r.windows {
		together, none := judge(all, from, to)
		longest, idle = max(longest, together), max(idle, none)
		if together > 0 {
			doubled++
		}
	}
	return doubled, longest, idle
}

// judge adds up for how long two or more trusted one lease, and finds the longest time in which nobody did, between from
// and to.
func judge(windows []window, from, to time.Time) (together, idle time.Duration) {
	sorted := slices.Clone(windows)
	slices.SortFunc(sorted, func(a, b window) int { return cmp.Compare(a.from.UnixNano(), b.from.UnixNano()) })
	covered, owner := from, "" // until when, and by whom, the lease was trusted so far
	for _, w := range sorted {
		begin, end := later(w.from, from), earlier(w.to, to)
		if !begin.Before(end) {
			continue
		}
		if begin.After(covered) {
			idle = max(idle, begin.Sub(covered))
		} else if w.owner != owner && owner != "" {
			together += earlier(end, covered).Sub(begin)
		}
		if end.After(covered) {
			covered, owner = end, w.owner
		}
	}
	return together, max(idle, to.Sub(covered))
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
