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

	list        []Break // the first breaksMax breaks, as noticed
	firstBroken Break
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

type breach struct {
	session *session
	from    int64
	size    int64     // share of the break in the verdict's value; 0 where breaks are counted
	exhibit *follower // the events around it; nil: the current ones

	to    int64       // end; 0: now
	due   int64       // missed deadline; 0: unknown
	by    *injection  // the fault that caused it; nil: blame finds it
	shown bool        // it depends on when exactly Redis executed an event of its stream
	timed bool        // a stalled host can cause it, as it can cause every missed deadline
	terms []*term     // terms with a part in it; nil: the session's open and last ones
	who   []*instance // instances with a part in a break of no lease

	at   int64
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

// stalledShare is the divisor of the time around a break for which a host must have stalled to be a possible cause: a quarter.
const stalledShare = 4

// stalled reports whether a stalled host may have caused a break that began at from. A TTL before the break counts as well.
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

// The number of events of each sort shown before a break, and after it.
const (
	leaseLen   = 8
	renewalLen = 2
	ringLen    = 10
	pollsLen   = 4
	afterLen   = 6
)

type ring struct {
	events []history.Event
	next   int // index of the oldest event, once the ring is full
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

const expired = "expired"

// exhibit returns the event as a report shows it. A deletion after the lease's end is Redis' own: the key expired.
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

// keep remembers the event as evidence for later breaks.
func (w *world) keep(e *history.Event) {
	e = w.exhibit(e)
	switch {
	case e.Kind == history.AcquireFailed: // explains nothing, and every instance reports it
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

// isPoll reports whether the event belongs to a poll. Such events would crowd out the others.
func isPoll(k history.Kind) bool {
	return k >= history.PollStart && k <= history.PollEnd || k >= history.Arrived && k <= history.Aborted
}

// isRoutine reports whether the event belongs to a renewal.
func isRoutine(k history.Kind) bool {
	return k == history.RenewStart || k == history.Renewed || k == history.RenewFailed || k == history.RedisExtended
}

type follower struct {
	session string
	before  []history.Event
	after   []history.Event
}

// follow begins the evidence of a break: the recent events, and the faults that hit the session's owners at any time.
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

// unusual returns the renewals that are worth showing: failed ones, those of non-owners, and extensions that the owner did not request.
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

// wants reports whether the event may explain the break after it happened. Renewals and the starts and ends of polls do not.
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
