package virtual

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// node is a slot: a machine with its clocks and link, and its process, if one runs.
type node struct {
	slot  int // from 1
	name  string
	clock clock
	link  link

	// The process.
	gen      uint32 // generation of the process
	alive    bool
	draining bool
	frozen   int // number of faults that freeze it
	instance string
	pid      int64
	machine  Machine
	program  program // nil: it has only leases and polls
	tickAt   int64   // true time of the pending tick; 0: none
	inbox    []event
	fall     fall
	spin     spin
	todo     []core.Event // for the core, after the current step
	working  bool         // a step is being carried out
	routines []*routine
	spawned  bool // a process has run in this slot

	terms   []term
	vacant  []int32
	held    map[string]int32 // lease → index in terms; never ranged over
	left    []leftover
	pauses  []int32       // check-send faults that wait for the next poll
	again   time.Duration // delay of the restart after a clean stop
	restart bool
	witness int32 // the process is thawed once this session has another owner; -1: none
	paused  int32 // check-send fault that froze it
}

type term struct {
	gen     uint32 // 0: vacant
	session int32
	fence   int64
	until   core.Time // end of the trust window
	belief  policy.Belief
	polls   policy.Poller
	poll    int32 // running poll; -1: none
}

// trusts mirrors the library's IsOwned.
func (n *node) trusts(t *term, at int64) bool {
	return t.gen != 0 && t.belief.Holds(n.clock.now(at))
}

func (w *world) addNode(r *rand.Rand) *node {
	slot := len(w.nodes) + 1
	n := &node{slot: slot, name: fault.NodeTarget(slot), witness: -1}
	n.clock = clock{
		base: w.t,
		mono: 1 + r.Int64N(int64(1000*time.Hour)),
		wall: epochNs + w.t + spread(r, int64(w.cfg.Clock.Offset)),
		ppm:  w.cfg.Clock.rate(r),
	}
	w.nodes = append(w.nodes, n)
	return n
}

func (w *world) spawn(n *node) {
	if n.alive || w.phase == phaseEnd {
		return
	}
	n.gen++
	w.pids++
	n.alive, n.draining, n.pid, n.spawned = true, false, w.pids, true
	n.frozen, n.pauses, n.again, n.restart, n.witness = 0, nil, 0, false, -1
	if n.clock.suspended { // a machine that starts a process is awake
		n.clock.wake(w.t)
	}
	n.tickAt, n.working = 0, false
	n.inbox, n.todo = n.inbox[:0], n.todo[:0]
	n.fall, n.spin = fall{}, spin{since: w.t}
	n.terms, n.vacant, n.held, n.left = nil, nil, map[string]int32{}, nil
	n.link.trying, n.link.hears = false, false
	w.dial(n)
	n.instance = fmt.Sprintf("%s-%d-%08x", n.name, (epochNs+w.t)/int64(time.Second), w.load.Uint32())
	cfg := core.Config{
		Instance: n.instance, TTL: int64(w.cfg.TTL), Renew: int64(w.cfg.Renew), Discovery: int64(w.cfg.Discovery),
		OpTimeout: int64(w.cfg.OpTimeout), Place: !w.cfg.Candidates, NoHeartbeat: w.cfg.Candidates, Placement: &w.placement,
	}
	if w.cfg.Tune != nil {
		w.cfg.Tune(&cfg)
	}
	n.program = w.programOf(n)
	if n.program != nil && !n.program.leases() {
		n.machine = nothing{}
	} else {
		n.machine = w.cfg.New(cfg)
	}
	w.emit(history.Event{Kind: history.Spawned, Node: n.name, Instance: n.instance, N: n.pid})
	w.server.beatKey(n.instance) // fixes its order in snapshots at its start
	if w.cfg.Intents == nil {
		w.say(n, history.Ready, "", 0, "")
	}
	w.subscribe(n, upTo(w.net, int64(5*time.Millisecond)))
	w.step(n, core.Event{Kind: core.EvStart})
	switch {
	case n.program != nil:
		n.program.start(w, n)
	case w.cfg.Candidates:
		for i := range w.sess {
			w.want(n, w.sess[i].id)
		}
	}
}

func (w *world) want(n *node, id string) {
	if n.alive && !n.draining {
		w.step(n, core.Event{Kind: core.EvWant, ID: id, Wait: true})
	}
}

