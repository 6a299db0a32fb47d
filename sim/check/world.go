package check

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// world is the state that follows from the events so far: processes, sessions, terms, faults. All checkers share it.
type world struct {
	Params
	checkers []checker
	without  allowance // taken out by a test; 0: none

	now            int64
	next           int64  // time of the next event
	calm           int64  // start of the calm; 0: not yet
	phase          string // "", "start", "storm", "calm", "end"
	complete       bool
	ends           bool   // the run has ended, also if before its time
	fell           string // the first process that its own rules ended, and how; "": none
	stats          Stats
	nodes          map[string]*node
	instances      map[string]*instance
	sessions       sessions
	subject        *session  // session of the current event; the session named "" if the event names none
	reporter       *instance // instance that reports the current event; nil: none
	alive          int       // ready instances that have not left
	populatedSince int64     // when alive last became 1 after 0
	redundantSince int64     // when alive last became 2 after 1
	existing       int       // existing sessions that are not paused
	created        []string  // sessions in order of creation
	injections     []*injection
	passed         int // number of the first injections that reach no recent change any more
	servers        servers
	losses         []*injection // injections after which Redis returns as another one
	open           []*injection // injections that are not healed
	stalls         []span
	unplaced       []span // spans in which the exact times of Redis' events are unknown
	timers         []timer
	rest           rest
	epoch          epoch
	seen           int32 // number of events, the current one included
	watches        bool  // no verdict is asked for

	challenges challenges
}

func newWorld(p Params) *world {
	w := &world{
		Params: p, nodes: map[string]*node{}, instances: map[string]*instance{},
		sessions: sessions{byID: map[string]*session{}},
		servers:  servers{strays: map[*node]*injection{}, began: map[string]int64{}, beside: map[string]*epoch{}},
	}
	w.rest = rest{w: w, beats: map[string]int64{}, awaited: map[string]int64{}}
	w.challenges = challenges{w: w, tally: map[string]*Challenge{}}
	return w
}

func (w *world) node(name string) *node {
	n := w.nodes[name]
	if n == nil {
		n = &node{name: name}
		w.nodes[name] = n
	}
	return n
}

func (w *world) instance(id string) *instance {
	i := w.instances[id]
	if i == nil {
		i = &instance{id: id, held: map[string]*term{}, renewals: map[*session]*renewal{}}
		w.instances[id] = i
	}
	return i
}

func (w *world) session(id string) *session {
	s := w.sessions.byID[id]
	if s == nil {
		s = &session{id: id}
		w.sessions.all, w.sessions.byID[id] = append(w.sessions.all, s), s
	}
	return s
}

// take updates the world by the event, then calls the checkers.
func (w *world) take(e *history.Event) {
	w.elapse(e.T)
	w.now = e.T
	w.seen++
	w.stats.LastT = e.T
	w.find(e)
	if w.replicated() && e.Aside() {
		w.aside(e)
		return
	}
	if !w.watches {
		w.tabulate(e)
	}
	w.epochs(e)
	w.update(e)
	for _, c := range w.checkers {
		c.event(e)
	}
}

// find sets the subject and the reporter of the event. A fault names a session as its plan does, which may not be the session's ID.
func (w *world) find(e *history.Event) {
	w.subject, w.reporter = w.sessions.byID[e.Session], nil
	if w.subject == nil && e.Kind != history.FaultStart && e.Kind != history.FaultEnd {
		w.subject = w.session(e.Session)
	}
	if e.Kind.Said() {
		w.reporter = w.reporterOf(e)
	}
}

// reporterOf returns the instance that reports the event. If a second process uses an ID while the first lives, it gets an ID of its own,
// also in the event. Otherwise the two would count as one owner.
func (w *world) reporterOf(e *history.Event) *instance {
	i := w.instance(e.Instance)
	lives := i.process != nil && i.process.exits == i.exits
	if e.Node == "" || lives && i.process.name == e.Node {
		return i
	}
	name := e.Instance + "@" + e.Node
	if !lives && w.instances[name] == nil {
		i.process = w.node(e.Node)
		i.exits = i.process.exits
		return i
	}
	e.Instance = name
	return w.instance(name)
}

func (w *world) update(e *history.Event) {
	switch {
	case e.Kind.Said():
		w.nodeEvent(e)
	case e.Kind == history.Arrived:
		w.stats.Polls++
	case e.Kind == history.Rejected:
		w.stats.Rejected++
	case e.Kind >= history.RedisAcked && e.Kind <= history.Routed:
		w.servers.event(w, e)
	case e.Kind >= history.RedisGranted && e.Kind <= history.TapUp:
		w.servers.writes(w, e)
		w.observeHeartbeat(e)
		w.grants(e)
		w.rest.redis(e)
	default:
		w.harness(e)
	}
}

