package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// hooks is what every checker starts from: hooks that do nothing, and the account of what it found.
type hooks struct {
	w         *world
	v         Verdict
	breaks    int
	when      []int64   // of the first breaks
	headline  *breach   // the largest, and of those as large the one noticed first
	first     *breach   // the one that began first
	earliest  []*breach // those that were noticed first
	notes     []string  // said in any case
	widened   int64     // ns: the most that a limit was widened for a stalled host
	unplaced  int       // breaks that depend on when exactly Redis did something, which is not known
	stalls    int       // breaks that a stalled host may have caused
	longest   span      // of the time around them, the one with the longest stall
	untested  string    // why it could not be judged, if that is not simply that nothing happened
	exercised int
	excused   int
	worst     int64           // ns: what came closest to its limit, or furthest beyond it
	allowed   int64           // that limit; 0: nothing was held against one
	prolonged int             // changes whose limit a fault moved
	spread    [2 * widest]int // by how much, in halves of a TTL
	kinds     kinds
	measured  []*times

	list        []Break // those that were noticed first
	firstBroken Break   // and the one that began first
}

func (h *hooks) attach(w *world, v Verdict) { h.w, h.v = w, v }
func (h *hooks) event(*history.Event)       {}
func (h *hooks) belief(*term, bool)         {}
func (h *hooks) began(*term)                {}
func (h *hooks) ended(*term, ending)        {}
func (h *hooks) injected(*injection)        {}
func (h *hooks) healed(*injection)          {}
func (h *hooks) finish()                    {}
func (h *hooks) aside(*history.Event)       {}

// breach is a break of a guarantee.
type breach struct {
	session *session  // nil: of none
	from    int64     // when it began
	size    int64     // of what the verdict's value is the largest; 0 where breaks are counted
	exhibit *follower // what was seen around it; nil: what is seen now

	to    int64       // when it was over; 0: now
	due   int64       // the instant that was missed; 0: none is known
	by    *injection  // the fault that caused it; nil: what the faults before it explain
	shown bool        // it depends on when Redis did what its stream shows
	timed bool        // a stalled host can cause it, as any that missed an instant
	terms []*term     // of who had a part in it; nil: those who have the lease, and had it last
	who   []*instance // who had a part in what is of no lease

	at   int64 // when it was noticed
	text string
}

// textsMax bounds how many breaks are described in full; the others are counted.
const textsMax = 3

// whenMax bounds how many breaks are remembered by their time, for G9.
const whenMax = 256

// broke records a break that begins now, with the events around it.
func (h *hooks) broke(s *session, format string, args ...any) {
	h.breach(breach{session: s, from: h.w.now}, format, args...)
}

