package check

import (
	"container/heap"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// world is what the history has shown so far: processes, sessions, terms, faults. The checkers share it. Everything in it
// is derived from events, in order.
type world struct {
	Params
	checkers []checker

	now       int64
	phase     string // "", "start", "storm", "calm", "end"
	complete  bool
	stats     Stats
	nodes     map[string]*node
	instances map[string]*instance
	sessions  map[string]*session
	alive     int      // instances that take part
	peopled   int64    // when the first of them came, after there had been none
	coupled   int64    // when the second of them came, after there had been fewer
	existing  int      // sessions that exist and are not paused
	created   []string // sessions in the order of their creation
	strikes   []*strike
	open      map[int64]*strike // by index in the plan, not yet healed
	stalls    []span
	timers    timers
	seq       int64
	rest      rest
	recent    ring // of events that concern everybody
	followers []*follower
}

// node is a slot: one process after the other.
type node struct {
	name     string
	current  *instance
	pid      int64
	frozen   bool
	frozenAt int64   // beginning of the last freeze; meaningful if ever
	thawedAt int64   // end of the last freeze; meaningful if ever
	ever     bool    // it was frozen at least once
	asked    *strike // the clean stop that is under way
	killer   *strike // the crash that was announced and not yet seen as an exit
}

// instance is one process, by the name it gives itself.
type instance struct {
	id     string
	node   *node // nil until a word of its own was heard
	ready  bool
	gone   bool // stopped or exited
	killed bool
	held   map[string]*term // by session: open terms
}

// session is one polling target.
type session struct {
	id      string
	exists  bool
	paused  bool
	addedAt int64 // when it came or was resumed
	added   bool  // SessionAdded was seen, so that addedAt means something
	terms   []*term
	last    *term   // the term that began last, open or not
	recent  ring    // of what befell its lease
	polls   ring    // of its polls
	deletes []int64 // times at which the plan deleted its key
}

// unpaused reports whether somebody should be polling it.
func (s *session) unpaused() bool { return s.exists && !s.paused }

// owner returns the term that owns the session now, also if its instance doubts it; nil: there is none.
func (s *session) owner(now int64) *term {
	for i := len(s.terms) - 1; i >= 0; i-- {
		if t := s.terms[i]; !t.passed && (t.until == 0 || t.until > now) {
			return t
		}
	}
	return nil
}

// term is one unbroken ownership in its instance's own eyes.
type term struct {
	session  *session
	inst     *instance
	fence    int64
	since    int64
	until    int64 // end of the trust window; 0: the node gives none
	believes bool  // the instance trusts it now
	from     int64 // since when, if it believes
	to       int64 // when it ceased to, if it does not
	doubt    bool  // a renewal failed and none has succeeded since
	over     bool
	passed   bool  // another instance has acquired the lease since
	armed    int64 // when the timer that watches its until is due; 0: there is none
}

// ending says how a term came to its end.
type ending uint8

const (
	endReplaced ending = iota // by a new term of the same instance
	endLost
	endReleased
	endExited
)

func newWorld(p Params) *world {
	w := &world{
		Params: p, nodes: map[string]*node{}, instances: map[string]*instance{}, sessions: map[string]*session{},
		open: map[int64]*strike{}, recent: newRing(ringLen),
	}
	w.rest.init(w)
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
		i = &instance{id: id, held: map[string]*term{}}
		w.instances[id] = i
	}
	return i
}

func (w *world) session(id string) *session {
	s := w.sessions[id]
	if s == nil {
		s = &session{id: id, recent: newRing(ringLen), polls: newRing(pollsLen)}
		w.sessions[id] = s
	}
	return s
}

// take brings the world up to the event and tells the checkers.
func (w *world) take(e *history.Event) {
	w.elapse(e.T)
	w.now = e.T
	w.stats.Events++
	w.stats.LastT = e.T
	w.keep(e)
	w.update(e)
	for _, c := range w.checkers {
		c.event(e)
	}
}

