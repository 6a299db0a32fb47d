package policy

import (
	"maps"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Waiters decides who of the callers of one instance gets a lease that they are after: first come, first served. A caller makes one
// attempt, or waits until it has the lease; who stands waits for one term without being a caller. C names a caller, and W is why a
// lease was refused. The zero value has nobody.
type Waiters[C comparable, W any] struct {
	Shared bool // a term is everybody's who asked for it, and may be had without a caller; else it is one caller's

	leases map[string]*waiting[C, W]
	closed bool
}

// waiting is who waits for one lease: there is none without callers and somebody who stands.
type waiting[C comparable, W any] struct {
	callers  []caller[C]
	standing bool
	refused  bool // since the first caller came or the last term began
	why      W    // the last time
}

type caller[C comparable] struct {
	who  C
	wait bool
}

// Word is what a caller hears.
type Word uint8

// The words.
const (
	Won     Word = iota // it has the term
	Held                // another caller of this instance has it
	Refused             // it was not granted, and why
)

// Heard is what one caller hears.
type Heard[C comparable] struct {
	Caller C
	Word   Word
	Ends   bool // it asks no more; else it goes on waiting
}

// Reply is what is to be done now, in this order.
type Reply[C comparable, W any] struct {
	Heard []Heard[C]
	Why   W    // of those who hear that they are refused
	Given bool // the term that began is somebody's

	Want bool // ask for the lease
	Wait bool // and until it is had: one attempt does not do
	Drop bool // take the asking back, or give back what was asked for in vain
}

// Want is for a caller who comes. held says whether this instance holds the lease.
func (w *Waiters[C, W]) Want(name string, who C, wait, held bool) (t Reply[C, W]) {
	q := w.leases[name]
	asking := q != nil && len(q.callers) > 0
	switch {
	case held && !wait:
		t.Heard = []Heard[C]{{who, Held, true}}
		return t
	case !held && asking && !wait && q.refused: // the core waits for those who wait, and makes no attempt for this one
		t.Heard, t.Why = []Heard[C]{{who, Refused, true}}, q.why
		return t
	}
	q = w.of(name)
	q.callers = append(q.callers, caller[C]{who, wait})
	switch {
	case held:
		t.Heard = []Heard[C]{{who, Held, false}}
	case q.refused:
		t.Heard, t.Why = []Heard[C]{{who, Refused, false}}, q.why
	}
	if !held && (wait || !asking) {
		t.Want, t.Wait = true, q.waits()
	}
	return t
}

// Unwant is for a caller who gives up.
func (w *Waiters[C, W]) Unwant(name string, who C, held bool) (t Reply[C, W]) {
	q := w.leases[name]
	if q == nil || len(q.callers) == 0 {
		return t
	}
	q.callers = slices.DeleteFunc(q.callers, func(c caller[C]) bool { return c.who == who })
	t.Drop = len(q.callers) == 0 && !held && !q.standing
	w.tidy(name, q)
	return t
}

// Acquired says that a term began.
func (w *Waiters[C, W]) Acquired(name string) (t Reply[C, W]) {
	q := w.leases[name]
	if q == nil {
		t.Drop = !w.Shared
		return t
	}
	t.Given = !w.Shared || len(q.callers) == 0
	if len(q.callers) == 0 {
		q.standing = false
	}
	rest := q.callers[:0]
	for i, c := range q.callers {
		switch {
		case i == 0 || w.Shared:
			t.Heard = append(t.Heard, Heard[C]{c.who, Won, true})
			continue
		case c.wait:
			rest = append(rest, c)
		}
		t.Heard = append(t.Heard, Heard[C]{c.who, Held, !c.wait})
	}
	q.callers, q.refused = rest, false
	w.tidy(name, q)
	return t
}

// Refused says that the lease was not granted. Those who made one attempt hear it; those who wait go on, unless waiting cannot help.
func (w *Waiters[C, W]) Refused(name string, cause core.Cause, why func() W) (t Reply[C, W]) {
	q := w.leases[name]
	if q == nil || len(q.callers) == 0 {
		return t
	}
	final := cause == core.CauseDrain || cause == core.CauseWrongType || cause == core.CauseStuck
	rest := q.callers[:0]
	for _, c := range q.callers {
		t.Heard = append(t.Heard, Heard[C]{c.who, Refused, final || !c.wait})
		if c.wait && !final {
			rest = append(rest, c)
		}
	}
	t.Why, t.Drop = why(), final && !q.standing
	q.callers, q.refused, q.why = rest, true, t.Why
	w.tidy(name, q)
	return t
}

// Over says that a term is over.
func (w *Waiters[C, W]) Over(name string) (t Reply[C, W]) {
	if q := w.leases[name]; q != nil && !w.closed {
		t.Want, t.Wait = true, q.waits()
	}
	return t
}

// Stand waits for one term, without a caller.
func (w *Waiters[C, W]) Stand(name string, held bool) (t Reply[C, W]) {
	if w.closed {
		return t
	}
	w.of(name).standing = true
	return Reply[C, W]{Want: !held, Wait: true}
}

// StandDown takes that back.
func (w *Waiters[C, W]) StandDown(name string, held bool) (t Reply[C, W]) {
	q := w.leases[name]
	if q == nil || !q.standing {
		return t
	}
	q.standing = false
	t.Drop = len(q.callers) == 0 && !held
	w.tidy(name, q)
	return t
}

// Close returns all callers, whom nothing is granted any more, in the order of their leases. Nothing is asked for from now on.
func (w *Waiters[C, W]) Close() (all []C) {
	w.closed = true
	for _, name := range slices.Sorted(maps.Keys(w.leases)) {
		q := w.leases[name]
		for _, c := range q.callers {
			all = append(all, c.who)
		}
		q.callers = nil
		w.tidy(name, q)
	}
	return all
}

func (w *Waiters[C, W]) of(name string) *waiting[C, W] {
	if w.leases == nil {
		w.leases = map[string]*waiting[C, W]{}
	}
	q := w.leases[name]
	if q == nil {
		q = &waiting[C, W]{}
		w.leases[name] = q
	}
	return q
}

// tidy forgets what was said to callers who have gone, and who waits where nobody does.
func (w *Waiters[C, W]) tidy(name string, q *waiting[C, W]) {
	if len(q.callers) > 0 {
		return
	}
	if q.refused = false; !q.standing {
		delete(w.leases, name)
	}
}

func (q *waiting[C, W]) waits() bool {
	return q.standing || slices.ContainsFunc(q.callers, func(c caller[C]) bool { return c.wait })
}
