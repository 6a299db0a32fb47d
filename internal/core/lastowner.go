package core

// vacant records since when l, which this instance does not hold, has no owner; the zero Vacancy means unknown.
func (l *lease) vacant(v Vacancy) {
	l.past, l.since, l.givenBack = v.Owner, v.Since, v.GivenBack
}

// heldBy records the owner that a read of l showed, and the expiry in l.exp. For this instance's own key, and one without expiry, it
// records unknown.
func (c *Core) heldBy(l *lease, r *Result) {
	if r.PTTL <= 0 || r.Owner == c.cfg.Instance {
		l.vacant(Vacancy{})
		return
	}
	l.vacant(Vacancy{Since: l.exp, Owner: r.Owner})
}

func (c *Core) givenBackBy(l *lease, owner string) {
	l.vacant(Vacancy{Since: c.k.Now(), Owner: owner, GivenBack: true})
}

// vacated reports whether it is known since when l, which is free, has no owner. If the key is gone before its expiry, it was deleted or
// released without a notice, at an unknown time.
func (c *Core) vacated(l *lease) bool { return l.since != 0 && l.since <= c.k.Now() }

// vacancy returns how l, which was granted, came to have no owner; nil if unknown.
func (c *Core) vacancy(l *lease) *Vacancy {
	if !c.vacated(l) {
		return nil
	}
	return &Vacancy{Since: l.since, Owner: l.past, GivenBack: l.givenBack}
}
