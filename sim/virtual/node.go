package virtual

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

func (w *world) addNode(r *rand.Rand) *node {
	slot := len(w.nodes) + 1
	n := &node{slot: slot, name: fault.NodeTarget(slot), witness: -1}
	n.clock = loop.Clock{
		Base: w.t,
		Mono: 1 + r.Int64N(int64(1000*time.Hour)),
		Wall: epochNs + w.t + spread(r, int64(w.cfg.Clock.Offset)),
		PPM:  w.cfg.Clock.rate(r),
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
	if n.clock.Suspended { // a machine that starts a process is awake
		n.clock.Wake(w.t)
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
	w.server.Beat(n.instance) // fixes its order in snapshots at its start
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
func (w *world) nodeEvent(n *node, e *loop.Event) {
	if l := &n.link; l.holdIn > 0 && (e.Kind == evReply || e.Kind == evNotice) && !w.refusedHere(e) {
		l.heldIn = append(l.heldIn, *e)
		if named(e) {
			w.arm(w.messages[e.Arg])
		}
		return
	}
	if n.alive && n.frozen > 0 && e.Kind != evTick && e.Kind != evKill {
		n.inbox = append(n.inbox, *e)
		return
	}
	nodeEvents[e.Kind](w, n, e)
}

// nodeEvents is set in init, because the handlers refer to it through step.
var nodeEvents [evCount + 1]func(*world, *node, *loop.Event)

func init() {
	nodeEvents = [evCount + 1]func(*world, *node, *loop.Event){
		evTick:        (*world).tick,
		evSend:        (*world).sent,
		evReply:       (*world).answered,
		evTimeout:     (*world).answered,
		evNotice:      (*world).notified,
		evProcess:     (*world).proceed,
		evSubUp:       func(w *world, n *node, e *loop.Event) { w.subUp(n, e.Gen) },
		evWant:        (*world).wanted,
		evHeld:        (*world).heldForLong,
		evPoll:        func(w *world, n *node, e *loop.Event) { w.pollDue(n, e.Arg, e.Gen) },
		evPollSend:    func(w *world, _ *node, e *loop.Event) { w.pollSent(e.Arg, e.Gen) },
		evPollEnd:     (*world).pollReturned,
		evPollTimeout: (*world).pollReturned,
		evTerm:        func(w *world, n *node, e *loop.Event) { w.drain(n, e.Gen) },
		evKill:        (*world).killed,
	}
}

func (w *world) sent(n *node, e *loop.Event) {
	m := w.messages[e.Arg]
	if m.gen == n.gen && n.alive {
		w.depart(n, m)
	}
	w.release(m)
}

func (w *world) notified(n *node, e *loop.Event) {
	shared := &w.notices[e.Arg]
	switch {
	case !n.alive || e.Gen != n.link.sub:
	case shared.text != "" && n.program != nil:
		n.program.heard(w, n, shared.text)
	case shared.text == "":
		w.step(n, core.Event{Kind: core.EvNotice, Notice: shared.Notice})
	}
	w.heard(e.Arg)
}

func (w *world) proceed(n *node, e *loop.Event) {
	if f := w.take(e.Arg); n.alive && e.Gen == n.gen && !w.called(n) {
		f()
	}
}

func (w *world) wanted(n *node, e *loop.Event) {
	if e.Gen == n.gen {
		w.want(n, w.sess[e.Arg].id)
	}
}

func (w *world) heldForLong(n *node, e *loop.Event) {
	if int(e.Arg) >= len(n.terms) {
		return
	}
	if t := &n.terms[e.Arg]; n.alive && t.gen == e.Gen {
		w.drop(n, w.sess[t.session].id)
	}
}

func (w *world) killed(n *node, e *loop.Event) {
	if n.alive && e.Gen == n.gen {
		w.die(n, -1, "killed: the clean stop took too long")
		w.comeBack(n)
	}
}

func (w *world) refusedHere(e *loop.Event) bool {
	return named(e) && w.messages[e.Arg].ans.Failure == core.FailUnsent
}

func (w *world) tick(n *node, e *loop.Event) {
	if !n.alive || e.Gen != n.gen || e.At != n.tickAt {
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
		if next := n.program.next(); next != 0 && n.clock.MonoAt(w.t) >= next {
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
	at := max(n.clock.When(w.t, next)+upTo(w.net, int64(w.cfg.Clock.Late)), w.t+1)
	if n.tickAt == 0 || at < n.tickAt {
		n.tickAt = at
		w.q.Push(loop.Event{At: at, Kind: evTick, Node: int32(n.slot - 1), Gen: n.gen})
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
	ev.Now = n.clock.Now(w.t)
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
		e.At = at
		w.q.Push(e)
	}
	n.inbox = n.inbox[:0]
	n.tickAt = tick
	w.q.Push(loop.Event{At: tick, Kind: evTick, Node: int32(n.slot - 1), Gen: n.gen})
}

// stop requests a clean stop. If again > 0, a new process starts that long after the end.
func (w *world) stop(n *node, again time.Duration) {
	n.again = again
	n.restart = again > 0
	w.q.Push(loop.Event{At: w.t, Kind: evTerm, Node: int32(n.slot - 1), Gen: n.gen})
	w.q.Push(loop.Event{At: w.t + 2*int64(w.cfg.TTL), Kind: evKill, Node: int32(n.slot - 1), Gen: n.gen})
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
		w.q.Push(loop.Event{At: w.t + int64(n.again), Kind: evSpawn, Node: int32(n.slot - 1)})
	}
}

// yield lets the running poll end, then releases the lease.
func (w *world) yield(n *node, id string) {
	if i, tm := n.term(id); tm != nil {
		w.polling(n, i, tm.polls.Yield(), "")
		return
	}
	w.drop(n, id)
}

// drop releases a lease or stops wanting it. The core keeps the cause of a release that it requested.
func (w *world) drop(n *node, id string) {
	w.step(n, core.Event{Kind: core.EvDrop, ID: id, Cause: core.CauseRequested})
}

// placement is shared by all cores, which compute alike. It keeps the last result, because each would compute instances × sessions ranks.
type placement struct {
	core.Placer
	sessions      *core.Sessions
	instances     []uint64
	owner         []int32
	target, quota []int32
}

// Place implements core.Placement.
func (p *placement) Place(s *core.Sessions, instances []uint64, owner []int32) (target, quota []int32) {
	if p.sessions != s || !slices.Equal(p.instances, instances) || !slices.Equal(p.owner, owner) {
		p.target, p.quota = p.Placer.Place(s, instances, owner)
		p.sessions, p.instances, p.owner = s, append(p.instances[:0], instances...), append(p.owner[:0], owner...)
	}
	return p.target, p.quota
}
