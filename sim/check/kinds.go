package check

import "slices"

// KindCount counts the changes of a guarantee that one kind of fault affected. The counts of all kinds add up to the verdict's.
type KindCount struct {
	// Kind is a kind of fault, or another cause: "handover" of a release, "appeared" of a session, a stalled host; "none" if it is
	// unknown.
	Kind string `json:"kind"`

	Exercised uint64 `json:"exercised,omitempty"` // judged changes that such a fault brought about
	Prolonged uint64 `json:"prolonged,omitempty"` // judged changes whose limit such a fault moved last
	Excused   uint64 `json:"excused,omitempty"`   // changes left unjudged, because such a fault could delay them
	Broken    uint64 `json:"broken,omitempty"`    // breaks that such a fault caused, as far as it is known
}

// kindNone is the kind of changes without a known cause.
const kindNone = "none"

// Join adds the counts of o.
func (k *KindCount) Join(o KindCount) {
	k.Exercised += o.Exercised
	k.Prolonged += o.Prolonged
	k.Excused += o.Excused
	k.Broken += o.Broken
}

// JoinKinds adds counts by kind and sorts them by kind.
func JoinKinds(a, b []KindCount) []KindCount {
	all := kinds{}
	for _, c := range slices.Concat(a, b) {
		all.of(c.Kind).Join(c)
	}
	return all.list()
}

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

func (k kinds) tally(count func(*KindCount) uint64) map[string]int {
	m := map[string]int{}
	for kind, c := range k {
		if n := count(c); n > 0 {
			m[kind] = int(n)
		}
	}
	return m
}

// exercise counts a judged change by its cause; "" if that is unknown.
func (h *hooks) exercise(kind string) {
	h.exercised++
	h.kinds.of(kind).Exercised++
}

// excuse counts a change that is not judged because the injection could delay it.
func (h *hooks) excuse(by *injection) { h.excuseFor(string(by.Kind)) }

// excuseFor counts a change that is not judged for another reason.
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

func (h *hooks) measures(of string) *times {
	t := &times{of: of, buckets: Buckets{}}
	h.measured = append(h.measured, t)
	return t
}

func (h *hooks) said(v *Verdict) {
	v.Exercised, v.Excused = h.exercised, h.excused
	if h.prolonged > 0 {
		v.Prolonged = h.spread[:]
	}
	rest := uint64(h.exercised) // changes that rules counted without a kind
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

// ails returns the kind of the last fault that hit the instance's term and that the term has not survived; "" if there is none.
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
