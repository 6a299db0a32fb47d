package check

import (
	"cmp"
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
)

// e6 judges that each transition publishes exactly the events of the specification's table, once and in order. After the calm there must
// be exactly one leader, and all members must agree who it is.
type e6 struct {
	endings
	key   *session // of the leader key; nil: the nodes report no transitions
	tells bool     // members report whom they take for the leader
}

// member is the state of one instance, by its own messages.
type member struct {
	state  string       // "": it has reported none, and is a follower
	next   history.Kind // event of its last transition that is not published yet; 0: none
	moved  int64        // time of its last transition
	change string       // its last transition; "": it reports none
	led    int64        // fence of its last LeadershipAcquired
	leads  string       // ID of the leader, as it reports
	under  int64        // fence of that leader, as it reports; 0: unknown
}

// States of the specification.
const (
	stateFollower  = "FOLLOWER"
	stateCandidate = "CANDIDATE"
	stateLeader    = "LEADER"
)

// published is the specification's table: the event that each transition publishes; 0: none.
var published = map[string]history.Kind{
	stateFollower + " to " + stateCandidate: 0,
	stateCandidate + " to " + stateLeader:   history.LeadershipAcquired,
	stateCandidate + " to " + stateFollower: history.ElectionFailed,
	stateLeader + " to " + stateFollower:    history.LeadershipLost,
}

func (g *e6) event(e *history.Event) {
	g.endings.event(e)
	switch e.Kind {
	case history.StateChanged:
		g.changed(g.w.reporter, e)
	case history.LeadershipAcquired, history.LeadershipLost, history.ElectionFailed:
		g.publishes(g.w.reporter, e)
	case history.Leading:
		m := &g.w.reporter.member
		m.leads, m.under = e.Reason, e.Fence
		g.tells = true
	case history.Acquired, history.Lost, history.Released:
		g.believes(g.w.reporter, e)
	case history.Stopped:
		g.missing(g.w.reporter, e)
	case history.Phase:
		if e.Reason == "end" {
			g.agree()
		}
	}
}

func (g *e6) changed(i *instance, e *history.Event) {
	m := &i.member
	g.missing(i, e)
	g.key = g.w.subject
	g.exercise("")
	from := cmp.Or(m.state, stateFollower)
	_, m.state, _ = strings.Cut(e.Reason, " ")
	m.change, m.moved = from+" to "+m.state, e.T
	next, known := published[m.change]
	if m.next = next; !known {
		g.broke(g.key, "%s went from %s at %s: the state machine has no such transition", i.who(), m.change, clock(e.T))
	}
	if from == stateLeader && m.state == stateFollower {
		g.campaigns(i)
	}
}

// campaigns judges that a leader that lost its leadership campaigns again, unless it resigned. Other programs may behave
// differently.
func (g *e6) campaigns(i *instance) {
	if g.w.Foreign || i.node == nil {
		return
	}
	fell, within := g.w.now, g.w.electionInterval()+int64(FailoverAllowance)
	g.expect(wait{
		now: func() promise {
			return promise{from: fell, base: fell, by: fell + within, settle: within, only: i.node}
		},
		pending: func() bool { return i.member.moved == fell && !i.gone && i.leave == nil },
		missed: func(limit int64) {
			g.broke(g.key, "%s led until %s, and had not tried to lead again %d ms later", i.who(), clock(fell), ms(limit))
		},
		excused: func(*injection) {},
	})
}

// missing breaks E6 if the last transition has unpublished events.
func (g *e6) missing(i *instance, e *history.Event) {
	m := &i.member
	if m.next != 0 {
		g.broke(g.w.subject, "%s went %s at %s and published no %s before %s at %s", i.who(), m.change, clock(m.moved), m.next,
			e.Kind, clock(e.T))
	}
	m.next = 0
}

func (g *e6) publishes(i *instance, e *history.Event) {
	m := &i.member
	if m.next != e.Kind {
		g.broke(g.w.subject, "%s published %s at %s, which its last transition, %s at %s does not publish here", i.who(), e.Kind,
			clock(e.T), cmp.Or(m.change, "none"), clock(m.moved))
		return
	}
	m.next = 0
	if e.Kind == history.LeadershipAcquired {
		m.led = e.Fence
	}
}

