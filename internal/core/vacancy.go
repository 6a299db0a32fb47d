package core

// heldBy notes who was read to hold l, and until when. Of this instance's own key, and of one without an end, it is not known when it
// has no owner.
func (c *Core) heldBy(l *lease, r *Result) {
	l.vacant = Vacancy{}
	if r.PTTL > 0 && r.Owner != c.self {
		l.vacant = Vacancy{Since: l.exp, Owner: r.Owner}
	}
}

// givenBackBy notes that owner gave l back.
func (c *Core) givenBackBy(l *lease, owner string) {
	l.vacant = Vacancy{Since: c.now.Mono, Owner: owner, GivenBack: true}
}

// vacancy returns how l, which was granted, came to have no owner; nil if that is not known. A key that is gone before its time was
// deleted, or given back unheard: when, nobody told.
func (c *Core) vacancy(l *lease) *Vacancy {
	if v := l.vacant; v.Since != 0 && v.Since <= c.now.Mono {
		return &v
	}
	return nil
}