// die ends the process at once. It releases nothing, and Redis may still execute its requests.
func (w *world) die(n *node, code int64, reason string) {
	if !n.alive {
		return
	}
	for i := range n.terms {
		t := &n.terms[i]
		if t.gen == 0 {
			continue
		}
		if t.poll >= 0 {
			w.hangUp(t.poll)
		}
		w.ends(believer{int32(n.slot - 1), int32(i), t.gen}, t.session)
		t.gen = 0
	}
	for i := range n.left {
		w.hangUp(n.left[i].poll)
	}
	l := &n.link
	for _, m := range l.flight {
		w.release(m)
	}
	clear(l.flight)
	l.flight = l.flight[:0]
	for i := range n.inbox {
		w.lose(&n.inbox[i])
	}
	n.inbox = n.inbox[:0]
	w.dropHeldIn(l)
	n.alive, n.frozen = false, 0
	endAll(&n.routines)
	if n.program != nil {
		n.program.died(w, n)
	}
	l.hears = false
	l.sub++
	n.gen++
	w.count(n)
	w.emit(history.Event{Kind: history.Exited, Node: n.name, Instance: n.instance, N: code, Reason: reason})
}

// nodeEvent handles an event of a process, unless the network holds it back or the process is frozen.
func (w *world) nodeEvent(n *node, e *event) {
	if l := &n.link; l.holdIn > 0 && (e.kind == evReply || e.kind == evNotice) && !w.refusedHere(e) {
		l.heldIn = append(l.heldIn, *e)
		if e.named() {
			w.arm(w.messages[e.arg])
		}
		return
	}
	if n.alive && n.frozen > 0 && e.kind != evTick && e.kind != evKill {
		n.inbox = append(n.inbox, *e)
		return
	}
	nodeEvents[e.kind](w, n, e)
}

// nodeEvents is set in init, because the handlers refer to it through step.
var nodeEvents [evCount + 1]func(*world, *node, *event)

func init() {
	nodeEvents = [evCount + 1]func(*world, *node, *event){
		evTick:        (*world).tick,
		evSend:        (*world).sent,
		evReply:       (*world).answered,
		evTimeout:     (*world).answered,
		evNotice:      (*world).notified,
		evProcess:     (*world).proceed,
		evSubUp:       func(w *world, n *node, e *event) { w.subUp(n, e.gen) },
		evWant:        (*world).wanted,
		evHeld:        (*world).heldForLong,
		evPoll:        func(w *world, n *node, e *event) { w.pollDue(n, e.arg, e.gen) },
		evPollSend:    func(w *world, _ *node, e *event) { w.pollSent(e.arg, e.gen) },
		evPollEnd:     (*world).pollReturned,
		evPollTimeout: (*world).pollReturned,
		evTerm:        func(w *world, n *node, e *event) { w.drain(n, e.gen) },
		evKill:        (*world).killed,
	}
}

func (w *world) sent(n *node, e *event) {
	m := w.messages[e.arg]
	if m.gen == n.gen && n.alive {
		w.depart(n, m)
	}
	w.release(m)
}

func (w *world) notified(n *node, e *event) {
	shared := &w.notices[e.arg]
	switch {
	case !n.alive || e.gen != n.link.sub:
	case shared.text != "" && n.program != nil:
		n.program.heard(w, n, shared.text)
	case shared.text == "":
		w.step(n, core.Event{Kind: core.EvNotice, Notice: shared.Notice})
	}
	w.heard(e.arg)
}

func (w *world) proceed(n *node, e *event) {
	if f := w.take(e.arg); n.alive && e.gen == n.gen && !w.called(n) {
		f()
	}
}

func (w *world) wanted(n *node, e *event) {
	if e.gen == n.gen {
		w.want(n, w.sess[e.arg].id)
	}
}

func (w *world) heldForLong(n *node, e *event) {
	if int(e.arg) >= len(n.terms) {
		return
	}
	if t := &n.terms[e.arg]; n.alive && t.gen == e.gen {
		w.drop(n, w.sess[t.session].id)
	}
}

func (w *world) killed(n *node, e *event) {
	if n.alive && e.gen == n.gen {
		w.die(n, -1, "killed: the clean stop took too long")
		w.comeBack(n)
	}
}