func (w *world) update(e *history.Event) {
	switch {
	case e.Kind >= history.Ready && e.Kind <= history.Stopped:
		w.word(e)
	case e.Kind == history.Arrived:
		w.stats.Polls++
	case e.Kind == history.Rejected:
		w.stats.Rejected++
	case e.Kind >= history.RedisGranted && e.Kind <= history.TapUp:
		w.heard(e)
		w.rest.redis(e)
	default:
		w.harness(e)
	}
}

// word is a node's own.
func (w *world) word(e *history.Event) {
	inst := w.instance(e.Instance)
	if e.Node != "" && inst.node == nil {
		inst.node = w.node(e.Node)
		inst.node.current = inst
	}
	if e.Kind == history.Paused {
		w.paused(inst.node)
		return
	}
	w.speaks(inst.node)
	switch e.Kind {
	case history.Ready:
		w.join(inst)
		w.rest.ready(inst)
	case history.Stopped:
		w.leave(inst)
	case history.Acquired:
		w.stats.Acquires++
		w.acquired(inst, e)
	case history.Renewed:
		w.stats.Renewals++
		w.renewed(inst, e)
	case history.RenewFailed:
		if t := inst.term(e); t != nil {
			t.doubt = true
			w.cease(t, e.T)
		}
	case history.Lost:
		w.stats.Losses++
		w.end(inst.term(e), endLost)
	case history.Released:
		w.stats.Releases++
		w.end(inst.term(e), endReleased)
	}
}

// term returns the open term that a word is about: of that session, and with its fence where both give one. A late word
// about an older term is about none.
func (i *instance) term(e *history.Event) *term {
	t := i.held[e.Session]
	if t == nil || (e.Fence != 0 && t.fence != 0 && e.Fence != t.fence) {
		return nil
	}
	return t
}

func (w *world) acquired(inst *instance, e *history.Event) {
	s := w.session(e.Session)
	w.end(inst.held[e.Session], endReplaced)
	if !s.added { // a history that does not tell of its sessions
		w.appear(s, true, false)
	}
	t := &term{session: s, inst: inst, fence: e.Fence, since: e.T, until: e.Until}
	for _, u := range s.terms {
		u.passed = u.passed || u.inst != inst
	}
	s.terms = append(s.terms, t)
	inst.held[s.id] = t
	for _, c := range w.checkers {
		c.began(t)
	}
	s.last = t
	w.rest.moved()
	w.trust(t)
}

func (w *world) renewed(inst *instance, e *history.Event) {
	t := inst.term(e)
	if t == nil { // it renews what it never said it had: it believes, and that is what counts
		s := w.session(e.Session)
		w.end(inst.held[e.Session], endReplaced)
		t = &term{session: s, inst: inst, fence: e.Fence, since: e.T}
		s.terms = append(s.terms, t)
		inst.held[s.id] = t
	}
	switch {
	case e.Until != 0 && e.Until <= w.now:
		return // an answer after the window that it gives is worth nothing
	case t.believes:
		t.until = max(t.until, e.Until)
	default:
		t.until = e.Until
	}
	t.doubt = false
	w.trust(t)
}

// trust lets the instance believe in the term from now on, until its window closes.
func (w *world) trust(t *term) {
	if t.until != 0 && t.until <= w.now {
		return // an answer after the window is worth nothing
	}
	if !t.believes {
		t.believes, t.from = true, w.now
		for _, c := range w.checkers {
			c.belief(t, true)
		}
	}
	w.watch(t)
}

// watch closes the window when its time has come. One timer a term follows the window as it moves on; only a window that is
// said to close earlier than before needs another.
func (w *world) watch(t *term) {
	due := t.until
	if due == 0 || (t.armed != 0 && t.armed <= due) {
		return
	}
	t.armed = due
	w.at(due, func() {
		if t.armed != due {
			return
		}
		t.armed = 0
		switch {
		case !t.believes:
		case t.until > due:
			w.watch(t)
		default:
			w.cease(t, t.until)
		}
	})
}

func (w *world) cease(t *term, at int64) {
	if !t.believes {
		return
	}
	t.believes, t.to = false, at
	for _, c := range w.checkers {
		c.belief(t, false)
	}
}

