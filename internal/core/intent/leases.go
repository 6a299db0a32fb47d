package intent

// leases has the session of each held lease, by the lease's name.
type leases map[string]*session

// take records a granted term of s: t is its service or its tuner.
func (l leases) take(s *session, t *term, e *Event) {
	*t = term{name: e.Lease, fence: e.Fence, until: e.Until}
	s.fence, s.tfence = max(s.fence, s.service.fence), s.tuner.fence
	l[e.Lease] = s
}

// drop ends all terms of s and returns the names of their leases.
func (l leases) drop(s *session) (names []string) {
	for _, t := range s.terms() {
		if t.fence != 0 {
			names = append(names, t.name)
			delete(l, t.name)
		}
		*t = term{}
	}
	return names
}

// renewed extends the trust in a term. The session's timer remains and checks the new deadline when it fires.
func (l leases) renewed(e *Event) {
	if _, t := l.find(e); t != nil {
		t.until = max(t.until, e.Until)
	}
}

// lost ends a term and returns its session, nil if the term was over already.
func (l leases) lost(e *Event) *session {
	s, t := l.find(e)
	if t != nil {
		*t = term{}
		delete(l, e.Lease)
	}
	return s
}

func (l leases) find(e *Event) (*session, *term) {
	if s := l[e.Lease]; s != nil {
		for _, t := range s.terms() {
			if t.name == e.Lease && t.fence == e.Fence {
				return s, t
			}
		}
	}
	return nil, nil
}
