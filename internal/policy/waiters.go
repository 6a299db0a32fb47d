package policy

import (
	"maps"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Waiters decides which caller in one instance gets a lease that several want: the first one. A caller makes one attempt, or waits
// until it has the lease. A standing request (Stand) waits for one term without a caller. C identifies a caller, and W is the
// reason for a refusal. The zero value has no callers. Not safe for concurrent use.
type Waiters[C comparable, W any] struct {
	Shared bool // a term belongs to all callers of its lease, or to none; otherwise it belongs to exactly one caller

	leases map[string]*waiting[C, W]
	closed bool
}

// waiting holds the callers and the standing request for one lease. An entry without either is removed (tidy).
type waiting[C comparable, W any] struct {
	callers  []caller[C]
	standing bool
	refused  bool // since the first caller came or the last term began
	why      W    // reason of the last refusal
}

type caller[C comparable] struct {
	who  C
	wait bool
}

// Word is an answer to a caller.
type Word uint8

// The words.
const (
	Won     Word = iota // the caller has the term
	Held                // another caller of this instance has it
	Refused             // the lease was not granted, see Reply.Why
)

// Heard is an answer to one caller.
type Heard[C comparable] struct {
	Caller C
	Word   Word
	Ends   bool // the caller is removed; else it goes on waiting
}

// Reply is what the shell must do now, in this order.
type Reply[C comparable, W any] struct {
	Heard []Heard[C]
	Why   W    // reason for the callers with Refused
	Given bool // the term that began has a taker, which will release it

	Want bool // send core.EvWant
	Wait bool // with Wait: more than one attempt
	Drop bool // send core.EvDrop: no caller wants the lease any more
}

// Want adds a caller. If wait is true, the caller waits until it has the lease; otherwise it makes one attempt. held is whether
// this instance holds the lease.
func (w *Waiters[C, W]) Want(name string, who C, wait, held bool) (t Reply[C, W]) {
	q := w.leases[name]
	asking := q != nil && len(q.callers) > 0
	switch {
	case held && !wait:
		t.Heard = []Heard[C]{{who, Held, true}}
		return t
	case !held && asking && !wait && q.refused: // the core waits for the earlier callers, so it makes no attempt for this one
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

// First returns the caller that gets the next term.
func (w *Waiters[C, W]) First(name string) (who C, ok bool) {
	q := w.leases[name]
	if q == nil || len(q.callers) == 0 {
		return who, false
	}
	return q.callers[0].who, true
}

// Unwant removes a caller that gives up.
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

// Acquired handles the begin of a term.
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

// Refused handles a refused acquisition. All callers get that answer. Callers that made one attempt end; the others go on waiting, unless
// waiting cannot help.
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

// Over handles the end of a term.
func (w *Waiters[C, W]) Over(name string) (t Reply[C, W]) {
	if q := w.leases[name]; q != nil && !w.closed {
		t.Want, t.Wait = true, q.waits()
	}
	return t
}

// Stand adds a standing request: it waits for one term, without a caller.
func (w *Waiters[C, W]) Stand(name string, held bool) (t Reply[C, W]) {
	if w.closed {
		return t
	}
	w.of(name).standing = true
	return Reply[C, W]{Want: !held, Wait: true}
}

// StandDown revokes a standing request.
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

// Close removes and returns all callers, ordered by lease, because no lease is granted any more. Later calls request nothing after a term
// ends, and accept no standing request.
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

// tidy forgets refusals if no caller is left, and the entry if it has no standing request either.
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
