package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// world is the state that follows from the events so far. It consists of parts, and each part knows only its own facts and the
// parts that it refers to. The world passes each event to the parts, and then to the checkers.
type world struct {
	run
	host       host
	fleet      fleet
	faults     faults
	servers    servers
	deadlines  deadlines
	rest       rest
	challenges challenges
	progress   progress
	checkers   []checker
	watches    bool // no verdict is asked for

	// What the current event is about.
	subject  *session  // the session named "" if the event names none
	reporter *instance // instance that reports it; nil: none
}

// checker judges one guarantee. The world updates itself first, then calls the hooks in the order of the history. hooks has empty ones.
type checker interface {
	event(e *history.Event) // each event; e is valid until the hook returns
	began(t *term)
	ended(t *term, how ending)
	injected(inj *injection)
	healed(inj *injection)
	finish()
	verdict() Verdict
	aside(e *history.Event)     // an event of a server other than the master that the sentinels know
	attach(w *world, v Verdict) // called first, with the guarantee's constants
}

// progress is how far the run came, and how often things happened in it.
type progress struct {
	stats    Stats
	complete bool
	ends     bool   // the run has ended, also if before its time
	fell     string // the first process that its own rules ended, and how; "": none
}

// missing tells why the history is incomplete.
func (p *progress) missing(interrupted bool) string {
	switch {
	case p.fell != "":
		return p.fell
	case interrupted:
		return "the run was interrupted"
	}
	return "the history has no end"
}

func newWorld(p Params) *world {
	w := &world{run: run{Params: p}}
	r := &w.run
	w.host = host{run: r}
	w.fleet = fleet{run: r, nodes: map[string]*node{}, instances: map[string]*instance{}, byID: map[string]*session{}}
	w.faults = faults{run: r}
	w.servers = servers{
		run: r, host: &w.host, fleet: &w.fleet, faults: &w.faults, begin: w.begin, over: w.over,
		strays: map[*node]*injection{}, began: map[string]int64{}, beside: map[string]*epoch{},
	}
	w.servers.epoch.of = &w.servers
	w.deadlines = deadlines{run: r, host: &w.host, fleet: &w.fleet, faults: &w.faults}
	w.rest = rest{run: r, host: &w.host, fleet: &w.fleet, faults: &w.faults, beats: map[string]int64{}, awaited: map[string]int64{}}
	w.challenges = challenges{run: r, fleet: &w.fleet, tally: map[string]*Challenge{}}
	return w
}

// take updates the world by the event, then calls the checkers.
func (w *world) take(e *history.Event) {
	w.elapse(e.T)
	w.now = e.T
	w.seen++
	w.progress.stats.LastT = e.T
	w.find(e)
	if w.replicated() && e.Aside() {
		w.aside(e)
		return
	}
	if !w.watches {
		w.fleet.tabulate(w.subject, e)
	}
	w.followEpoch(e)
	w.update(e)
	for _, c := range w.checkers {
		c.event(e)
	}
}

// find sets the subject and the reporter of the event. A fault names a session as its plan does, which may not be the session's ID.
func (w *world) find(e *history.Event) {
	w.subject, w.reporter = w.fleet.byID[e.Session], nil
	if w.subject == nil && e.Kind != history.FaultStart && e.Kind != history.FaultEnd {
		w.subject = w.fleet.session(e.Session)
	}
	if e.Kind.Said() {
		w.reporter = w.fleet.reporterOf(e)
	}
}

func (w *world) update(e *history.Event) {
	switch {
	case e.Kind.Said():
		w.nodeEvent(e)
	case e.Kind == history.Arrived:
		w.progress.stats.Polls++
	case e.Kind == history.Rejected:
		w.progress.stats.Rejected++
	case e.Kind >= history.RedisAcked && e.Kind <= history.Routed:
		w.servers.event(e)
	case e.Kind >= history.RedisGranted && e.Kind <= history.TapUp:
		w.servers.writes(e)
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
		inst.node = w.fleet.node(e.Node)
		inst.node.current = inst
	}
	switch e.Kind {
	case history.Ready:
		w.fleet.join(inst, e.Reason == history.Asks)
		w.rest.ready(inst)
	case history.Stopped:
		inst.stopped = true
		w.fleet.leave(inst)
	case history.Acquired:
		w.progress.stats.Acquires++
		w.acquired(inst, e)
	case history.Renewed:
		w.progress.stats.Renewals++
		w.renewed(inst, e)
	case history.PollStart: // an instance that queries Redis before each use trusts its lease for that poll, for one poll timeout at most
		if t := w.term(e); inst.asks && t != nil {
			w.fleet.trust(t, e.T+int64(w.PollTimeout))
		}
	case history.PollEnd, history.PollCancelled:
		if inst.asks {
			w.fleet.cease(w.term(e))
		}
	case history.RenewFailed:
		if t := w.term(e); t != nil {
			t.doubt = true
			w.fleet.cease(t)
		}
	case history.Lost:
		w.progress.stats.Losses++
		w.end(w.term(e), endLost)
	case history.Released:
		w.progress.stats.Releases++
		w.end(w.term(e), endReleased)
	}
}

