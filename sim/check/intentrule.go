package check

// intentRule is the base of the checkers of I1 to I6.
type intentRule struct {
	hooks
	book *intents
}

func (g *intentRule) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.book.w = w
	if !w.Tap && v.ID != "I1" && v.ID != "I3" {
		g.untested = "what Redis stored was not recorded"
	}
}

// spell is a time in which a state lasts that must end by a deadline. Its wait is nil while the state does not last.
type spell struct {
	*wait
	from int64 // its start, or a later event from which the deadline counts
}

// follow begins the wait when the state begins, and judges it when the state ends.
func (o *spell) follow(h *hooks, lasts bool, x wait) {
	switch {
	case lasts && o.wait == nil && h.w.phase != "end":
		o.from = h.w.now
		o.wait = h.expect(x)
	case !lasts && o.wait != nil:
		o.came()
		o.wait = nil
	}
}

// drop ends the wait without a judgement.
func (o *spell) drop() {
	if o.wait != nil {
		o.over, o.wait = true, nil
	}
}
