package core

// traces are the leases that may be in this instance's name at Redis without a term here: an attempt was not answered, or
// a term ended before its key. Only those are adopted. Any other lease in its name is that of another process with the same
// ID, or of an earlier life of this one, and is waited for as anybody else's (G1).
type traces struct {
	young, old map[string]struct{} // never ranged over
	aged       Time                // when old was last thrown away
}

// traceTTLs is how long a trace is kept at least, in TTLs: far longer than bytes are under way, and not for ever, because
// sessions come and go.
const traceTTLs = 100

func (t *traces) leave(id string) {
	if t.young == nil {
		t.young = map[string]struct{}{}
	}
	t.young[id] = struct{}{}
}

func (t *traces) has(id string) bool {
	if _, ok := t.young[id]; ok {
		return true
	}
	_, ok := t.old[id]
	return ok
}

func (t *traces) age(now Time, ttl int64) {
	if now-t.aged >= Time(traceTTLs*ttl) {
		t.young, t.old, t.aged = nil, t.young, now
	}
}
