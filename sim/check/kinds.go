package check

import (
	"cmp"
	"fmt"
	"strings"
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

// tell returns the sum of one of the counts over all kinds, and the kinds that contribute to it.
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
