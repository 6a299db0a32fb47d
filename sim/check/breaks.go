package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
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

// textsMax is how many breaks the detail describes.
const textsMax = 3

// breach is a break as its rule reports it. The last fields are the judge's.
type breach struct {
	session *session
	from    int64
	size    int64 // share of the break in the verdict's value; 0 where breaks are counted
	seen    int32 // number of events before those that its evidence shows as following; 0: all so far

	to    int64       // end; 0: now
	due   int64       // missed deadline; 0: unknown
	by    *injection  // the fault that caused it; nil: blame finds it
	shown bool        // it depends on when exactly Redis executed an event of its stream
	timed bool        // a stalled host can cause it, as it can cause every missed deadline
	terms []*term     // terms with a part in it; nil: the session's open and last ones
	who   []*instance // instances with a part in a break of no lease

	at     int64 // when it was noticed; 0: now
	text   string
	owners []Owner
}

// Around says which events explain a break: the last ones of its lease, and those that concern all leases.
type Around struct {
	Session string         // "": no lease broke
	Seen    int32          // number of events before those that followed the break
	Since   int64          // ns: from then on, events that concern all leases count
	Fault   *history.Event // start of the fault that caused it; nil: unknown
}

func (w *world) around(b *breach) Around {
	a := Around{Seen: b.seen, Since: b.at - 2*int64(w.TTL)}
	if b.session != nil {
		a.Session = b.session.id
	}
	if b.by != nil {
		e := b.by.event()
		a.Fault = &e
	}
	return a
}

// largest returns the largest break, the earliest noticed of equals.
func (h *hooks) largest() *breach {
	return slices.MaxFunc(h.breaks, func(a, b *breach) int { return cmp.Compare(a.size, b.size) })
}

// first returns the break that began first.
func (h *hooks) first() *breach {
	return slices.MinFunc(h.breaks, func(a, b *breach) int { return cmp.Compare(a.from, b.from) })
}

// texts describes the largest break, the first one, and those that were noticed first.
func (h *hooks) texts() []string {
	largest, first := h.largest(), h.first()
	say := []string{largest.text}
	if first != largest {
		say = append(say, "the first began at "+clock(first.from)+": "+first.text)
	}
	for _, b := range h.breaks[:min(textsMax, len(h.breaks))] {
		if len(say) < textsMax && b != largest && b != first {
			say = append(say, b.text)
		}
	}
	return say
}

// listed returns the first breaksMax breaks as noticed, always including the one that began first.
func (h *hooks) listed() (all []Break) {
	first := h.first()
	list := h.breaks[:min(breaksMax, len(h.breaks))]
	if !slices.Contains(list, first) {
		list = append(slices.Clone(list[:breaksMax-1]), first)
	}
	for _, b := range list {
		x := Break{From: b.from, To: b.to, Deadline: b.due, Owners: b.owners, First: b == first, Text: b.text}
		if b.session != nil {
			x.Session = b.session.id
		}
		if b.by != nil {
			x.Fault = &Suspected{b.by.N, b.by.name()}
		}
		all = append(all, x)
	}
	return all
}

// hadPart returns the terms and instances that the rule names. Without named terms, these are the session's open terms and its last one.
func (b *breach) hadPart() (all []Owner) {
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

// blame returns the last fault that hit an owner and was over for a TTL at most. Without one, it returns the last such fault of the lease
// or of Redis; nil if there is none.
func (w *world) blame(b *breach) *injection {
	var other *injection
	for _, inj := range slices.Backward(w.since(b.from)) {
		if inj.From > b.from || inj.To < b.from-int64(w.TTL) || inj.Has(fault.Alters) {
			continue
		}
		switch {
		case inj.node != nil:
			if slices.ContainsFunc(b.owners, func(o Owner) bool { i := w.instances[o.Instance]; return i != nil && i.node == inj.node }) {
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
