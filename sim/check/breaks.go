package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// Break is one break of a guarantee. Times are those of the history.
type Break struct {
	From     int64      `json:"fromNs"`               // start; a delay counts from here
	To       int64      `json:"toNs"`                 // end, or detection
	Deadline int64      `json:"deadlineNs,omitempty"` // deadline of the late change, or end of the first owner's lease; 0: unknown
	Session  string     `json:"session,omitempty"`    // session of the lease; "": none
	Owners   []Owner    `json:"owners,omitempty"`     // instances that had a part in it, in the order of their terms
	Fault    *Suspected `json:"fault,omitempty"`      // its cause, as far as it is known
	First    bool       `json:"first,omitempty"`      // it began before all others
	Text     string     `json:"text,omitempty"`
}

// Owner is an instance and the fence under which it had the lease.
type Owner struct {
	Instance string `json:"instance"`
	Fence    int64  `json:"fence,omitempty"`
}

// Suspected is a fault of the plan.
type Suspected struct {
	N    int64  `json:"n"`
	Kind string `json:"kind"`
}

// breaksMax is how many breaks of a guarantee are listed one by one. The others are only counted.
const breaksMax = 50

// account records the break and its cause for the report's list and counts.
func (h *hooks) account(b *breach, first bool) {
	h.kinds.of(b.by.name()).Broken++
	if len(h.list) == breaksMax && !first {
		return
	}
	x := Break{From: b.from, To: max(cmp.Or(b.to, b.at), b.from), Deadline: b.due, Owners: b.owners(), Text: b.text}
	if b.session != nil {
		x.Session = b.session.id
	}
	if b.by != nil {
		x.Fault = &Suspected{b.by.index, b.by.name()}
	}
	if first {
		h.firstBroken = x
	}
	if len(h.list) < breaksMax {
		h.list = append(h.list, x)
	}
}

// brokenOnes returns the listed breaks, always including the one that began first.
func (h *hooks) brokenOnes() []Break {
	if len(h.list) == 0 {
		return nil
	}
	list := slices.Clone(h.list)
	first := slices.IndexFunc(list, func(b Break) bool {
		return b.From == h.firstBroken.From && b.To == h.firstBroken.To && b.Session == h.firstBroken.Session
	})
	if first < 0 {
		first = len(list) - 1
		list[first] = h.firstBroken
	}
	list[first].First = true
	return list
}

// joinBreaks merges the breaks of two rules that share one guarantee.
func joinBreaks(a, b []Break) []Break {
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(x, y Break) int { return cmp.Compare(x.To, y.To) })
	first := -1
	for i := range all {
		if all[i].First && (first < 0 || all[i].From < all[first].From) {
			first = i
		}
	}
	for i := range all {
		all[i].First = i == first
	}
	return all
}

// owners returns the terms and instances that the rule names. Without named terms, these are the session's open terms and its last one.
func (b *breach) owners() (all []Owner) {
	terms := b.terms
	if terms == nil && b.session != nil {
		if terms = slices.Clone(b.session.terms); b.session.last != nil && !slices.Contains(terms, b.session.last) {
			terms = append(terms, b.session.last)
		}
	}
	for _, t := range terms {
		all = append(all, Owner{t.inst.id, t.fence})
	}
	for _, i := range b.who {
		all = append(all, Owner{Instance: i.id})
	}
	return all
}

// blame returns the fault that caused the break. If the rule names none, that is the last fault that hit an owner and was over for a TTL
// at most. Without one, it is the last such fault of the lease or of Redis; nil if there is none.
func (w *world) blame(b *breach) *injection {
	if b.by != nil {
		return b.by
	}
	owners := b.owners()
	var other *injection
	for _, inj := range slices.Backward(w.since(b.from)) {
		if inj.start > b.from || !inj.open && max(inj.start, inj.end)+int64(w.TTL) < b.from || inj.has(fault.Alters) {
			continue
		}
		switch {
		case inj.node != nil:
			if slices.ContainsFunc(owners, func(o Owner) bool { i := w.instances[o.Instance]; return i != nil && i.node == inj.node }) {
				return inj
			}
		case inj.session == "" || b.session != nil && inj.session == b.session.id:
			other = cmp.Or(other, inj)
		}
	}
	return other
}

func (inj *injection) name() string {
	if inj == nil {
		return ""
	}
	return string(inj.Kind)
}
