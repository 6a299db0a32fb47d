package core

// vacant notes what is known of when l, which this instance does not have, has no owner; the zero Vacancy: nothing. It lies where a lease
// that it has says who shall take it: there are as many entries as leases.
func (l *lease) vacant(v Vacancy) {
	l.heir, l.since, l.givenBack = heir{id: v.Owner}, v.Since, v.GivenBack
}

// heldBy notes who was read to hold l, and until when. Of this instance's own key, and of one without an end, it is not known when it
// has no owner.
func (c *Core) heldBy(l *lease, r *Result) {
	if r.PTTL <= 0 || r.Owner == c.self {
		l.vacant(Vacancy{})
		return
	}
	l.vacant(Vacancy{Since: l.exp, Owner: r.Owner})
}

// givenBackBy notes that owner gave l back.
func (c *Core) givenBackBy(l *lease, owner string) {
	l.vacant(Vacancy{Since: c.now.Mono, Owner: owner, GivenBack: true})
}

// vacated reports whether it is known since when l, which is free, has had no owner. A key that is gone before its time was deleted, or
// given back unheard: when, nobody told.
func (c *Core) vacated(l *lease) bool { return l.since != 0 && l.since <= c.now.Mono }

// vacancy returns how l, which was granted, came to have no owner; nil if that is not known.
func (c *Core) vacancy(l *lease) *Vacancy {
	if !c.vacated(l) {
		return nil
	}
	return &Vacancy{Since: l.since, Owner: l.heir.id, GivenBack: l.givenBack}
}
