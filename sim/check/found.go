package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// hooks is the base of every checker: empty hooks, and the record of its findings.
type hooks struct {
	w         *world
	v         Verdict
	breaks    int
	when      []int64 // times of the first breaks
	headline  *breach // the largest break; the earliest noticed of equals
	first     *breach
	earliest  []*breach // the first textsMax breaks, as noticed
	later     []breach  // breaks found at the end, not yet in order of time
	notes     []string  // always part of the detail
	widened   int64     // ns: the largest extension of a limit for a stalled host
	unplaced  int       // breaks that depend on the exact time of an event in Redis, which is unknown
	stalls    int       // breaks that a stalled host may have caused
	longest   span      // the time around them with the longest stall
	untested  string    // reason why it was not judged, if there were changes at all
	exercised int
	excused   int
	worst     int64           // ns: the time that came closest to its limit, or furthest beyond it
	allowed   int64           // limit of worst; 0: no time was held against a limit
	prolonged int             // changes whose limit a fault moved
	spread    [2 * widest]int // by how much, in halves of a TTL
	kinds     kinds
	measured  []*times
	overdue   []*wait // changes that were due and may still come

	list        []Break // the first breaksMax breaks, as noticed
	firstBroken Break
}

func (h *hooks) attach(w *world, v Verdict) { h.w, h.v = w, v }

func (h *hooks) event(*history.Event) {}

func (h *hooks) began(*term) {}

func (h *hooks) ended(*term, ending) {}

func (h *hooks) injected(*injection) {}

func (h *hooks) healed(*injection) {}

func (h *hooks) aside(*history.Event) {}

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

	at   int64 // when it was noticed; 0: now
	text string
}

// textsMax is how many breaks are described in full. The others are counted.
const textsMax = 3

// whenMax is how many breaks are remembered by their time, for G9.
const whenMax = 256

// broke records a break that begins and is noticed now.
func (h *hooks) broke(s *session, format string, args ...any) {
	h.breach(breach{session: s, from: h.w.now}, format, args...)
}

// breach records a break. It returns false, and counts no break, if a stalled host may have caused it. The same applies to a break that
// depends on an event in Redis whose exact time is unknown.
func (h *hooks) breach(b breach, format string, args ...any) bool {
	b.at = cmp.Or(b.at, h.w.now)
	if (b.shown || h.v.ID == "G10") && h.w.placedBadly(b.from, b.at) {
		h.unplaced++
		return false
	}
	if (b.timed || b.due != 0) && h.stalled(b.from, b.at) {
		return false
	}
	h.breaks++
	if len(h.when) < whenMax {
		h.when = append(h.when, b.at)
	}
	b.by = h.w.blame(&b)
	b.seen = cmp.Or(b.seen, h.w.seen())
	largest, first := h.headline == nil || b.size > h.headline.size, h.first == nil || b.from < h.first.from
	if !largest && !first && len(h.earliest) == textsMax && len(h.list) == breaksMax {
		h.account(&b, false)
		return true
	}
	b.text = fmt.Sprintf(format, args...)
	h.account(&b, first)
	if largest {
		h.headline = &b
	}
	if first {
		h.first = &b
	}
	if len(h.earliest) < textsMax {
		h.earliest = append(h.earliest, &b)
	}
	return true
}

// foundLater records a break that finish() finds. It began at from, if at is not given.
func (h *hooks) foundLater(b breach, format string, args ...any) {
	b.at, b.text = cmp.Or(b.at, b.from), fmt.Sprintf(format, args...)
	h.later = append(h.later, b)
}

// inOrder counts the breaks that finish() found, in order of time.
func (h *hooks) inOrder() {
	slices.SortStableFunc(h.later, func(a, b breach) int { return cmp.Compare(a.at, b.at) })
	for _, b := range h.later {
		h.breach(b, "%s", b.text)
	}
}

// stalledShare is the divisor of the time around a break for which a host must have stalled to be a possible cause: a quarter.
const stalledShare = 4

// stalled reports whether a stalled host may have caused a break between from and to. A TTL before the break counts as well.
func (h *hooks) stalled(from, to int64) bool {
	around := span{max(0, from-int64(h.w.TTL)), to}
	stall := h.w.stall(around.from, around.to)
	if stall == 0 || stall*stalledShare < around.to-around.from {
		return false
	}
	h.stalls++
	if h.stalls == 1 || stall > h.w.stall(h.longest.from, h.longest.to) {
		h.longest = around
	}
	return true
}

