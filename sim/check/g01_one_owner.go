package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g1 judges that no two instances' trust windows for one lease overlap.
//
// Acquired opens a window, and renewed extends it or opens it again. RenewFailed, lost, released, the end of the process or its until
// closes it. A frozen process believes until its until: such an overlap is a break.
type g1 struct {
	hooks
	overlaps map[*session][]*overlap
	asking   int // terms of instances that query Redis before each use
	uses     int // uses of such terms
	taken    int // terms taken over from challenged owners, trusted or not
	granted  grants
	worst    int64
	deleted  int // overlaps that a deleted key explains
	deletedW int64
}

// overlap is a time in which two instances believe that they own one lease.
type overlap struct {
	first, second *term
	from          int64
	untils        [2]int64 // end of each window as the overlap began
	due           int64    // end of the first's lease, as Redis had granted it; 0: unknown
	seen          int32    // number of events before its start
}

func (g *g1) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.overlaps = map[*session][]*overlap{}
	g.granted = grants{g: g}
}

func (g *g1) event(e *history.Event) {
	if g.w.shows() {
		g.granted.event(e)
	}
}

func (g *g1) began(t *term) {
	if t.inst.asks {
		g.asking++
	}
	if t.challenged != "" {
		g.taken++
	}
}

func (g *g1) belief(t *term, on bool) {
	s := t.session
	if on {
		if t.inst.asks {
			g.uses++
		}
		if t.challenged != "" && !t.used { // an instance that never trusts its term puts nothing to the test
			t.used = true
			g.exercise(t.challenged)
		}
		g.begins(t)
		return
	}
	var still []*overlap
	for _, o := range g.overlaps[s] {
		if o.first != t && o.second != t {
			still = append(still, o)
		} else if t.to > o.from {
			g.overlap(o, t.to)
		}
	}
	if still == nil {
		delete(g.overlaps, s)
		return
	}
	g.overlaps[s] = still
}

// begins finds the overlaps that begin as t's instance begins to trust it.
func (g *g1) begins(t *term) {
	s := t.session
	for _, u := range s.terms {
		if !u.believes || u.inst == t.inst {
			continue
		}
		g.overlaps[s] = append(g.overlaps[s], &overlap{u, t, t.from, [2]int64{u.until, t.until}, s.endsFor(u.inst), g.w.seen()})
	}
}

func (g *g1) overlap(o *overlap, to int64) {
	s, length := o.first.session, to-o.from
	asleep := o.first.inst.node.frozenWithin(o.from) // it cannot know before its thaw or the end of its window
	// A thawed owner renews at once. Without an answer, it knows when the renewal times out.
	short := length <= int64(g.w.Renew+g.w.RenewTimeout)
	if g.w.deletedUnknown(s, o.from) && (asleep || short) ||
		(asleep || short && o.first.inst.node.frozenWithin(o.from-thawGrace-int64(g.w.RenewTimeout))) && g.asleepSince(o) {
		g.deleted++
		g.deletedW = max(g.deletedW, length)
		return
	}
	g.worst = max(g.worst, length)
	a, z := o.first.inst.short(), o.second.inst.short()
	if a == z { // two processes of one slot
		a, z = o.first.inst.id, o.second.inst.id
	}
	b := breach{session: s, from: o.from, to: to, size: length, seen: o.seen, due: o.due, terms: []*term{o.first, o.second}}
	if b.by = g.w.blame(&b); b.by != nil && b.by.forgets() {
		b.due = max(b.by.start, b.by.end) + int64(g.w.TTL) // end of the quarantine, had there been one
	}
	g.breach(b,
		"%s and %s both trusted their lease of session %s for %d ms, from %s to %s: %s had it from %s%s and believed until %s, "+
			"%s had it from %s%s and believed until %s",
		o.first.inst.who(), o.second.inst.who(), s.id, ms(length), clock(o.from), clock(to),
		a, clock(o.first.since), inBrackets(o.first.fence), until(o.untils[0]),
		z, clock(o.second.since), inBrackets(o.second.fence), until(o.untils[1]))
}

// asleepSince reports whether the plan deleted the first owner's key and froze that owner before it could know, for the whole overlap.
// Such an owner believes until its window ends.
func (g *g1) asleepSince(o *overlap) bool {
	frozen := o.first.inst.node.frozenAt
	from := max(o.first.since, o.from-int64(g.w.TTL), frozen-int64(g.w.Renew+g.w.RenewTimeout))
	return frozen <= o.from && o.first.session.deletedWithin(from, o.from)
}

func (g *g1) finish() {
	if g.asking > 0 && g.uses == 0 {
		g.untested = "the nodes ask before each use, and say nothing of a use (pollStart)"
	}
	for _, s := range g.w.sessions.sorted() {
		for _, o := range g.overlaps[s] {
			if g.w.now > o.from {
				g.overlap(o, g.w.now)
			}
		}
	}
	switch {
	case g.exercised > 0 || g.untested != "":
	case g.taken > 0:
		g.untested = "nobody trusted a lease that was taken over: each window (until) had ended when it was reported"
	default:
		g.untested = unchallenged
	}
	if said := g.w.challenges.said(); said != "" {
		g.note("challenges: %s", said)
	}
}

func (g *g1) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value, v.Challenges = ms(max(g.worst, g.granted.worst)), g.w.challenges.list()
	if v.Verdict == Pass {
		v.Detail = join(fmt.Sprintf("%d leases taken over from challenged owners, no two windows open at once", g.exercised), v.Detail)
	}
	if g.deleted > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("after a key was deleted by hand %d overlaps of at most %d ms (allowed: one "+
			"renewal interval and its time-out, or until a frozen owner's window ends)", g.deleted, ms(g.deletedW)))
	}
	return v
}