// breach records a break. It returns false for one that depends on when exactly Redis did something, where that is not known, and for one
// that a stalled host may have caused.
func (h *hooks) breach(b breach, format string, args ...any) bool {
	if (b.shown || h.v.ID == "G10") && h.w.placedBadly(b.from) {
		h.unplaced++
		return false
	}
	if (b.timed || b.due != 0) && h.stalled(b.from) {
		return false
	}
	h.breaks++
	if len(h.when) < whenMax {
		h.when = append(h.when, h.w.now)
	}
	largest, first := h.headline == nil || b.size > h.headline.size, h.first == nil || b.from < h.first.from
	if !largest && !first && len(h.earliest) == textsMax && len(h.list) == breaksMax {
		h.account(&b, false)
		return true
	}
	b.at, b.text = h.w.now, fmt.Sprintf(format, args...)
	h.account(&b, first)
	if largest {
		if b.exhibit == nil {
			b.exhibit = h.w.follow(b.session)
		}
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

// stalledShare is which part of the time around a break a host must have stalled to be its possible cause: a quarter.
const stalledShare = 4

// stalled reports whether a stalled host may have caused a break that began then: it stalled for a quarter of the time since a TTL before.
func (h *hooks) stalled(from int64) bool {
	around := span{max(0, from-int64(h.w.TTL)), h.w.now}
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

// texts describes the breaks, the one of the headline first and the one that began first beside it.
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

// within holds a measured time against its limit, widened by what the host stalled in between.
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

// verdict is the common end: a break fails, nothing judged is unknown.
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
		v.From, v.At, v.Evidence = h.headline.from, h.headline.at, h.headline.exhibit.evidence()
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

// leases returns the sessions of which the instance has an open term, in a fixed order.
func (w *world) leases(i *instance) []string {
	return sortedKeys(i.held)
}

// who names an instance for a reader: the slot, if known, and the instance.
func (i *instance) who() string {
	if i == nil {
		return "nobody"
	}
	if i.node == nil || i.node.name == "" || i.node.name == i.id {
		return i.id
	}
	return i.node.name + " (" + i.id + ")"
}

// short names an instance that the reader has met: by its slot, if it has one.
func (i *instance) short() string {
	if i.node == nil || i.node.name == "" {
		return i.id
	}
	return i.node.name
}

// How many events of each sort are shown before a break, and how many after it.
const (
	leaseLen   = 8
	renewalLen = 2
	ringLen    = 10
	pollsLen   = 4
	afterLen   = 6
)

type ring struct {
	events []history.Event
	next   int // the oldest, once it is full
}

func (r *ring) add(e *history.Event, most int) {
	if len(r.events) < most {
		r.events = append(r.events, *e)
		return
	}
	r.events[r.next] = *e
	r.next = (r.next + 1) % most
}

func (r *ring) all() []history.Event { return slices.Concat(r.events[r.next:], r.events[:r.next]) }

// expired is the reason that is shown of a key that went by itself.
const expired = "expired"

// exhibit returns the event as it is shown. A holder does not delete a key whose time is over: it expires.
func (w *world) exhibit(e *history.Event) *history.Event {
	if e.Kind != history.RedisDeleted || e.Reason != "" {
		return e
	}
	if k := w.subject.granted; k == nil || k.until == 0 || e.T < k.until {
		return e
	}
	shown := *e
	shown.Reason = expired
	return &shown
}

// keep remembers the event for those who will want to see it.
func (w *world) keep(e *history.Event) {
	e = w.exhibit(e)
	switch {
	case e.Kind == history.AcquireFailed: // explains nothing, and comes from everybody
		return
	case e.Session != "" && e.Kind != history.FaultStart && e.Kind != history.FaultEnd:
		switch s := w.subject; {
		case isPoll(e.Kind):
			s.polls.add(e, pollsLen)
		case isRoutine(e.Kind):
			s.routine.add(e, renewalLen)
		default:
			s.recent.add(e, leaseLen)
		}
	case e.Kind >= history.RedisFlushed && e.Kind <= history.RedisUp, e.Kind == history.RedisEpoch, e.Kind == history.Ready,
		e.Kind == history.Stopped:
		w.recent.add(e, ringLen)
	default:
		return
	}
	for i := 0; i < len(w.followers); i++ {
		if f := w.followers[i]; f.wants(e) {
			f.after = append(f.after, *e)
			if len(f.after) == afterLen {
				w.followers = slices.Delete(w.followers, i, i+1)
				i--
			}
		}
	}
}

// isPoll reports whether the event is one of those that come with every poll, and would drown the others.
func isPoll(k history.Kind) bool {
	return k >= history.PollStart && k <= history.PollEnd || k >= history.Arrived && k <= history.Aborted
}

// isRoutine reports whether the event is of a renewal, which come again and again while nothing happens.
func isRoutine(k history.Kind) bool {
	return k == history.RenewStart || k == history.Renewed || k == history.RenewFailed || k == history.RedisExtended
}

type follower struct {
	session string
	before  []history.Event
	after   []history.Event
}

// follow begins with what was seen until now, and the faults that hit the session's owners whenever that was.
func (w *world) follow(s *session) *follower {
	f := &follower{before: w.recent.all()}
	f.before = slices.DeleteFunc(f.before, func(e history.Event) bool { return e.T < w.now-2*int64(w.TTL) })
	if s != nil {
		f.session = s.id
		for _, t := range append(slices.Clone(s.terms), s.last) {
			f.causes(t)
		}
		f.before = slices.Concat(f.before, s.recent.all(), s.polls.all(), s.unusual())
		slices.SortStableFunc(f.before, func(a, b history.Event) int { return cmp.Compare(a.T, b.T) })
	}
	w.followers = append(w.followers, f)
	return f
}

// unusual returns the renewals that failed, or were not those of who owns the session.
func (s *session) unusual() []history.Event {
	owner := ""
	switch {
	case s.granted != nil:
		owner = s.granted.holder
	case s.last != nil:
		owner = s.last.inst.id
	}
	all := s.routine.all()
	own := func(e history.Event) bool {
		return e.Instance == owner && (e.Kind == history.RenewStart || e.Kind == history.Renewed)
	}
	asked := slices.ContainsFunc(all, own)
	return slices.DeleteFunc(all, func(e history.Event) bool { return own(e) || asked && e.Kind == history.RedisExtended })
}

// causes adds the faults that hit the term and are not there yet.
func (f *follower) causes(t *term) {
	if t == nil {
		return
	}
	for _, inj := range t.injections {
		e := history.Event{T: inj.start, Kind: history.FaultStart, N: inj.index, Reason: string(inj.Kind)}
		if inj.node != nil {
			e.Node = inj.node.name
		}
		if !f.shows(&e) {
			f.before = append(f.before, e)
		}
	}
}

func (f *follower) shows(e *history.Event) bool {
	for i := range f.before {
		if o := &f.before[i]; o.Kind == e.Kind && o.N == e.N {
			return true
		}
	}
	return false
}

// wants: after a break neither what is routine nor the beginnings and ends of polls explain anything.
func (f *follower) wants(e *history.Event) bool {
	switch e.Kind {
	case history.PollStart, history.PollEnd, history.Served, history.AcquireFailed:
		return false
	}
	return (e.Session == f.session || e.Session == "") && !isRoutine(e.Kind)
}

func (f *follower) evidence() []history.Event {
	if f == nil {
		return nil
	}
	return append(slices.Clone(f.before), f.after...)
}
