package check

import (
	"fmt"
	"slices"
	"sort"
)

// g2 promises that the polled target never serves two instances for one session at once, and never accepts a poll with an older fence. No
// instance polls a session after another was granted it, whether or not the target accepts that poll.
//
// The queries, over the polls of each lease at the target:
//   - The target accepts a poll whose fence is lower than the highest before it, or equal to it but of another instance.
//   - A poll arrives while the target serves a poll of another instance.
//   - A poll began after the last grant before its arrival, and that grant went to another instance. Requests are short, so two pollers
//     rarely meet at the target.
//
// Polls of processes that the plan froze are counted separately. So are polls that meet after the plan deleted the lease's key (the
// exception of G1), if the later poll has the higher fence.
type g2 struct {
	hooks
	accepted int
	rejected int
	late     int // refused polls of processes that had been frozen
	frozen   int // overlaps with a poll of a frozen process
	deleted  int // overlaps explained by a deleted key
	hungUp   int // overlaps with a poll whose client had hung up before the target noticed

	staleFrozen  int // polls of processes that had been frozen, and of which a query says that they are stale
	staleDeleted int // such polls of owners that could not know yet that the plan had deleted their key
}

func (g *g2) finish() {
	for _, s := range g.w.fleet.sorted() {
		g.taken(s)
		g.fences(s)
		for _, p := range s.polls {
			if p.refused {
				g.rejected++
				if g.w.fleet.sentAsleep(p.inst, p.at, p.at) {
					g.late++
				}
			} else {
				g.accepted++
				g.meetings(s, p)
			}
			g.stale(s, p)
		}
	}
	if g.exercised == 0 {
		g.untested = unchallenged
	}
	if g.accepted == 0 {
		g.untested = "the target saw no poll"
		return
	}
	g.note("%d polls accepted, %d refused by fence; of frozen processes: sent late and refused %d, frozenInFlight %d", g.accepted, g.rejected,
		g.late, g.frozen)
	g.noteSome(g.hungUp, "%d polls came when the client before had hung up, which the target noticed a moment later")
	g.noteSome(g.staleFrozen, "%d polls of processes that had been frozen began after another was granted the session")
	g.noteSome(g.deleted, "after a key was deleted by hand, before its owner could know, %d polls came while its last one was served")
	g.noteSome(g.staleDeleted, "after a key was deleted by hand, before its owner could know, it began %d polls that were another's")
}

// taken counts the leases taken over from challenged owners, once their new owner polls.
func (g *g2) taken(s *session) {
	next, taker := 0, (*term)(nil)
	for _, p := range s.polls {
		for ; next < len(s.history) && s.history[next].seen < p.seen; next++ {
			if t := s.history[next]; t.challenged != "" {
				taker = t
			}
		}
		if taker != nil && !p.refused && p.inst == taker.inst.id {
			g.exercise(taker.challenged)
			taker = nil
		}
	}
}

func (g *g2) fences(s *session) {
	top := &poll{}
	for _, p := range s.polls {
		switch {
		case p.refused || p.fence == 0:
		case p.fence > top.fence:
			top = p
		case p.fence < top.fence:
			g.broken(s, p, top, "the target accepted poll %d of %s for session %s with fence %d at %s, after it had accepted fence %d of %s",
				p.n, g.who(p), s.id, p.fence, clock(p.at), top.fence, g.who(top))
		case p.inst != top.inst:
			g.broken(s, p, top, "the target accepted fence %d for session %s from two instances: first from %s, and at %s (poll %d) from %s",
				p.fence, s.id, g.who(top), clock(p.at), p.n, g.who(p))
		}
	}
}

func (g *g2) who(p *poll) string { return g.w.fleet.who(p.inst) }

func (g *g2) broken(s *session, p, other *poll, format string, args ...any) {
	p.broken = true
	parts := []*term{g.w.fleet.part(s, other.inst, other.fence), g.w.fleet.part(s, p.inst, p.fence)}
	g.breach(breach{session: s, from: p.at, at: p.at, seen: p.seen, terms: parts}, format, args...)
}

