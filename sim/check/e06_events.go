package check

import (
	"fmt"
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
)

// e6 judges that each transition publishes exactly the events of the specification's table, once and in order. After the calm there must
// be exactly one leader, and all members must agree who it is.
type e6 struct {
	hooks
	members map[*instance]*member
	moves   int
	tells   bool // members report whom they take for the leader
	quiet   int  // runs whose calm was long enough to judge

	endings endings
}

// member is the state of one instance, by its own messages.
type member struct {
	state  string
	next   []history.Kind // events of its last transition that are not published yet
	fence  int64
	moved  int64
	change string
	led    int64
	leads  string // ID of the leader, as it reports
	under  int64  // fence of that leader, as it reports; 0: unknown
	spoke  bool   // it reports transitions
}

// States of the specification.
const (
	stateFollower  = "FOLLOWER"
	stateCandidate = "CANDIDATE"
	stateLeader    = "LEADER"
)

// published is the specification's table, row by row. A transition that matches two rows publishes each event once.
var published = map[string][]history.Kind{
	stateFollower + " " + stateCandidate: nil,
	stateCandidate + " " + stateLeader:   {history.LeadershipAcquired},
	stateCandidate + " " + stateFollower: {history.ElectionFailed},
	stateLeader + " " + stateFollower:    {history.LeadershipLost},
}

func (g *e6) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.members = map[*instance]*member{}
}

func (g *e6) member(i *instance) *member {
	m := g.members[i]
	if m == nil {
		m = &member{state: stateFollower}
		g.members[i] = m
	}
	return m
}

func (g *e6) event(e *history.Event) {
	g.endings.event(&g.hooks, e)
	switch e.Kind {
	case history.StateChanged:
		g.changed(g.w.instance(e.Instance), e)
	case history.LeadershipAcquired, history.LeadershipLost, history.ElectionFailed:
		g.publishes(g.w.instance(e.Instance), e)
	case history.Leading:
		m := g.member(g.w.instance(e.Instance))
		m.leads, m.under = e.Reason, e.Fence
		g.tells = true
	case history.Acquired, history.Lost, history.Released:
		g.believes(g.w.instance(e.Instance), e)
	case history.Stopped:
		g.missing(g.w.instance(e.Instance), e)
	case history.Phase:
		if e.Reason == "end" {
			g.agree()
		}
	}
}

func (g *e6) changed(i *instance, e *history.Event) {
	g.missing(i, e)
	m := g.member(i)
	m.spoke = true
	g.moves++
	g.exercised++
	from, to, _ := strings.Cut(e.Reason, " ")
	events, known := published[e.Reason]
	s := g.w.session(e.Session)
	switch {
	case from != m.state:
		g.broke(s, "%s went from %s to %s at %s, but it was %s", i.who(), from, to, clock(e.T), m.state)
	case !known:
		g.broke(s, "%s went from %s to %s at %s: the state machine has no such transition", i.who(), from, to, clock(e.T))
	}
	m.state, m.next, m.fence, m.moved, m.change = to, events, e.Fence, e.T, e.Reason
	if from == stateLeader && to == stateFollower {
		g.campaigns(i, m, s)
	}
}

// campaigns judges that a fallen leader campaigns again, whoever leads by then, unless it resigns. Other programs may behave differently.
func (g *e6) campaigns(i *instance, m *member, s *session) {
	if g.w.Foreign || i.node == nil {
		return
	}
	fell, within := g.w.now, g.w.electionInterval()+int64(failoverAllowance)
	g.expect(wait{
		now: func() promise {
			return promise{from: fell, base: fell, by: fell + within, settle: within, only: i.node}
		},
		pending: func() bool { return m.moved == fell && !i.gone && i.leave == nil },
		missed: func(limit int64) {
			g.broke(s, "%s led until %s, and had not tried to lead again %d ms later", i.who(), clock(fell), ms(limit))
		},
		excused: func(*injection) {},
	})
}

// missing breaks E6 if the last transition has unpublished events.
func (g *e6) missing(i *instance, e *history.Event) {
	m := g.member(i)
	if len(m.next) > 0 {
		g.broke(g.w.session(e.Session), "%s went %s at %s and published no %s before %s at %s", i.who(), m.path(), clock(m.moved),
			m.next[0], e.Kind, clock(e.T))
	}
	m.next = nil
}

func (m *member) path() string { return strings.Replace(m.change, " ", " to ", 1) }

func (g *e6) publishes(i *instance, e *history.Event) {
	m := g.member(i)
	s := g.w.session(e.Session)
	if len(m.next) == 0 || m.next[0] != e.Kind {
		last := "no transition"
		if m.spoke {
			last = "its last transition, " + m.path() + " at " + clock(m.moved)
		}
		g.broke(s, "%s published %s at %s, which %s does not publish here", i.who(), e.Kind, clock(e.T), last)
		return
	}
	m.next = m.next[1:]
	if e.Kind == history.LeadershipAcquired {
		m.led = e.Fence
	}
	if e.Kind != history.ElectionFailed && m.fence != 0 && e.Fence != m.fence {
		g.broke(s, "%s published %s at %s with fence %d, but its transition at %s has %d", i.who(), e.Kind, clock(e.T), e.Fence,
			clock(m.moved), m.fence)
	}
}

