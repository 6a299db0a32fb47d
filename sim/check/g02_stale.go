package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// stales is the half of G2 that needs no two polls at once. A poll that begins after another instance was granted the session is stale,
// whether or not the target accepts it. Two pollers mostly miss each other at the target, because a request is short.
type stales struct {
	g       *g2
	polls   int // unexplained stale polls
	frozen  int // stale polls of processes that had been frozen
	deleted int // stale polls of owners that could not know yet that the plan had deleted their key
}

// turns is the state of the turns to poll one session.
type turns struct {
	shown    holding          // last grant that Redis showed; none if it is unknown or not of an instance's ID
	reported holding          // last grant that a node reported
	begun    map[string]int64 // start of each instance's last reported poll, until that poll arrives
	suspects map[int64]*suspect
	taken    string // instance that took the session over from a challenged owner, until it polls; "": none
	by       string // challenge of that owner
}

type holding struct {
	inst  string // "": unknown
	at    int64
	fence int64 // of reported grants only
}

// suspect is a poll that is stale unless Redis granted its sender the session, which may be shown a moment later.
type suspect struct {
	poll    history.Event
	begun   int64
	turn    holding // last grant, to another instance
	shown   bool    // turn was shown by Redis
	cleared bool
	seen    int32
}

func (x *stales) event(e *history.Event) {
	s := x.g.w.subject
	if s == nil {
		return // a fault
	}
	t := &s.turns
	switch e.Kind {
	case history.PollStart:
		if t.begun == nil {
			t.begun = map[string]int64{}
		}
		t.begun[e.Instance] = e.T
	case history.Acquired:
		if e.Until != 0 && e.Until <= e.T || e.Fence != 0 && e.Fence < t.reported.fence {
			return // the term was over when it was reported
		}
		t.reported = holding{e.Instance, e.T, e.Fence}
		t.clear(e.Instance, false)
	case history.RedisGranted:
		if e.Reason != snapshotReason && !x.g.w.replicated() {
			x.granted(t, e)
		}
	case history.TapDown:
		for _, s := range x.g.w.sessions.all {
			s.turns.shown = holding{}
		}
	case history.Arrived, history.Rejected:
		x.arrived(t, e)
	}
}

// granted sets the turn that Redis shows. If keys do not hold the IDs of instances, the nodes' messages alone decide.
func (x *stales) granted(t *turns, e *history.Event) {
	t.shown = holding{}
	if i := x.g.w.instances[e.Instance]; i != nil && i.node != nil {
		t.shown = holding{inst: e.Instance, at: e.T}
		t.clear(e.Instance, true)
	}
}

// over reports whether a poll that began at at must have ended before this one arrived. The sender's clock may run 1 % slow.
func (x *stales) over(at int64, e *history.Event) bool {
	w := x.g.w
	if i := w.instances[e.Instance]; i != nil && i.node.frozenWithin(at) {
		if i.node.frozen {
			return false
		}
		at = i.node.thawedAt
	}
	return e.T > at+int64(w.PollTimeout)*101/100+eventAllowance+w.stall(at-eventAllowance, e.T)
}

// began returns the start of the arriving poll: as reported, unless that poll must be over, else a moment before the arrival. A stall of
// the host makes it earlier.
func (x *stales) began(t *turns, e *history.Event) int64 {
	at := e.T - int64(stampAllowance)
	if said, ok := t.begun[e.Instance]; ok && !x.over(said, e) {
		at = said
	}
	delete(t.begun, e.Instance)
	return at - x.g.w.stall(at-eventAllowance, e.T)
}

// arrived judges a poll once Redis must have shown earlier grants. If the history ends before that, the poll is not judged.
func (x *stales) arrived(t *turns, e *history.Event) {
	begun, whose := x.began(t, e), t.shown
	if whose.inst == "" {
		whose = t.reported
	}
	if whose.inst == "" || whose.inst == e.Instance || begun <= whose.at {
		return
	}
	w, s := x.g.w, x.g.w.subject
	switch {
	case w.frozenSince(e.Instance, e.T-sentLate):
		x.frozen++
		return
	case w.deletedUnknown(s, begun):
		x.deleted++
		return
	}
	p := &suspect{poll: *e, begun: begun, turn: whose, shown: t.shown.inst != "", seen: w.seen()}
	if t.suspects == nil {
		t.suspects = map[int64]*suspect{}
	}
	t.suspects[e.N] = p
	w.at(e.T+eventAllowance+w.stall(e.T-eventAllowance, e.T), func() { x.judge(s, p) })
}

func (t *turns) clear(inst string, shown bool) {
	for _, p := range t.suspects {
		p.cleared = p.cleared || p.poll.Instance == inst && p.shown == shown
	}
}

func (x *stales) judge(s *session, p *suspect) {
	delete(s.turns.suspects, p.poll.N)
	if p.cleared {
		return
	}
	w, e, other := x.g.w, &p.poll, x.g.w.instance(p.turn.inst).who()
	since := fmt.Sprintf("%s said at %s that it had acquired it", other, clock(p.turn.at))
	if p.shown {
		since = fmt.Sprintf("Redis had granted it to %s at %s", other, clock(p.turn.at))
	}
	if x.g.breach(breach{session: s, from: p.begun, seen: p.seen, shown: p.shown},
		"%s polled session %s (poll %d%s, begun %s, arrived %s), although %s: a poll of one who has lost it",
		w.instance(e.Instance).who(), s.id, e.N, fenced(e.Fence), clock(p.begun), clock(e.T), since) {
		x.polls++
	}
}

// counted clears a poll that is reported as a break of another kind.
func (t *turns) counted(n int64) {
	if p := t.suspects[n]; p != nil {
		p.cleared = true
	}
}
