package term

// traces are the leases that Redis may hold in this instance's name although this instance has no term: an attempt was not
// answered, or a term ended before its key. An instance adopts only such leases. Any other lease in its name belongs to another
// process with the same ID, or to an earlier life of this one, so the instance waits for it as for any other owner's (G1).
type traces struct {
	young, old map[string]int64 // the shortest TTL of a lease's traces; never ranged over
	aged       Time             // when old was last thrown away
}

// traceTTLs is how long a trace is kept at least, in TTLs: far longer than a request can be under way, but not forever, because
// sessions come and go.
const traceTTLs = 100

// Trace notes that the lease id may be in this instance's name at Redis, with this TTL.
func (t *traces) Trace(id string, ttl int64) {
	if t.young == nil {
		t.young = map[string]int64{}
	}
	if left, ok := t.shortest(id); ok {
		ttl = min(ttl, left)
	}
	t.young[id] = ttl
}

func (t *traces) shortest(id string) (ttl int64, ok bool) {
	if ttl, ok = t.young[id]; !ok {
		ttl, ok = t.old[id]
	}
	return ttl, ok
}

// Traced reports whether an attempt or a term of this instance left a trace of the lease id.
func (t *traces) Traced(id string) bool {
	_, ok := t.shortest(id)
	return ok
}

// age forgets old traces.
func (t *traces) age(now Time, ttl int64) {
	if now-t.aged >= Time(traceTTLs*ttl) {
		t.young, t.old, t.aged = nil, t.young, now
	}
}
