package policy

import "slices"

// Term is a term of a lease in a shell.
type Term interface {
	comparable
	Name() string // of the lease
	Valid() bool  // whether it is believed now
}

// Terms are the terms that one session of a worker has acquired and not released. The zero value has none. Not safe for concurrent use.
type Terms[T Term] struct {
	held  []T // in order of acquisition; some may be over
	stuck []T // abandoned, until the pipeline returns
}

// Keep adds a term that the session acquired. It replaces an earlier term of the same lease, which is over.
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

// Launch returns the two terms under which the session's pipeline runs. ok reports whether it may start: both are believed now (I1).
func (t *Terms[T]) Launch(service, slot string) (a, b T, ok bool) {
	a, owned := t.Of(service)
	b, placed := t.Of(slot)
	return a, b, owned && placed && a.Valid() && b.Valid()
}

// Release removes and returns all terms, for the caller to release.
func (t *Terms[T]) Release() []T {
	all := t.held
	t.held = nil
	return all
}

// Abandon returns all terms, to be left to expire because the pipeline does not stop.
func (t *Terms[T]) Abandon() []T {
	t.stuck, t.held = t.held, nil
	return t.stuck
}

// Recover removes and returns the abandoned terms, whose leases may be acquired again because the pipeline has returned.
func (t *Terms[T]) Recover() []T {
	all := t.stuck
	t.stuck = nil
	return all
}