func (w *world) refusedHere(e *event) bool {
	return e.named() && w.messages[e.arg].ans.Failure == core.FailUnsent
}

func (w *world) tick(n *node, e *event) {
	if !n.alive || e.gen != n.gen || e.at != n.tickAt {
		return
	}
	n.tickAt = 0
	if n.frozen > 0 {
		return // thaw sets it again
	}
	s := w.spun(n)
	if s.ticks++; w.tooMany(n, s.ticks, ticksMax) {
		return
	}
	if n.program != nil {
		if next := n.program.next(); next != 0 && n.clock.monoAt(w.t) >= next {
			n.program.tick(w, n)
		}
	}
	if n.alive {
		w.step(n, core.Event{Kind: core.EvTick})
	}
}

// setTick schedules the next tick, unless an earlier one is pending.
func (w *world) setTick(n *node) {
	next := n.nextTick()
	if w.fallen(n) || next == 0 || n.frozen > 0 || !n.alive {
		return
	}
	at := max(n.clock.when(w.t, next)+upTo(w.net, int64(w.cfg.Clock.Late)), w.t+1)
	if n.tickAt == 0 || at < n.tickAt {
		n.tickAt = at
		w.q.push(event{at: at, kind: evTick, node: int32(n.slot - 1), gen: n.gen})
	}
}

// step passes ev to the core and carries out the effects, tells before ops. Then it does the same for the shell's own events.
func (w *world) step(n *node, ev core.Event) {
	if n.working {
		n.todo = append(n.todo, ev)
		return
	}
	n.working = true
	w.act(n, &ev)
	for i := 0; i < len(n.todo) && n.alive; {
		ev := &n.todo[i]
		i += policy.MergeDrops(n.todo[i:])
		if !w.repeats(n, i) {
			w.act(n, ev)
		}
	}
	clear(n.todo)
	n.todo = n.todo[:0]
	n.working = false
	if n.alive {
		w.setTick(n)
	}
}

func (w *world) act(n *node, ev *core.Event) {
	ev.Now = n.clock.now(w.t)
	eff := n.ask(ev)
	if w.fallen(n) {
		return
	}
	for k := 0; k < len(eff.Tells) && n.alive; k++ {
		w.told(n, &eff.Tells[k])
	}
	for k := 0; k < len(eff.Ops) && n.alive; k++ {
		w.renewing(n, &eff.Ops[k])
		if n.program != nil {
			n.program.asks(w, n, &eff.Ops[k])
		}
		w.send(n, &eff.Ops[k])
	}
}

// thaw resumes the process. Its queued events race with its timers.
func (w *world) thaw(n *node) {
	if !n.alive || n.frozen == 0 {
		return
	}
	if n.frozen--; n.frozen > 0 {
		return
	}
	at := w.t
	tick := w.t + upTo(w.net, int64(len(n.inbox)+1)*int64(20*time.Microsecond)+int64(w.cfg.Clock.Late)) + 1
	for _, e := range n.inbox {
		at += upTo(w.net, int64(40*time.Microsecond))
		e.at = at
		w.q.push(e)
	}
	n.inbox = n.inbox[:0]
	n.tickAt = tick
	w.q.push(event{at: tick, kind: evTick, node: int32(n.slot - 1), gen: n.gen})
}

// stop requests a clean stop. If again > 0, a new process starts that long after the end.
func (w *world) stop(n *node, again time.Duration) {
	n.again = again
	n.restart = again > 0
	w.q.push(event{at: w.t, kind: evTerm, node: int32(n.slot - 1), gen: n.gen})
	w.q.push(event{at: w.t + 2*int64(w.cfg.TTL), kind: evKill, node: int32(n.slot - 1), gen: n.gen})
}

func (w *world) drain(n *node, gen uint32) {
	if n.alive && gen == n.gen && !n.draining {
		n.draining = true
		if n.program != nil && n.program.drain(w, n) {
			return
		}
		w.step(n, core.Event{Kind: core.EvDrain})
	}
}

func (w *world) stopped(n *node) {
	w.say(n, history.Stopped, "", 0, "")
	w.die(n, 0, "asked")
	w.comeBack(n)
}

func (w *world) comeBack(n *node) {
	if n.restart {
		w.q.push(event{at: w.t + int64(n.again), kind: evSpawn, node: int32(n.slot - 1)})
	}
}
