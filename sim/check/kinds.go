package check

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/leasestorm/leasestorm/sim/measure"
)

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

type kinds map[string]*KindCount

func (k kinds) of(kind string) *KindCount {
	kind = cmp.Or(kind, kindNone)
	if k[kind] == nil {
		k[kind] = &KindCount{Kind: kind}
	}
	return k[kind]
}

func (k kinds) list() (all []KindCount) {
	for _, kind := range sortedKeys(k) {
		all = append(all, *k[kind])
	}
	return all
}

// tell returns the sum of one of the counts, and the kinds that it consists of.
func (k kinds) tell(count func(*KindCount) uint64) (sum int, text string) {
	m := map[string]int{}
	for kind, c := range k {
		if n := int(count(c)); n > 0 {
			m[kind], sum = n, sum+n
		}
	}
	return sum, counts(m)
}

func counts(m map[string]int) string {
	var parts []string
	for _, k := range sortedKeys(m) {
		parts = append(parts, fmt.Sprintf("%s × %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

// exercise counts a judged change by its cause; "" if that is unknown.
func (h *hooks) exercise(kind string) {
	h.exercised++
	h.kinds.of(kind).Exercised++
}

// excuse counts a change that is not judged, by the kind of fault that could delay it, or another reason.
func (h *hooks) excuse(why string) { h.kinds.of(why).Excused++ }

// prolong counts a change whose limit a fault moved, and by how much.
func (h *hooks) prolong(by *injection, allowance int64) {
	h.kinds.of(string(by.Kind)).Prolonged++
	half := int64(h.w.TTL) / 2
	h.spread[min((allowance-1)/half, 2*widest-1)]++
}

func (h *hooks) measures(of string) *measure.Times {
	t := measure.NewTimes(of)
	h.measured = append(h.measured, t)
	return t
}

// counted adds the counts and measured times to the verdict.
func (h *hooks) counted(v *Verdict) {
	for _, b := range h.breaks {
		h.kinds.of(b.by.name()).Broken++
	}
	v.Exercised, v.Kinds = h.exercised, h.kinds.list()
	switch {
	case v.Value != 0: // the rule's own
	case strings.HasPrefix(v.Unit, "ms"):
		v.Value, v.Limit = ms(h.worst), cmp.Or(ms(h.allowed), v.Limit)
	default:
		v.Value = int64(len(h.breaks))
	}
	for _, t := range h.measured {
		if t.N > 0 {
			t.Read()
			v.Times = append(v.Times, *t)
		}
	}
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
