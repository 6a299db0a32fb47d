package history

import (
	"fmt"

	"github.com/leasestorm/leasestorm/internal/plain"
)

// What an event takes, generously: in memory or in a file, whichever is more.
const (
	costEvent  = 160 // what an event has beside its names; in memory it has 56 bytes, twice while it is saved
	costName   = 16  // in the file, for each use of a name
	costOfName = 256 // in memory, for each name that was not there yet, beside its bytes
)

// budget is how much a recorder takes before it is full. The recorder's lock guards it.
type budget struct {
	max, used int64
	by        map[filler]int64
	last      Event
	full      chan struct{} // closed when max is reached
}

// filler is who brings events: a slot of nodes, or a witness.
type filler struct {
	kind Kind
	node string
}

// Bound has the recorder take events of about so many bytes, in memory and on the disk, and none after that: what it has then is what a
// run that was killed there would have left. It is called before the first event.
func (r *Recorder) Bound(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.budget = &budget{max: bytes, by: map[filler]int64{}, full: make(chan struct{})}
}

// Full is closed when a bound is reached; nil: there is none.
func (r *Recorder) Full() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.budget == nil {
		return nil
	}
	return r.budget.full
}

// Filled says of a recorder with a bound how much it has taken, and from whom the most.
func (r *Recorder) Filled() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.budget
	if b == nil {
		return ""
	}
	var most filler
	for f, n := range b.by {
		if n > b.by[most] || n == b.by[most] && f.kind < most.kind {
			most = f
		}
	}
	return fmt.Sprintf("%d MiB, of which %d MiB are %s (the last of all: instance %s, session %s)",
		b.used>>20, b.by[most]>>20, most, shown(b.last.Instance), shown(b.last.Session))
}

// shownMax is how many bytes of a name are shown.
const shownMax = 60

func shown(name string) string { return fmt.Sprintf("%q", plain.Cut(name, shownMax)) }

// String says who told of it, and as which kind of event.
func (f filler) String() string {
	switch k := f.kind; {
	case k.Said() || k == Malformed:
		return fmt.Sprintf("what %s says (%s)", f.node, k)
	case k >= Arrived && k <= Aborted:
		return fmt.Sprintf("requests at the polled target (%s)", k)
	case k.OfRedis() || k >= RedisIntent && k <= RedisState:
		return fmt.Sprintf("what was written to Redis (%s)", k)
	}
	return fmt.Sprintf("the harness' own (%s)", f.kind)
}

// take reports whether there is room for the event, whose names are in known if they were there before.
func (b *budget) take(e *Event, known map[string]uint32) bool {
	if b.used >= b.max {
		return false
	}
	cost := int64(costEvent)
	for _, name := range [...]string{e.Node, e.Instance, e.Session, e.Reason} {
		if name == "" {
			continue
		}
		cost += costName + quotedLen(name)
		if _, ok := known[name]; !ok {
			cost += costOfName + int64(len(name))
		}
	}
	b.used += cost
	f := filler{kind: e.Kind}
	if e.Kind.Said() || e.Kind == Malformed {
		f.node = e.Node
	}
	b.by[f] += cost
	if b.used >= b.max {
		b.last = *e
		close(b.full)
	}
	return true
}

// quotedLen is how many bytes a name takes in the file: what is escaped has up to six for one.
func quotedLen(name string) int64 {
	if isPlain(name) {
		return int64(len(name))
	}
	return int64(len(appendQuoted(nil, name)))
}
