// Package callback calls what a caller gave.
package callback

// Tell tells f something, unless f is nil. A listener that panics misses this, and nobody else anything: whoever has something to do
// after f has been told does it all the same. panicked is told what it panicked with.
func Tell[T any](f func(T), what T, panicked func(any)) {
	if f == nil {
		return
	}
	defer func() {
		if r := recover(); r != nil {
			panicked(r)
		}
	}()
	f(what)
}
