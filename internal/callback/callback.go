// Package callback calls what a caller gave.
package callback

// Exited is what a listener is said to have panicked with that ended its goroutine, as the FailNow of a test does.
const Exited = "it ended its goroutine (runtime.Goexit)"

// Tell tells f each of what, in order, unless f is nil, and waits until it has returned. A listener that panics, or ends its goroutine,
// misses that one, and nobody else anything: whoever has something to do after f has been told does it all the same. panicked is told what
// it panicked with. f runs in a goroutine that is not the caller's, for nothing keeps one from ending.
func Tell[T any](f func(T), panicked func(any), what ...T) {
	for f != nil && len(what) > 0 {
		told, over := 0, make(chan struct{})
		go func() {
			defer close(over)
			for told < len(what) {
				told++
				one(f, panicked, what[told-1])
			}
		}()
		<-over
		what = what[told:]
	}
}

func one[T any](f func(T), panicked func(any), what T) {
	with := any(Exited)
	defer func() {
		if r := recover(); r != nil {
			with = r
		}
		if with != nil {
			panicked(with)
		}
	}()
	f(what)
	with = nil
}