// meetings judges the polls of other instances that the target still served when this poll arrived. If the client of such a poll
// has hung up, the target notices soon.
func (g *g2) meetings(s *session, p *poll) {
	noticed := p.at + int64(FailoverAllowance)
	for _, a := range p.meets {
		switch {
		case a.inst == p.inst:
		case g.w.fleet.sentAsleep(a.inst, a.at, p.at), g.w.fleet.sentAsleep(p.inst, p.at, p.at):
			g.frozen++
		case a.fence < p.fence && g.w.faults.deletedUnknown(s, p.at):
			g.deleted++
		case g.w.allows(hungUps) && a.hungUp != 0 && a.hungUp < p.seen && (a.aborted && a.end <= noticed || a.end == never && noticed >= g.w.now):
			g.hungUp++
		default:
			g.broken(s, p, a, "the target served session %s to %s (poll %d%s, arrived %s, not yet answered) when the poll of %s (poll %d%s) "+
				"arrived at %s: two pollers at once, and the plan had frozen neither",
				s.id, g.who(a), a.n, fenced(a.fence), clock(a.at), g.who(p), p.n, fenced(p.fence), clock(p.at))
		}
	}
}

// stale judges a poll by the last grant before its arrival: as Redis shows it, or, if that is unknown, as a node reports it. Redis' stream,
// or a node, may record a grant to the sender a moment after the poll.
func (g *g2) stale(s *session, p *poll) {
	before := func(all []*grant) int {
		i := sort.Search(len(all), func(i int) bool { return all[i].seen > p.seen }) - 1
		for i >= 0 && all[i].snapshot { // it was granted earlier
			i--
		}
		return i
	}
	turns, last := s.grants, before(s.grants)
	byRedis := last >= 0 && turns[last].owner != "" && !g.w.replicated()
	if !byRedis {
		turns, last = s.reported, before(s.reported)
	}
	if last < 0 || turns[last].owner == p.inst {
		return
	}
	whose, begun := turns[last], g.startOf(p)
	until := g.w.host.recordedBy(p.at)
	regained := func(x *grant) bool { return x.owner == p.inst && x.since <= until && !x.snapshot }
	switch {
	case begun <= whose.since:
		return
	case g.w.fleet.sentAsleep(p.inst, p.at, p.at):
		g.staleFrozen++
		return
	case g.w.faults.deletedUnknown(s, begun):
		g.staleDeleted++
		return
	case p.broken || until >= g.w.now || slices.ContainsFunc(turns[last+1:], regained):
		return
	}
	other := g.w.fleet.who(whose.owner)
	since := fmt.Sprintf("%s said at %s that it had acquired it", other, clock(whose.since))
	if byRedis {
		since = fmt.Sprintf("Redis had granted it to %s at %s", other, clock(whose.since))
	}
	g.breach(breach{
		session: s, from: begun, at: until, seen: p.seen, shown: byRedis,
		terms: []*term{g.w.fleet.part(s, p.inst, p.fence), g.w.fleet.part(s, whose.owner, 0)},
	}, "%s polled session %s (poll %d%s, begun %s, arrived %s), although %s: a poll of one who has lost it",
		g.who(p), s.id, p.n, fenced(p.fence), clock(begun), clock(p.at), since)
}

// startOf returns the start of the poll: as reported, unless that poll must be over, else a moment before the arrival. A stall of the host
// makes it earlier. A frozen sender has the rest of its time-out after its thaw, and its clock may run 1 % slow.
func (g *g2) startOf(p *poll) int64 {
	at, awake := p.at-int64(stampAllowance), max(p.started, min(p.at, g.w.fleet.lastFreeze(p.inst, p.at).to))
	if p.started != never && p.at <= awake+int64(g.w.PollTimeout)*101/100+eventAllowance+g.w.host.stall(awake-eventAllowance, p.at) {
		at = p.started
	}
	return at - g.w.host.stall(at-eventAllowance, p.at)
}