func (w *world) end(t *term, how ending) {
	if t == nil || t.over {
		return
	}
	w.cease(t, w.now)
	t.over = true
	delete(t.inst.held, t.session.id)
	s := t.session
	for i, u := range s.terms {
		if u == t {
			s.terms = append(s.terms[:i], s.terms[i+1:]...)
			break
		}
	}
	for _, c := range w.checkers {
		c.ended(t, how)
	}
	if how == endLost || how == endReleased {
		w.rest.moved()
	}
}

func (w *world) join(inst *instance) {
	if inst.ready || inst.gone {
		return
	}
	inst.ready = true
	if w.alive == 0 {
		w.peopled = w.now
	}
	w.alive++
	if w.alive == 2 {
		w.coupled = w.now
	}
}

func (w *world) leave(inst *instance) {
	if inst.gone {
		return
	}
	inst.gone = true
	if inst.ready {
		w.alive--
	}
}

// deserted reports whether, at any moment since then, there was no instance that takes part.
func (w *world) deserted(since int64) bool { return w.alive == 0 || w.peopled > since }

// harness is an event of the harness itself.
func (w *world) harness(e *history.Event) {
	switch e.Kind {
	case history.Phase:
		w.phase = e.Reason
		w.complete = w.complete || e.Reason == "end"
		w.rest.phase()
	case history.Spawned:
		n := w.node(e.Node)
		n.pid, n.current, n.frozen = e.N, nil, false
	case history.Exited:
		w.exited(w.node(e.Node), e)
	case history.FaultStart:
		w.strike(e)
	case history.FaultEnd:
		w.heal(e)
	case history.SessionAdded:
		w.created = append(w.created, e.Session)
		w.appear(w.session(e.Session), true, false)
	case history.SessionRemoved:
		w.appear(w.session(e.Session), false, false)
	case history.SessionPaused, history.SessionResumed: // of a session that was removed meanwhile they change nothing
		s := w.session(e.Session)
		w.appear(s, s.exists || !s.added, e.Kind == history.SessionPaused)
	case history.Stall:
		w.stalled(e.T, e.Until)
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
		w.rest.sessions()
	}
}

func (w *world) exited(n *node, e *history.Event) {
	inst := n.current
	n.current, n.frozen = nil, false
	if inst == nil {
		n.killer = nil
		return
	}
	w.leave(inst)
	inst.killed = e.N < 0
	for _, s := range inst.sorted() {
		w.end(inst.held[s], endExited)
	}
	n.killer, n.asked = nil, nil
	w.rest.exited(inst)
}

// finish closes the books: the checkers see the end of the history.
func (w *world) finish(err error) {
	if err != nil || w.Interrupted {
		w.complete = false
	}
	for _, c := range w.checkers {
		c.finish()
	}
}

// clock writes a time of the history: seconds since the run's start.
func clock(t int64) string { return time.Duration(t).Round(10 * time.Microsecond).String() }

// ms rounds up to milliseconds, so that the smallest excess over 0 is seen.
func ms(ns int64) int64 {
	if ns <= 0 {
		return 0
	}
	return (ns + int64(time.Millisecond) - 1) / int64(time.Millisecond)
}

// timers run what is due, in order of time and, at one time, of asking.
type timers []timer

type timer struct {
	at, seq int64
	run     func()
}

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	return t[i].at < t[j].at || (t[i].at == t[j].at && t[i].seq < t[j].seq)
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	old := *t
	x := old[len(old)-1]
	old[len(old)-1] = timer{}
	*t = old[:len(old)-1]
	return x
}

// at runs f once the history is past t: after every event of that very moment, so that what happens at a limit meets it.
func (w *world) at(t int64, f func()) {
	w.seq++
	heap.Push(&w.timers, timer{at: t, seq: w.seq, run: f})
}

// elapse runs the timers that are due before t.
func (w *world) elapse(t int64) {
	for len(w.timers) > 0 && w.timers[0].at < t {
		x := heap.Pop(&w.timers).(timer)
		w.now = max(w.now, x.at)
		x.run()
	}
}
