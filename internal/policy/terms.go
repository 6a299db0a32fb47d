package policy

import "slices"

// Term is a term of a lease as a shell knows it.
type Term interface {
	comparable
	Name() string // of the lease
	Valid() bool  // whether it is believed in now
}

// Terms are what one session in a worker's hand has taken and not given back. The zero value has none.
type Terms[T Term] struct {
	held  []T // in the order in which they were taken; some may be over
	stuck []T // abandoned, until the pipeline returns
}

// Keep takes note of a term that the session was given. One of the same lease that was lost before is over: there is nothing to give
// back, and it is not this one.
func (t *Terms[T]) Keep(h T) {
	t.held = append(slices.DeleteFunc(t.held, func(o T) bool { return o.Name() == h.Name() }), h)
}

// Of returns the term of a lease.
func (t *Terms[T]) Of(lease string) (h T, ok bool) {
	if i := slices.IndexFunc(t.held, func(h T) bool { return h.Name() == lease }); i >= 0 {
		return t.held[i], true
	}
	return h, false
}

// Launch returns the terms under which the session's pipeline may start: both are believed in at this instant, or it is in doubt (I1).
func (t *Terms[T]) Launch(service, slot string) (a, b T, ok bool) {
	a, owned := t.Of(service)
	b, placed := t.Of(slot)
	return a, b, owned && placed && a.Valid() && b.Valid()
}

// Release returns what is to be given back: everything.
func (t *Terms[T]) Release() []T {
	all := t.held
	t.held = nil
	return all
}

// Abandon returns what is to be left to expire, because the pipeline does not stop.
func (t *Terms[T]) Abandon() []T {
	t.stuck, t.held = t.held, nil
	return t.stuck
}

// Recover returns what may be taken here again, because the pipeline has returned.
func (t *Terms[T]) Recover() []T {
	all := t.stuck
	t.stuck = nil
	return all
}