func (h *hooks) texts() []string {
	if h.headline == nil {
		return nil
	}
	say := []string{h.headline.text}
	if h.first != h.headline {
		say = append(say, "the first began at "+clock(h.first.from)+": "+h.first.text)
	}
	for _, b := range h.earliest {
		if len(say) < textsMax && b != h.headline && b != h.first {
			say = append(say, b.text)
		}
	}
	return say
}

func (h *hooks) note(format string, args ...any) {
	h.notes = append(h.notes, fmt.Sprintf(format, args...))
}

// within holds a measured time against its limit. A stall of the host within that time widens the limit.
func (h *hooks) within(took, limit, from int64) bool {
	applied := h.applied(took, limit, from)
	h.widened = max(h.widened, applied-limit)
	return took <= applied
}

func (h *hooks) applied(took, limit, from int64) int64 {
	if took > limit {
		if stall := h.w.stall(from, from+took); took <= limit+stall {
			return limit + stall
		}
	}
	return limit
}

// verdict returns fail if there was a break, and unknown if nothing was judged.
func (h *hooks) verdict() Verdict {
	v := h.v
	h.said(&v)
	var say []string
	switch {
	case h.breaks > 0:
		v.Verdict = Fail
		say = h.texts()
		if more := h.breaks - len(say); more > 0 {
			say = append(say, fmt.Sprintf("and %d more", more))
		}
		v.From, v.At, v.Evidence = h.headline.from, h.headline.at, h.w.evidence(h.headline)
		if s := h.headline.session; s != nil {
			v.Session = s.id
		}
	case h.unplaced > 0:
		v.Verdict = Unknown
		say = append(say, fmt.Sprintf("the host was too busy: the stream of Redis was read %.1f s late; breaks that depend on the exact time of "+
			"what it shows: %d", time.Duration(h.w.latest()).Seconds(), h.unplaced))
	case h.stalls > 0:
		v.Verdict = Unknown
		v.Stalled = h.w.stall(h.longest.from, h.longest.to)
		say = append(say, fmt.Sprintf("breaks that a host that stalled may have caused: %d (it stalled for %d of %d ms, until %s)", h.stalls,
			ms(v.Stalled), ms(h.longest.to-h.longest.from), clock(h.longest.to)))
	case h.untested != "":
		v.Verdict = Unknown
		say = append(say, h.untested)
	case h.exercised == 0:
		v.Verdict = Unknown
		say = append(say, "nothing in this run put it to the test")
	default:
		v.Verdict = Pass
	}
	say = append(say, h.notes...)
	if h.widened > 0 {
		v.Stalled = max(v.Stalled, h.widened)
		say = append(say, fmt.Sprintf("a limit was widened by %d ms in which the host stalled", ms(h.widened)))
	}
	if h.prolonged > 0 {
		say = append(say, "limits were moved by "+counts(h.kinds.tally(func(k *KindCount) uint64 { return k.Prolonged })))
	}
	if h.excused > 0 {
		say = append(say, fmt.Sprintf("excused %d: overlapped by %s", h.excused,
			counts(h.kinds.tally(func(k *KindCount) uint64 { return k.Excused }))))
	}
	v.Detail = strings.Join(say, "; ")
	return v
}

func counts(m map[string]int) string {
	var parts []string
	for _, k := range sortedKeys(m) {
		parts = append(parts, fmt.Sprintf("%s × %d", k, m[k]))
	}
	return strings.Join(parts, ", ")
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (w *world) leases(i *instance) []string {
	return sortedKeys(i.held)
}

// who names an instance by its slot, if known, and its ID.
func (i *instance) who() string {
	if i == nil {
		return "nobody"
	}
	if i.node == nil || i.node.name == "" || i.node.name == i.id {
		return i.id
	}
	return i.node.name + " (" + i.id + ")"
}

// short names an instance that the text has introduced: by its slot, if it has one.
func (i *instance) short() string {
	if i.node == nil || i.node.name == "" {
		return i.id
	}
	return i.node.name
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
	if t == 0 {
		return "it says otherwise"
	}
	return clock(t)
}

func join(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "":
		return a
	}
	return a + "; " + b
}
