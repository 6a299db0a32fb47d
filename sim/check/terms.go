package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// term returns the open term that a node's event is about; nil for a late event, whose fence differs.
func (w *world) term(e *history.Event) *term {
	t := w.subject.heldBy(w.reporter)
	if t == nil || (e.Fence != 0 && t.fence != 0 && e.Fence != t.fence) {
		return nil
	}
	return t
}

func (s *session) heldBy(i *instance) *term {
	if i == nil {
		return nil
	}
	return i.held[s.id]
}

func (w *world) acquired(inst *instance, e *history.Event) {
	s := w.subject
	w.end(s.heldBy(inst), endReplaced)
	if !s.added { // the history does not report its sessions
		w.appear(s, true, false)
	}
	t := &term{session: s, inst: inst, fence: e.Fence, since: e.T, until: e.Until, seen: w.seen, confirmedAt: e.T}
	inst.tells = inst.tells || t.fence != 0
	t.challenged = w.challenges.taken(t)
	for _, u := range s.terms {
		switch late := t.fence != 0 && t.fence < u.fence; { // t was granted before u, but reported after it
		case u.inst == inst:
		case late:
			t.passed = true
		default:
			u.passed = true
		}
	}
	w.opens(t)
	for _, c := range w.checkers {
		c.began(t)
	}
	s.last = t
	if !inst.asks {
		w.trust(t, t.until)
	}
}

func (w *world) opens(t *term) {
	t.session.terms = append(t.session.terms, t)
	t.inst.held[t.session.id] = t
	t.session.history = append(t.session.history, t)
}

func (w *world) renewed(inst *instance, e *history.Event) {
	t := w.term(e)
	if t == nil { // no acquisition was reported, but its belief counts
		s := w.subject
		w.end(s.heldBy(inst), endReplaced)
		t = &term{session: s, inst: inst, fence: e.Fence, since: e.T, seen: w.seen, unsaid: true}
		w.opens(t)
	}
	switch {
	case inst.asks:
		return
	case e.Until != 0 && e.Until <= w.now:
		return // the answer came after the end of its own window
	case t.believes(w.now):
		t.until = max(t.until, e.Until)
	default:
		t.until = e.Until
	}
	t.doubt, t.confirmedAt = false, w.now
	t.injections = slices.DeleteFunc(t.injections, func(inj *injection) bool { return !inj.lasts() }) // it has survived them
	w.trust(t, t.until)
}

// trust records that the instance believes in the term from now on, until its window closes; 0: until it says otherwise.
func (w *world) trust(t *term, until int64) {
	if until != 0 && until <= w.now {
		return // the answer came after the end of its own window
	}
	if !t.believes(w.now) {
		t.beliefs = append(t.beliefs, belief{from: w.now, seen: w.seen})
	}
	t.beliefs[len(t.beliefs)-1].to = cmp.Or(until, never)
}

// believes reports whether the instance trusts the term at that time.
func (t *term) believes(at int64) bool {
	return len(t.beliefs) > 0 && t.beliefs[len(t.beliefs)-1].to > at
}

// believesSince returns the start of the last belief.
func (t *term) believesSince() int64 { return t.beliefs[len(t.beliefs)-1].from }

// cease records that the instance believes in the term no more.
func (w *world) cease(t *term) {
	if t != nil && t.believes(w.now) {
		t.beliefs[len(t.beliefs)-1].to = w.now
	}
}

func (w *world) end(t *term, how ending) {
	if t == nil || t.over {
		return
	}
	w.cease(t)
	t.over, t.how = true, how
	delete(t.inst.held, t.session.id)
	s := t.session
	s.terms = slices.DeleteFunc(s.terms, func(u *term) bool { return u == t })
	for _, c := range w.checkers {
		c.ended(t, how)
	}
}