func (w *world) nodeEvent(e *history.Event) {
	inst := w.reporter
	if e.Node != "" && inst.node == nil {
		inst.node = w.node(e.Node)
		inst.node.current = inst
	}
	switch e.Kind {
	case history.Ready:
		w.join(inst, e.Reason == history.Asks)
		w.rest.ready(inst)
	case history.Stopped:
		inst.stopped = true
		w.leave(inst)
	case history.Acquired:
		w.stats.Acquires++
		w.acquired(inst, e)
	case history.Renewed:
		w.stats.Renewals++
		w.renewed(inst, e)
	case history.PollStart: // an instance that queries Redis before each use trusts its lease for that poll, for one poll timeout at most
		if t := w.term(e); inst.asks && t != nil {
			w.trust(t, e.T+int64(w.PollTimeout))
		}
	case history.PollEnd, history.PollCancelled:
		if inst.asks {
			w.cease(w.term(e))
		}
	case history.RenewFailed:
		if t := w.term(e); t != nil {
			t.doubt = true
			w.cease(t)
		}
	case history.Lost:
		w.stats.Losses++
		w.end(w.term(e), endLost)
	case history.Released:
		w.stats.Releases++
		w.end(w.term(e), endReleased)
	}
}

func (w *world) join(inst *instance, asks bool) {
	if inst.ready || inst.gone { // a later message must not change how the instance is judged
		return
	}
	inst.ready, inst.since, inst.asks = true, w.now, asks
	w.alive++
	switch w.alive {
	case 1:
		w.populatedSince = w.now
	case 2:
		w.redundantSince = w.now
	}
}

func (w *world) leave(inst *instance) {
	if inst.ready && !inst.gone {
		w.alive--
	}
	inst.gone = true
}

func (w *world) harness(e *history.Event) {
	switch e.Kind {
	case history.Phase:
		w.phase = e.Reason
		if w.phase == "calm" {
			w.calm = e.T
		}
		w.complete = w.complete || e.Reason == "end"
	case history.Spawned:
		n := w.node(e.Node)
		n.current = nil
		n.thawed(e.T)
	case history.Exited:
		w.exited(w.node(e.Node), e)
	case history.FaultStart:
		w.inject(e)
	case history.FaultEnd:
		w.heal(e)
	case history.SessionAdded:
		w.created = append(w.created, e.Session)
		w.appear(w.session(e.Session), true, false)
	case history.SessionRemoved:
		w.appear(w.session(e.Session), false, false)
	case history.SessionPaused, history.SessionResumed: // no effect after the removal of the session
		s := w.session(e.Session)
		w.appear(s, s.exists || !s.added, e.Kind == history.SessionPaused)
	case history.Stall:
		w.stalled(e.T, e.Until)
	case history.StreamLate:
		w.stalled(e.T, e.Until)
		w.unplaced = append(w.unplaced, span{e.T, e.Until})
	}
}

func (w *world) appear(s *session, exists, paused bool) {
	was := s.unpaused()
	s.exists, s.paused = exists, paused
	if s.unpaused() != was {
		w.existing++
		if was {
			w.existing -= 2
		}
		s.addedAt, s.added = w.now, true
		w.rest.change(w.settleSessions())
	}
}

func (w *world) exited(n *node, e *history.Event) {
	inst, killer := n.current, n.killer
	n.current, n.killer = nil, nil
	n.thawed(w.now)
	n.exits++
	if inst == nil {
		return
	}
	w.leave(inst)
	inst.killed, inst.killer = e.N < 0, killer
	clear(inst.renewals)
	if how, fell := strings.CutPrefix(e.Reason, history.Fell); fell && w.fell == "" {
		w.fell = fmt.Sprintf("%s fell at %s (%s)", inst.who(), clock(e.T), how)
	}
	for _, s := range w.leases(inst) {
		w.end(inst.held[s], endExited)
	}
	n.asked = nil
	w.rest.exited(inst)
}

func (w *world) finish(err error) {
	w.stats.Events = int64(w.seen)
	w.ends = w.complete && err == nil
	if err != nil || w.Interrupted || w.fell != "" {
		w.complete = false
	}
	for _, inj := range w.open {
		w.challenges.healed(inj)
	}
	for _, c := range w.checkers {
		c.finish()
	}
}

// clock formats a time of the history, which counts from the run's start.
func clock(t int64) string { return time.Duration(t).Round(10 * time.Microsecond).String() }

// ms rounds up to milliseconds, so that the smallest excess over 0 shows.
func ms(ns int64) int64 {
	if ns <= 0 {
		return 0
	}
	return (ns + int64(time.Millisecond) - 1) / int64(time.Millisecond)
}
