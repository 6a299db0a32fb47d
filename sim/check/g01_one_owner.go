package check

import (
	"cmp"
	"slices"
)

// g1 promises that no two instances trust one lease at once, and that no trust window exceeds the lease that Redis granted.
//
// Acquired opens a window, and renewed extends it or opens it again. RenewFailed, lost, released, the end of the process or the
// time until closes it. A frozen process believes until the time until, so an overlap with its window is a break.
//
// The queries, for each lease:
//   - Sort the beliefs of all terms by their start. If beliefs of two instances overlap, this is a break, except while an owner cannot
//     know yet that the plan deleted its key.
//   - A window whose end exceeds its grant's, as Redis showed it a moment later, is a break too: it would overlap the next one.
type g1 struct {
	hooks
	asking   int   // terms of instances that query Redis before each use
	uses     int   // uses of such terms
	taken    int   // terms taken over from challenged owners, trusted or not
	deleted  int   // overlaps that a deleted key explains
	deletedW int64 // the longest of them
}

// claim is a belief with its term.
type claim struct {
	*term
	belief
}

func (g *g1) finish() {
	for _, s := range g.w.fleet.sorted() {
		g.overlaps(s, g.claims(s))
		if g.w.shows() {
			g.beyondGrants(s)
		}
	}
	switch {
	case g.asking > 0 && g.uses == 0:
		g.untested = "the nodes ask before each use, and say nothing of a use (pollStart)"
	case g.exercised > 0:
	case g.taken > 0:
		g.untested = "nobody trusted a lease that was taken over: each window (until) had ended when it was reported"
	default:
		g.untested = unchallenged
	}
	g.v.Challenges = g.w.challenges.list()
	if len(g.breaks) > 0 {
		g.v.Value = ms(g.largest().size)
	}
	g.noteSome(g.exercised, "%d leases taken over from challenged owners")
	if g.deleted > 0 {
		g.note("after a key was deleted by hand %d overlaps of at most %d ms (allowed: one renewal interval and its time-out, or until a frozen "+
			"owner's window ends)", g.deleted, ms(g.deletedW))
	}
}

// claims returns all beliefs, and counts the terms that put the guarantee to the test.
func (g *g1) claims(s *session) (all []claim) {
	for _, t := range s.history {
		for _, b := range t.beliefs {
			all = append(all, claim{t, b})
		}
		if t.inst.asks {
			g.asking, g.uses = g.asking+1, g.uses+len(t.beliefs)
		}
		if t.challenged != "" {
			g.taken++
			if len(t.beliefs) > 0 { // an instance that never trusts its term puts nothing to the test
				g.exercise(t.challenged)
			}
		}
	}
	return all
}

func (g *g1) overlaps(s *session, claims []claim) {
	slices.SortStableFunc(claims, func(a, b claim) int { return cmp.Compare(a.belief.seen, b.belief.seen) })
	var open []claim
	for _, b := range claims {
		open = slices.DeleteFunc(open, func(a claim) bool { return a.to <= b.from })
		for _, a := range open {
			if to := min(a.to, b.to, g.w.now); a.inst != b.inst && to > b.from {
				g.overlap(s, a, b, to)
			}
		}
		open = append(open, b)
	}
}

// overlap judges the time in which two instances believe, which begins with the second belief.
func (g *g1) overlap(s *session, first, second claim, to int64) {
	from, renewal := second.from, int64(g.w.Renew+g.w.RenewTimeout)
	length, freeze := to-from, first.inst.node.lastFreeze(to)
	asleep := freeze.to >= from // it cannot know before its thaw or the end of its window
	// A thawed owner renews at once. If the renewal gets no answer, the owner knows at its timeout.
	woke := length <= renewal && freeze.to >= from-thawGrace-int64(g.w.RenewTimeout)
	if g.w.faults.deletedUnknown(s, from) && (asleep || length <= renewal) || (asleep || woke) && g.asleepSince(first, freeze.from, from) {
		g.deleted++
		g.deletedW = max(g.deletedW, length)
		return
	}
	b := breach{
		session: s, from: from, to: to, at: to, size: length, seen: second.belief.seen, due: s.grantedUntil(first.inst, from),
		terms: []*term{first.term, second.term},
	}
	g.breach(b,
		"%s and %s both trusted their lease of session %s for %d ms, from %s to %s: the first had it from %s%s and believed until %s, the "+
			"second had it from %s%s and believed until %s", first.inst.who(), second.inst.who(), s.id, ms(length), clock(from), clock(to),
		clock(first.since), inBrackets(first.fence), until(first.to), clock(second.since), inBrackets(second.fence), until(second.to))
}

// asleepSince reports whether the plan deleted the first owner's key and froze that owner before it could know, for the whole overlap.
// Such an owner believes until its window ends.
func (g *g1) asleepSince(first claim, frozen, from int64) bool {
	since := max(first.since, from-int64(g.w.TTL), frozen-int64(g.w.Renew+g.w.RenewTimeout))
	return frozen <= from && first.session.deletedWithin(since, from)
}

// beyondGrants judges the windows that exceeded their grants. Redis' stream may show the grant's extension a moment later.
func (g *g1) beyondGrants(s *session) {
	for _, x := range s.beyond {
		shown := g.w.host.recordedBy(x.at)
		if x.grant.gone <= shown || g.w.now <= shown || x.shown <= shown {
			continue
		}
		g.breach(breach{
			session: s, from: x.at, to: x.until, at: shown, due: x.end, size: x.until - x.end, seen: x.seen, shown: true,
			terms: []*term{g.w.fleet.part(s, x.inst, x.fence)}, // an overlap is a break of its own
		}, "%s said at %s that it trusts its lease of session %s%s until %s, but Redis had granted it until %s: another can "+
			"own it for %d ms while it still believes", g.w.fleet.who(x.inst), clock(x.at), s.id, inBrackets(x.fence), clock(x.until),
			clock(x.end), ms(x.until-x.end))
	}
}
