package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/measure"
)

// hooks is the base of every checker: empty hooks, and the record of its findings.
type hooks struct {
	w *world
	*findings
	overdue []*wait // changes that were due and may still come
}

// findings hold what a rule found. Two rules of one guarantee share them.
type findings struct {
	v         Verdict
	breaks    []*breach // all, as noticed
	notes     []string  // always part of the detail
	widened   int64     // ns: the largest extension of a limit for a stalled host
	unplaced  int       // breaks that depend on the exact time of an event in Redis, which is unknown
	stopping  int       // those of the end, when all nodes stop at once
	stalls    int       // breaks that a stalled host may have caused
	stall     int64     // ns: the longest stall around one of them
	untested  string    // reason why it was not judged, if there were changes at all
	exercised int
	worst     int64           // ns: the time that came closest to its limit, or furthest beyond it
	allowed   int64           // limit of worst; 0: no time was held against a limit
	spread    [2 * widest]int // judged changes whose limit a fault moved, by how many halves of a TTL it did
	kinds     kinds
	measured  []*measure.Times
}

func (h *hooks) attach(w *world, v Verdict) {
	if h.w = w; h.findings == nil {
		h.findings = &findings{v: v, kinds: kinds{}}
	}
}

func (h *hooks) event(*history.Event) {}
func (h *hooks) began(*term)          {}
func (h *hooks) ended(*term, ending)  {}
func (h *hooks) injected(*injection)  {}
func (h *hooks) healed(*injection)    {}
func (h *hooks) aside(*history.Event) {}

// broke records a break that begins and is noticed now.
func (h *hooks) broke(s *session, format string, args ...any) {
	h.breach(breach{session: s, from: h.w.now}, format, args...)
}

// breach records a break, unless a stalled host may have caused it, or it depends on an event in Redis whose exact time is unknown.
func (h *hooks) breach(b breach, format string, args ...any) {
	b.at = cmp.Or(b.at, h.w.now)
	if (b.shown || h.v.ID == "G10") && h.w.host.placedBadly(b.from, b.at) {
		if end := h.w.run.end; end != 0 && b.from >= end {
			h.stopping++
		} else {
			h.unplaced++
		}
		return
	}
	if (b.timed || b.due != 0) && h.stalled(b.from, b.at) {
		return
	}
	b.owners = b.hadPart()
	if b.by == nil {
		b.by = h.w.blame(&b)
	}
	b.to, b.seen = max(cmp.Or(b.to, b.at), b.from), cmp.Or(b.seen, h.w.seen)
	b.text = fmt.Sprintf(format, args...)
	h.breaks = append(h.breaks, &b)
}

// stalledShare: if the host stalled for 1/stalledShare of the time around a break, the stall is a possible cause of the break.
const stalledShare = 4

// stalled reports whether a stalled host may have caused a break between from and to. A TTL before the break counts as well.
func (h *hooks) stalled(from, to int64) bool {
	from = max(0, from-int64(h.w.TTL))
	stall := h.w.host.stall(from, to)
	if stall == 0 || stall*stalledShare < to-from {
		return false
	}
	h.stalls++
	h.stall = max(h.stall, stall)
	return true
}

// noteSome adds a note with a number, unless the number is 0.
func (h *hooks) noteSome(n int, format string) {
	if n > 0 {
		h.note(format, n)
	}
}

func (h *hooks) note(format string, args ...any) {
	h.notes = append(h.notes, fmt.Sprintf(format, args...))
}

// within compares a measured time with its limit. A stall of the host within that time extends the limit.
func (h *hooks) within(took, limit, from int64) bool {
	applied := h.applied(took, limit, from)
	h.widened = max(h.widened, applied-limit)
	return took <= applied
}

func (h *hooks) applied(took, limit, from int64) int64 {
	if took > limit {
		if stall := h.w.host.stall(from, from+took); took <= limit+stall {
			return limit + stall
		}
	}
	return limit
}

// verdict returns fail if there was a break, and unknown if nothing was judged.
func (h *hooks) verdict() Verdict {
	v := h.v
	slices.SortStableFunc(h.breaks, func(a, b *breach) int { return cmp.Compare(a.at, b.at) }) // finish() finds some late
	h.counted(&v)
	v.Verdict = Unknown
	var say []string
	switch {
	case len(h.breaks) > 0:
		v.Verdict = Fail
		say = h.texts()
		if more := len(h.breaks) - len(say); more > 0 {
			say = append(say, fmt.Sprintf("and %d more", more))
		}
		worst := h.largest()
		v.At, v.Breaks = worst.at, h.listed()
		v.Around = h.w.around(worst)
	case h.unplaced > 0:
		say = append(say, fmt.Sprintf("the host was too busy: the stream of Redis was read %.1f s late; breaks that depend on the exact time of "+
			"what it shows: %d", time.Duration(h.w.host.latest()).Seconds(), h.unplaced))
	case h.stalls > 0:
		v.Stalled = h.stall
		say = append(say, fmt.Sprintf("breaks that a host that stalled may have caused: %d", h.stalls))
	case h.untested != "":
		say = append(say, h.untested)
	case h.exercised == 0:
		say = append(say, "nothing in this run put it to the test")
	default:
		v.Verdict = Pass
	}
	if h.widened > 0 {
		v.Stalled = max(v.Stalled, h.widened)
		h.note("a limit was widened by %d ms in which the host stalled", ms(h.widened))
	}
	h.noteSome(h.stopping, "not judged: %d events of the end, when all nodes stop at once and the stream of Redis was read late")
	if n, by := h.kinds.tell(func(k *KindCount) uint64 { return k.Prolonged }); n > 0 {
		v.Prolonged = h.spread[:]
		h.note("limits were moved by %s", by)
	}
	if n, by := h.kinds.tell(func(k *KindCount) uint64 { return k.Excused }); n > 0 {
		v.Excused = n
		h.note("excused %d: overlapped by %s", n, by)
	}
	v.Detail = strings.Join(append(say, h.notes...), "; ")
	return v
}

// inBrackets formats a fence in brackets; "" for no fence.
func inBrackets(fence int64) string {
	if fence == 0 {
		return ""
	}
	return fmt.Sprintf(" (fence %d)", fence)
}

func fenced(fence int64) string {
	if fence == 0 {
		return ""
	}
	return fmt.Sprintf(", fence %d", fence)
}

func until(t int64) string {
	if t == never {
		return "it says otherwise"
	}
	return clock(t)
}

// exercise counts a judged change by its cause; "" if that is unknown.
func (h *hooks) exercise(kind string) {
	h.exercised++
	h.kinds.of(kind).Exercised++
}

// excuse counts a change that is not judged, under the kind of the fault that could delay the change, or under another reason.
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
			x.Fault = &Suspected{int64(b.by.N), b.by.name()}
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

// blame returns the last fault that hit an owner and ended at most a TTL ago. If there is none, blame returns the last such fault
// of the lease or of Redis, or nil.
func (w *world) blame(b *breach) *injection {
	var other *injection
	for _, inj := range slices.Backward(w.faults.since(b.from)) {
		if inj.From > b.from || inj.To < b.from-int64(w.TTL) || inj.Has(fault.Alters) {
			continue
		}
		switch {
		case inj.node != nil:
			if slices.ContainsFunc(b.owners, func(o Owner) bool { i := w.fleet.instances[o.Instance]; return i != nil && i.node == inj.node }) {
				return inj
			}
		case inj.session == "" || b.session != nil && inj.session == b.session.id:
			other = cmp.Or(other, inj)
		}
	}
	return other
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