// believes judges that exactly the holder of the lease is LEADER, a moment after e.
func (g *e6) believes(i *instance, e *history.Event) {
	s, at, kind := g.w.session(e.Session), e.T, e.Kind
	g.w.at(at+int64(stampAllowance)+g.w.stall(at-eventAllowance, at), func() {
		m := g.member(i)
		t := i.held[s.id]
		holds := t != nil
		if holds && m.state == stateLeader && m.led != t.fence {
			g.broke(s, "%s acquired fence %d at %s, but its LeadershipAcquired says %d", i.who(), t.fence, clock(t.since), m.led)
		}
		if !m.spoke || i.gone || i.node.frozenWithin(at-thawGrace) || holds == (m.state == stateLeader) {
			return
		}
		has := "does not hold"
		if holds {
			has = "holds"
		}
		g.broke(s, "%s %s the lease after %s at %s, but its state is %s", i.who(), has, kind, clock(at), m.state)
	})
}

func (g *e6) aside(e *history.Event) { g.endings.gap = e.T }

func (g *e6) ended(t *term, how ending) {
	g.endings.ended(&g.hooks, t, how)
}

// agree judges the end of the calm, if the calm was long enough for a quarantine and an election.
func (g *e6) agree() {
	// This is an election interval to notice a loss of data, a quarantine, and an election. A replica may attach itself, which ends an
	// epoch, and find its master long after its fault was healed.
	quiet := max(g.w.calm, g.w.epoch.since, g.w.servers.servedSince(g.w, nil))
	if g.w.calm == 0 || g.w.now-quiet-g.w.stall(quiet, g.w.now) < int64(g.w.TTL)*16/10 {
		g.untested = "the calm, without what the host stalled, was too short to ask who leads at its end"
		return
	}
	var leaders []string
	asked := 0
	for _, id := range sortedKeys(g.w.instances) {
		i := g.w.instances[id]
		if !i.ready || i.gone {
			continue
		}
		asked++
		if m := g.members[i]; m != nil && m.state == stateLeader {
			leaders = append(leaders, id)
		}
	}
	if asked == 0 || g.moves == 0 {
		return
	}
	g.exercised++
	if len(leaders) != 1 {
		g.broke(g.only(), "at the end of the calm %d of %d instances say that they are LEADER (%s): it must be exactly one",
			len(leaders), asked, strings.Join(leaders, ", "))
		return
	}
	// Others hear of it by a notice that may be lost, or read the leader key within an election interval.
	since := g.members[g.w.instances[leaders[0]]].moved
	if ttl := int64(g.w.TTL); g.w.now-since-g.w.stall(since, g.w.now) < ttl/2+ttl/10 {
		g.note("the leader at the end of the calm is too new for all to know it")
		return
	}
	g.agreed(g.w.instances[leaders[0]])
	g.quiet++
}

// agreed judges whether all members report this leader and its fence. A member that does not report the leader disagrees.
func (g *e6) agreed(leader *instance) {
	fence := g.members[leader].led
	for _, id := range sortedKeys(g.w.instances) {
		i := g.w.instances[id]
		looks := max(i.since+g.w.startDelay(), g.w.servers.servedSince(g.w, i.node)) // a deposed master names another leader
		switch m := g.member(i); {
		case !g.tells || !i.ready || i.gone || g.w.now-looks < int64(g.w.TTL)*6/10: // or it has not read the leader key yet
		case m.leads == "":
			g.broke(g.only(), "at the end of the calm %s is leader, and %s does not know who is", leader.who(), i.who())
		case m.leads != leader.id:
			g.broke(g.only(), "at the end of the calm %s is leader, but %s takes %s for it", leader.who(), i.who(), m.leads)
		case m.under != 0 && m.under < fence: // Redis may be ahead of the leader, because of a late attempt of its own
			g.broke(g.only(), "at the end of the calm %s leads under fence %d, and %s takes it to be %d", leader.who(), fence, i.who(), m.under)
		}
	}
}

func (g *e6) only() *session {
	if len(g.w.created) == 0 {
		return nil
	}
	return g.w.session(g.w.created[0])
}

func (g *e6) verdict() Verdict {
	if g.moves == 0 {
		g.breaks, g.untested = 0, "the nodes do not tell of transitions"
	}
	v := g.hooks.verdict()
	v.Value = int64(g.breaks)
	if g.moves > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d transitions with their events", g.moves))
	}
	if g.quiet > 0 && g.breaks == 0 {
		v.Detail = join(v.Detail, "one leader at the end of the calm, and all agree")
	}
	return v
}