func (w *world) harness(e *history.Event) {
	switch e.Kind {
	case history.Phase:
		w.phase = e.Reason
		switch w.phase {
		case "calm":
			w.calm = e.T
		case "end":
			w.run.end = e.T
		}
		w.progress.complete = w.progress.complete || e.Reason == "end"
	case history.Spawned:
		n := w.fleet.node(e.Node)
		n.current = nil
		n.thawed(e.T)
	case history.Exited:
		w.exited(w.fleet.node(e.Node), e)
	case history.FaultStart:
		w.inject(e)
	case history.FaultEnd:
		w.heal(e)
	case history.SessionAdded:
		w.fleet.created = append(w.fleet.created, e.Session)
		w.appear(w.fleet.session(e.Session), true, false)
	case history.SessionRemoved:
		w.appear(w.fleet.session(e.Session), false, false)
	case history.SessionPaused, history.SessionResumed: // no effect after the removal of the session
		s := w.fleet.session(e.Session)
		w.appear(s, s.exists || !s.added, e.Kind == history.SessionPaused)
	case history.Stall:
		w.host.addStall(e.T, e.Until)
	case history.StreamLate:
		w.host.addLate(e.T, e.Until)
	}
}

func (w *world) appear(s *session, exists, paused bool) {
	was := s.unpaused()
	s.exists, s.paused = exists, paused
	if s.unpaused() != was {
		w.fleet.existing++
		if was {
			w.fleet.existing -= 2
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
	w.fleet.leave(inst)
	inst.killed, inst.killer = e.N < 0, killer
	clear(inst.renewals)
	if how, fell := strings.CutPrefix(e.Reason, history.Fell); fell && w.progress.fell == "" {
		w.progress.fell = fmt.Sprintf("%s fell at %s (%s)", inst.who(), clock(e.T), how)
	}
	for _, s := range inst.leases() {
		w.end(inst.held[s], endExited)
	}
	n.asked = nil
	w.rest.exited(inst)
}

func (w *world) finish(err error) {
	w.progress.stats.Events, w.progress.stats.Stalled = int64(w.seen), w.host.stalled
	w.progress.ends = w.progress.complete && err == nil
	if err != nil || w.Interrupted || w.progress.fell != "" {
		w.progress.complete = false
	}
	for _, inj := range w.faults.lasting {
		w.challenges.healed(inj)
	}
	for _, c := range w.checkers {
		c.finish()
	}
}

// aside handles an event of a server other than the master that the sentinels know.
func (w *world) aside(e *history.Event) {
	w.servers.epochOf(e.Node).follow(e)
	for _, c := range w.checkers {
		c.aside(e)
	}
}

// followEpoch follows the epoch. A key that is written before the first instance starts declares that nothing was lost.
func (w *world) followEpoch(e *history.Event) {
	if e.Kind == history.RedisEpoch && e.N == 0 {
		w.faults.lossDetected()
	}
	w.servers.epoch.follow(e)
}

// observeHeartbeat notes the first heartbeat after a loss, because a frozen or cut-off process does not see the loss. If the history has
// epochs, these show the detection; with replicas it always has them.
func (w *world) observeHeartbeat(e *history.Event) {
	if e.Kind == history.RedisBeat && e.Reason != snapshotReason && w.servers.epoch.value == "" && !w.replicated() {
		w.faults.lossDetected()
	}
}

// term returns the open term that a node's event is about; nil for a late event, whose fence differs.
func (w *world) term(e *history.Event) *term {
	t := w.subject.heldBy(w.reporter)
	if t == nil || (e.Fence != 0 && t.fence != 0 && e.Fence != t.fence) {
		return nil
	}
	return t
}

func (w *world) acquired(inst *instance, e *history.Event) {
	s := w.subject
	w.end(s.heldBy(inst), endReplaced)
	if !s.added { // the history does not report its sessions
		w.appear(s, true, false)
	}
	t := &term{session: s, inst: inst, fence: e.Fence, since: e.T, until: e.Until, seen: w.seen, confirmedAt: e.T}
	inst.tells = inst.tells || t.fence != 0
	t.challenged = w.challenges.taken(t)
	for _, u := range s.terms {
		switch late := t.fence != 0 && t.fence < u.fence; { // t was granted before u, but reported after it
		case u.inst == inst:
		case late:
			t.passed = true
		default:
			u.passed = true
		}
	}
	w.fleet.opens(t)
	for _, c := range w.checkers {
		c.began(t)
	}
	s.last = t
	if !inst.asks {
		w.fleet.trust(t, t.until)
	}
}

func (w *world) renewed(inst *instance, e *history.Event) {
	t := w.term(e)
	if t == nil { // no acquisition was reported, but its belief counts
		s := w.subject
		w.end(s.heldBy(inst), endReplaced)
		t = &term{session: s, inst: inst, fence: e.Fence, since: e.T, seen: w.seen, unsaid: true}
		w.fleet.opens(t)
	}
	switch {
	case inst.asks:
		return
	case e.Until != 0 && e.Until <= w.now:
		return // the answer came after the end of its own window
	case t.believes(w.now):
		t.until = max(t.until, e.Until)
	default:
		t.until = e.Until
	}
	t.doubt, t.confirmedAt = false, w.now
	t.injections = slices.DeleteFunc(t.injections, func(inj *injection) bool { return !inj.lasts() }) // it has survived them
	w.fleet.trust(t, t.until)
}

func (w *world) end(t *term, how ending) {
	if t == nil || t.over {
		return
	}
	w.fleet.cease(t)
	t.over, t.how = true, how
	delete(t.inst.held, t.session.id)
	s := t.session
	s.terms = slices.DeleteFunc(s.terms, func(u *term) bool { return u == t })
	for _, c := range w.checkers {
		c.ended(t, how)
	}
}

func (w *world) grants(e *history.Event) {
	s := w.subject
	switch e.Kind {
	case history.RedisGranted:
		w.freed(s)
		k := &grant{holder: e.Instance, since: e.T, until: e.Until, seen: w.seen, snapshot: e.Reason == snapshotReason, gone: never}
		if i := w.fleet.instances[k.holder]; i != nil && i.node != nil {
			k.owner = k.holder
		}
		if s.grants = append(s.grants, k); k.holder != "" {
			s.granted = k
		}
	case history.RedisExtended:
		if s.granted != nil && s.granted.until != 0 {
			s.granted.until = max(s.granted.until, e.Until)
		}
	case history.RedisDeleted:
		w.freed(s)
	case history.RedisFlushed, history.TapDown:
		unknown := &grant{since: e.T, seen: w.seen}
		for _, s := range w.fleet.sessions {
			s.left = w.fleet.leftBehind(s) // the key may still exist; the next snapshot shows it
			s.grants = append(s.grants, unknown)
			s.gives(w.now)
		}
	}
}

func (w *world) freed(s *session) {
	if k := s.granted; k != nil && w.fleet.gone(k.holder) {
		s.left = span{w.fleet.leftBehind(s).from, w.now}
		w.rest.change(w.Settle()) // the first instance that acquires it may hand it over
	}
	s.gives(w.now)
}

func (w *world) inject(e *history.Event) {
	inj := injected(w.Plan.As(int(e.N), fault.Kind(e.Reason)), e.T)
	inj.session = e.Session
	if e.Node != "" {
		inj.node = w.fleet.node(e.Node)
	}
	if n, ok := fault.SessionIndex(inj.session); ok && n <= len(w.fleet.created) && w.fleet.byID[inj.session] == nil {
		inj.session = w.fleet.created[n-1] // the fault has the plan's name of the session
	}
	w.challenges.injected(inj)
	if w.servers.hits(inj) {
		inj.did, inj.Does = didServers, 0
		w.servers.cause = inj
	}
	w.begin(inj)
}

func (w *world) begin(inj *injection) {
	w.faults.add(inj)
	if inj.did == didServers {
		return
	}
	if inj.forgets() {
		w.servers.lost(inj)
	}
	w.fleet.hit(inj)
	w.rest.injected(inj)
	for _, c := range w.checkers {
		c.injected(inj)
	}
}

func (w *world) heal(e *history.Event) {
	for _, inj := range slices.Clone(w.faults.lasting) {
		if int64(inj.N) == e.N && (inj.did == didPlan || inj.did == didServers) {
			w.over(inj)
		}
	}
}

func (w *world) over(inj *injection) {
	w.faults.end(inj)
	w.challenges.healed(inj)
	if inj.did == didServers {
		return
	}
	if inj.Has(fault.Silences|fault.Denies) && !w.faults.forgets(inj) && w.allows(missedFailovers) && w.faults.missedFailover(inj) {
		inj.blocksAcquire = true
	}
	if inj.Has(fault.Freezes) && inj.node != nil && !w.faults.under(inj.node, fault.Freezes) {
		inj.node.thawed(w.now)
	}
	w.rest.healed(inj)
	for _, c := range w.checkers {
		c.healed(inj)
	}
}