// believes judges that exactly the holder of the lease is LEADER, a moment after e.
func (g *e6) believes(i *instance, e *history.Event) {
	s, m, at, kind := g.w.subject, &i.member, e.T, e.Kind
	g.w.at(g.w.host.stampedBy(at)+g.w.host.stall(at-eventAllowance, at), func() {
		t, leads, has := i.held[s.id], m.state == stateLeader, "does not hold"
		if t != nil {
			has = "holds"
		}
		switch {
		case t != nil && leads && m.led != t.fence:
			g.broke(s, "%s acquired fence %d at %s, but its LeadershipAcquired says %d", i.who(), t.fence, clock(t.since), m.led)
		case leads == (t != nil), m.change == "", i.gone, g.w.fleet.woke(i.node, at):
		default:
			g.broke(s, "%s %s the lease after %s at %s, but its state is %s", i.who(), has, kind, clock(at), cmp.Or(m.state, stateFollower))
		}
	})
}

// agree judges the end of the calm, if the calm was long enough for a quarantine and an election.
func (g *e6) agree() {
	// The calm must have time for an election interval to notice a loss of data, a quarantine, and an election. A replica may find
	// its master and attach itself, which ends an epoch, long after its fault was healed.
	quiet := max(g.w.calm, g.w.servers.epoch.since, g.w.servers.servedSince(nil))
	if g.w.calm == 0 || g.w.now-quiet-g.w.host.stall(quiet, g.w.now) < int64(g.w.TTL)*16/10 {
		g.untested = "the calm, without what the host stalled, was too short to ask who leads at its end"
		return
	}
	var members []*instance
	var leader *instance
	var leaders []string
	for _, id := range sortedKeys(g.w.fleet.instances) {
		i := g.w.fleet.instances[id]
		if !i.ready || i.gone {
			continue
		}
		members = append(members, i)
		if i.member.state == stateLeader {
			leader, leaders = i, append(leaders, id)
		}
	}
	if len(members) == 0 || g.key == nil {
		return
	}
	g.exercise("")
	if len(leaders) != 1 {
		g.broke(g.key, "at the end of the calm %d of %d instances say that they are LEADER (%s): it must be exactly one",
			len(leaders), len(members), strings.Join(leaders, ", "))
		return
	}
	// Other members learn of a new leader from a notice, which may be lost, or when they read the leader key, within an election
	// interval.
	if since := leader.member.moved; g.w.now-since-g.w.host.stall(since, g.w.now) < int64(g.w.TTL)*6/10 && g.w.allows(newLeaders) {
		g.note("the leader at the end of the calm is too new for all to know it")
		return
	}
	for _, i := range members {
		g.agrees(i, leader)
	}
	if len(g.breaks) == 0 {
		g.note("one leader at the end of the calm, and all agree")
	}
}

// agrees judges whether a member reports this leader and its fence. A member that does not report the leader disagrees.
func (g *e6) agrees(i, leader *instance) {
	m, led := &i.member, leader.member.led
	looks := max(i.since+g.w.startDelay(), g.w.servers.servedSince(i.node)) // a deposed master names another leader
	switch {
	case g.w.Foreign && !g.tells || g.w.now-looks < int64(g.w.TTL)*6/10: // or it has not read the leader key yet
	case m.leads != leader.id:
		g.broke(g.key, "at the end of the calm %s is leader, but %s takes %s for it", leader.who(), i.who(), cmp.Or(m.leads, "nobody"))
	case m.under != 0 && m.under < led: // Redis may be ahead of the leader, because of a late attempt of its own
		g.broke(g.key, "at the end of the calm %s leads under fence %d, and %s takes it to be %d", leader.who(), led, i.who(), m.under)
	}
}

func (g *e6) finish() {
	if g.key == nil {
		g.breaks, g.untested = nil, "the nodes do not tell of transitions"
	}
}
