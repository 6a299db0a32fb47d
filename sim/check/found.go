package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

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
	b.owners = b.hadPart()
	if b.by == nil {
		b.by = h.w.blame(&b)
	}
	b.to, b.seen = max(cmp.Or(b.to, b.at), b.from), cmp.Or(b.seen, h.w.seen)
	b.text = fmt.Sprintf(format, args...)
	h.breaks = append(h.breaks, &b)
	return true
}

// stalledShare is the divisor of the time around a break for which a host must have stalled to be a possible cause: a quarter.
const stalledShare = 4

// stalled reports whether a stalled host may have caused a break between from and to. A TTL before the break counts as well.
func (h *hooks) stalled(from, to int64) bool {
	from = max(0, from-int64(h.w.TTL))
	stall := h.w.stall(from, to)
	if stall == 0 || stall*stalledShare < to-from {
		return false
	}
	h.stalls++
	h.stall = max(h.stall, stall)
	return true
}

// noteSome adds a note with a number, unless that is 0.
func (h *hooks) noteSome(n int, format string) {
	if n > 0 {
		h.note(format, n)
	}
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
			"what it shows: %d", time.Duration(h.w.latest()).Seconds(), h.unplaced))
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

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func (w *world) leases(i *instance) []string { return sortedKeys(i.held) }

// who names an instance by its slot, if known, and its ID.
func (i *instance) who() string {
	if i == nil {
		return "nobody"
	}
	if name := i.short(); name != i.id {
		return name + " (" + i.id + ")"
	}
	return i.id
}

// short names an instance that the text has introduced: by its slot, if it has one.
func (i *instance) short() string {
	if i.node == nil {
		return i.id
	}
	return cmp.Or(i.node.name, i.id)
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
