package check

import "slices"

// KindCount is what of a guarantee's changes a kind of fault had a part in. Each sum over all kinds is that of the verdict.
type KindCount struct {
	// Kind of fault, or what else it was: "handover" of an owner's own will, "appeared" of sessions, a host that stalled; "none" where
	// nothing is known that brought it about.
	Kind string `json:"kind"`

	Exercised uint64 `json:"exercised,omitempty"` // changes that such a fault brought about, and that were judged
	Prolonged uint64 `json:"prolonged,omitempty"` // changes that were judged, and whose limit such a fault moved last
	Excused   uint64 `json:"excused,omitempty"`   // changes that were not judged, because such a fault could delay them
	Broken    uint64 `json:"broken,omitempty"`    // breaks, as far as is known of such a fault
}

// kindNone is of what nothing is known that brought it about.
const kindNone = "none"

// Join adds another's counts.
func (k *KindCount) Join(o KindCount) {
	k.Exercised += o.Exercised
	k.Prolonged += o.Prolonged
	k.Excused += o.Excused
	k.Broken += o.Broken
}

// JoinKinds adds counts up, by kind, in order.
func JoinKinds(a, b []KindCount) []KindCount {
	all := kinds{}
	for _, c := range slices.Concat(a, b) {
		all.of(c.Kind).Join(c)
	}
	return all.list()
}

// kinds counts by kind.
type kinds map[string]*KindCount

func (k *kinds) of(kind string) *KindCount {
	if kind == "" {
		kind = kindNone
	}
	if *k == nil {
		*k = kinds{}
	}
	c := (*k)[kind]
	if c == nil {
		c = &KindCount{Kind: kind}
		(*k)[kind] = c
	}
	return c
}

func (k kinds) list() (all []KindCount) {
	for _, kind := range sortedKeys(k) {
		all = append(all, *k[kind])
	}
	return all
}

// tally is one of the counts, by kind.
func (k kinds) tally(count func(*KindCount) uint64) map[string]int {
	m := map[string]int{}
	for kind, c := range k {
		if n := count(c); n > 0 {
			m[kind] = int(n)
		}
	}
	return m
}

// exercise counts a change that was judged, by what brought it about; "": that is not known.
func (h *hooks) exercise(kind string) {
	h.exercised++
	h.kinds.of(kind).Exercised++
}

// excuse counts a change that the injection could delay.
func (h *hooks) excuse(by *injection) { h.excuseFor(string(by.Kind)) }

// excuseFor counts a change that something else could delay.
func (h *hooks) excuseFor(why string) {
	h.excused++
	h.kinds.of(why).Excused++
}

// prolong counts a change whose limit a fault moved, and by how much.
func (h *hooks) prolong(by *injection, allowance int64) {
	h.kinds.of(string(by.Kind)).Prolonged++
	h.prolonged++
	half := int64(h.w.TTL) / 2
	h.spread[min((allowance-1)/half, 2*widest-1)]++
}

// measures returns what collects measured times of that name, for the verdict.
func (h *hooks) measures(of string) *times {
	t := &times{of: of}
	h.measured = append(h.measured, t)
	return t
}

// said puts the counts and the times into the verdict.
func (h *hooks) said(v *Verdict) {
	v.Exercised, v.Excused = h.exercised, h.excused
	if h.prolonged > 0 {
		v.Prolonged = h.spread[:]
	}
	rest := uint64(h.exercised) // what rules count without naming a kind
	for _, c := range h.kinds {
		rest -= c.Exercised
	}
	if rest > 0 {
		h.kinds.of("").Exercised += rest
	}
	v.Kinds = h.kinds.list()
	for _, t := range h.measured {
		if t.n > 0 {
			v.Times = append(v.Times, t.summary())
		}
	}
	v.Breaks = h.brokenOnes()
}

// ails is the last fault that hit the instance's term of the session, which it has not survived; "": none did.
func (w *world) ails(s *session, i *instance) string {
	t := s.heldBy(i)
	if t == nil && s.last != nil && s.last.inst == i {
		t = s.last
	}
	if t == nil || len(t.injections) == 0 {
		return ""
	}
	return string(t.injections[len(t.injections)-1].Kind)
}
