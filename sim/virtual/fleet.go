package virtual

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// fleet has the instances of a run.
type fleet struct {
	*timeline
	net        *network
	servers    *servers
	app        *application
	target     *target
	oracle     *oracle
	routines   *routines
	newProgram func(*node) program

	nodes     []*node   // slot i is nodes[i-1]
	placement placement // shared by all cores
	timings   policy.Polls
	pids      int64
	entry     LogEntry       // the entry being logged
	said      map[string]int // slot of the guest that last reported a session as its own; never ranged over
}

func (f *fleet) add(r *rand.Rand) *node {
	slot := len(f.nodes) + 1
	n := &node{fleet: f, host: host{timeline: f.timeline, net: f.net, slot: slot, name: fault.NodeTarget(slot)}}
	n.receiver, n.check.session, n.route.told = n, -1, -1
	n.clock = loop.Clock{
		Base: f.t,
		Mono: 1 + r.Int64N(int64(1000*time.Hour)),
		Wall: epochNs + f.t + spread(r, int64(f.cfg.Clock.Offset)),
		PPM:  f.cfg.Clock.rate(r),
	}
	f.net.hosts = append(f.net.hosts, &n.host)
	f.nodes = append(f.nodes, n)
	return n
}

// thawWitness ends check-send: once the lease has another owner, the frozen process resumes and sends its poll.
func (f *fleet) thawWitness(s int32, owner string) {
	for _, n := range f.nodes {
		if n.check.session == s && n.frozen > 0 && n.instance != owner {
			n.check.session = -1
			f.q.Push(loop.Event{At: f.t + int64(5*time.Millisecond), Kind: evFaultEnd, Arg: n.check.fault})
		}
	}
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

// end ends the routines of all processes, at the end of the run.
func (f *fleet) end() {
	for _, n := range f.nodes {
		endAll(&n.routines)
		if n.program != nil {
			n.program.died()
		}
	}
}

// node is an instance: a host, and the process that runs on it.
type node struct {
	host
	fleet   *fleet
	spawned bool // a process has run in this slot
	process
	shell shell
}

// process is a running instance, or the last one that ran.
type process struct {
	instance string
	pid      int64
	machine  Machine
	program  program      // nil: it has only leases and polls
	tickAt   int64        // true time of the pending tick; 0: none
	todo     []core.Event // for the core, after the current step
	working  bool         // a step is being carried out
	routines []*routine

	frozen   int          // number of faults that freeze it
	inbox    []loop.Event // while it is frozen
	draining bool
	restart  bool          // another process starts after it,
	again    time.Duration // that long after the clean stop
	check    checkSend
	fall     fall
	spin     spin
}

// checkSend is what the faults between the check of a term and the send under it do to a process.
type checkSend struct {
	waiting []int32 // faults that wait for the next send
	fault   int32   // fault that froze the process
	session int32   // the process is thawed once this session has another owner; -1: none
}

// freezes freezes the process before it sends under a term, if a check-send fault waits, and reports whether it did.
func (n *node) freezes(id string, fence int64, session int32) bool {
	c := &n.check
	if len(c.waiting) == 0 {
		return false
	}
	c.fault, c.waiting, c.session = c.waiting[0], c.waiting[1:], session
	n.say(history.Paused, id, fence, "")
	n.frozen++
	return true
}

func (n *node) spawn() {
	if n.alive || n.phase == phaseEnd {
		return
	}
	n.gen++
	n.fleet.pids++
	n.alive, n.spawned = true, true
	n.process = process{
		instance: fmt.Sprintf("%s-%d-%08x", n.name, (epochNs+n.t)/int64(time.Second), n.load.Uint32()), pid: n.fleet.pids,
		check: checkSend{session: -1}, spin: spin{since: n.t},
	}
	if n.cfg.Guest != nil {
		n.instance = "" // its first message names it
	}
	n.shell = shell{fleet: n.fleet, n: n, held: map[string]int32{}}
	if n.clock.Suspended { // a machine that starts a process is awake
		n.clock.Wake(n.t)
	}
	n.sub.trying, n.sub.on = false, false
	n.net.servers.dial(&n.host)
	cfg := core.Config{
		Instance: n.instance, TTL: int64(n.cfg.TTL), Renew: int64(n.cfg.Renew), Discovery: int64(n.cfg.Discovery),
		OpTimeout: int64(n.cfg.OpTimeout), StartDelay: int64(n.cfg.Discovery) / 10,
		Place: !n.cfg.Candidates, NoHeartbeat: n.cfg.Candidates, Placement: &n.fleet.placement,
	}
	if n.cfg.Tune != nil {
		n.cfg.Tune(&cfg)
	}
	n.program = n.fleet.newProgram(n)
	if n.program != nil && !n.program.leases() {
		n.machine = nothing{}
	} else {
		n.machine = n.cfg.New(cfg)
	}
	n.emit(history.Event{Kind: history.Spawned, Node: n.name, Instance: n.instance, N: n.pid})
	if n.cfg.Guest == nil {
		n.begin()
	}
	n.step(core.Event{Kind: core.EvStart})
	switch {
	case n.program != nil:
		n.program.start()
	case n.cfg.Candidates:
		for i := range n.fleet.app.sessions {
			n.want(n.fleet.app.sessions[i].id)
		}
	}
}

// begin starts what an instance of the library has and a guest does itself.
func (n *node) begin() {
	n.fleet.servers.master.Beat(n.instance) // fixes its order in snapshots at its start
	if n.cfg.Intents == nil {
		n.say(history.Ready, "", 0, "")
	}
	n.subscribe(upTo(n.netRand, int64(5*time.Millisecond)))
}

func (n *node) want(id string) {
	if n.alive && !n.draining {
		n.step(core.Event{Kind: core.EvWant, ID: id, Wait: true})
	}
}

// die ends the process at once. It releases nothing, and Redis may still execute its requests.
func (n *node) die(code int64, reason string) {
	if !n.alive {
		return
	}
	n.shell.die()
	n.abandon()
	for i := range n.inbox {
		n.net.lose(&n.inbox[i])
	}
	n.inbox = n.inbox[:0]
	n.net.dropHeldIn(&n.link)
	n.alive, n.frozen = false, 0
	endAll(&n.routines)
	if n.program != nil {
		n.program.died()
	}
	n.sub.close()
	n.gen++
	n.count()
	n.emit(history.Event{Kind: history.Exited, Node: n.name, Instance: n.instance, N: code, Reason: reason})
}

// event handles an event of a process, unless the network holds the event back or the process is frozen.
func (n *node) event(e *loop.Event) {
	if l := &n.link; l.holdIn > 0 && (e.Kind == evReply || e.Kind == evNotice) && !n.net.refusedHere(e) {
		l.heldIn = append(l.heldIn, *e)
		if named(e) {
			n.net.arm(n.net.messages[e.Arg])
		}
		return
	}
	if n.alive && n.frozen > 0 && e.Kind != evTick {
		n.inbox = append(n.inbox, *e)
		return
	}
	nodeEvents[e.Kind](n, e)
}

// nodeEvents is set in init, because the handlers refer to it through step.
var nodeEvents [evProcess + 1]func(*node, *loop.Event)

func init() {
	nodeEvents = [evProcess + 1]func(*node, *loop.Event){
		evTick:        (*node).tick,
		evSend:        (*node).sent,
		evReply:       (*node).answered,
		evTimeout:     (*node).answered,
		evNotice:      (*node).notified,
		evProcess:     (*node).proceed,
		evPoll:        func(n *node, e *loop.Event) { n.shell.pollDue(e.Arg, e.Gen) },
		evPollSend:    func(n *node, e *loop.Event) { n.fleet.target.send(e.Arg, e.Gen) },
		evPollEnd:     func(n *node, e *loop.Event) { n.shell.pollReturned(e) },
		evPollTimeout: func(n *node, e *loop.Event) { n.shell.pollReturned(e) },
	}
}

func (n *node) notified(e *loop.Event) {
	shared := &n.net.notices[e.Arg]
	switch {
	case !n.alive || e.Gen != n.sub.number:
	case shared.text != "" && n.program != nil:
		n.program.heard(shared.text)
	case shared.text == "":
		n.step(core.Event{Kind: core.EvNotice, Notice: shared.Notice})
	}
	n.net.heard(e.Arg)
}

func (n *node) proceed(e *loop.Event) {
	if f := n.take(e.Arg); n.alive && e.Gen == n.gen && !n.called() {
		f()
	}
}

func (n *node) tick(e *loop.Event) {
	if !n.alive || e.Gen != n.gen || e.At != n.tickAt {
		return
	}
	n.tickAt = 0
	if n.frozen > 0 {
		return // thaw sets it again
	}
	s := n.spun()
	if s.ticks++; n.cfg.Guest == nil && n.tooMany(s.ticks, ticksMax) {
		return
	}
	if n.program != nil {
		if next := n.program.next(); next != 0 && n.clock.MonoAt(n.t) >= next {
			n.program.tick()
		}
	}
	if n.alive {
		n.step(core.Event{Kind: core.EvTick})
	}
}

// setTick schedules the next tick, unless an earlier one is pending.
func (n *node) setTick() {
	next := n.nextTick()
	if n.fallen() || next == 0 || n.frozen > 0 || !n.alive {
		return
	}
	at := max(n.clock.When(n.t, next)+upTo(n.netRand, int64(n.cfg.Clock.Late)), n.t+1)
	if n.tickAt == 0 || at < n.tickAt {
		n.tickAt = at
		n.q.Push(loop.Event{At: at, Kind: evTick, Node: int32(n.slot - 1), Gen: n.gen})
	}
}

// step passes ev to the core and carries out the effects, tells before ops. Then it does the same for the shell's own events.
func (n *node) step(ev core.Event) {
	if n.working {
		n.todo = append(n.todo, ev)
		return
	}
	n.working = true
	n.act(&ev)
	for i := 0; i < len(n.todo) && n.alive; {
		ev := &n.todo[i]
		i += policy.MergeDrops(n.todo[i:])
		if !n.repeats(i) {
			n.act(ev)
		}
	}
	clear(n.todo)
	n.todo = n.todo[:0]
	n.working = false
	if n.alive {
		n.setTick()
	}
}

func (n *node) act(ev *core.Event) {
	ev.Now = n.clock.Now(n.t)
	eff := n.ask(ev)
	if n.fallen() {
		return
	}
	for k := 0; k < len(eff.Tells) && n.alive; k++ {
		n.shell.told(&eff.Tells[k])
	}
	for k := 0; k < len(eff.Ops) && n.alive; k++ {
		n.shell.renewing(&eff.Ops[k])
		if n.program != nil {
			n.program.asks(&eff.Ops[k])
		}
		n.send(&eff.Ops[k])
	}
}

// thaw resumes the process. Its queued events race with its timers.
func (n *node) thaw() {
	if !n.alive || n.frozen == 0 {
		return
	}
	if n.frozen--; n.frozen > 0 {
		return
	}
	at := n.t
	tick := n.t + upTo(n.netRand, int64(len(n.inbox)+1)*int64(20*time.Microsecond)+int64(n.cfg.Clock.Late)) + 1
	for _, e := range n.inbox {
		at += upTo(n.netRand, int64(40*time.Microsecond))
		e.At = at
		n.q.Push(e)
	}
	n.inbox = n.inbox[:0]
	n.tickAt = tick
	n.q.Push(loop.Event{At: tick, Kind: evTick, Node: int32(n.slot - 1), Gen: n.gen})
}

// stop requests a clean stop. If again > 0, a new process starts after this time from the end of the old one.
func (n *node) stop(again time.Duration) {
	n.again = again
	n.restart = again > 0
	n.inProcess(0, n.drain)
	gen := n.gen
	n.after(2*int64(n.cfg.TTL), func() {
		if n.gen == gen {
			n.die(-1, "killed: the clean stop took too long")
			n.comeBack()
		}
	})
}

func (n *node) drain() {
	if !n.draining {
		n.draining = true
		if n.program != nil && n.program.drain() {
			return
		}
		n.step(core.Event{Kind: core.EvDrain})
	}
}

func (n *node) stopped() {
	n.say(history.Stopped, "", 0, "")
	n.die(0, "asked")
	n.comeBack()
}

func (n *node) comeBack() {
	if n.restart {
		n.after(int64(n.again), n.spawn)
	}
}

// drop releases a lease or stops wanting it. The core keeps the cause of a release that it requested.
func (n *node) drop(id string) {
	n.step(core.Event{Kind: core.EvDrop, ID: id, Cause: core.CauseRequested})
}

func (n *node) say(k history.Kind, id string, fence int64, why string) {
	n.emit(history.Event{Kind: k, Node: n.name, Instance: n.instance, Session: id, Fence: fence, Reason: why})
}

// finished implements receiver.
func (n *node) finished(m *message, a core.Answer) {
	if m.conn != nil {
		m.conn.arrived(m, &a)
		return
	}
	if m.done != nil {
		m.conclude(a)
		return
	}
	n.step(core.Event{Kind: core.EvAnswer, Answer: a})
	if n.program != nil && n.alive {
		kept := a // only a program costs an allocation
		n.program.answered(&m.op, &kept)
	}
}

// subscribed implements receiver.
func (n *node) subscribed() {
	n.step(core.Event{Kind: core.EvSubscribed})
	if n.program != nil && n.alive {
		n.program.heard("")
	}
}

// disconnected implements receiver.
func (n *node) disconnected(from *server) bool {
	g, ok := n.program.(*guestNode)
	if ok && n.alive {
		g.disconnect(from)
	}
	return ok
}

// command sends a program's command. replied receives each answer, including a duplicate.
func (n *node) command(c foreign.Command, replied func(*foreign.Reply)) {
	n.request(c.Args, n.cfg.OpTimeout, func(v redis.Reply, err error) {
		r := foreign.Reply{Seq: c.Seq}
		no, refused := v.(redis.Refusal)
		switch {
		case err != nil:
			r.Err = err.Error()
		case refused:
			r.Err = string(no)
		default:
			r.Value = redis.Plain(v)
		}
		replied(&r)
		if n.alive {
			n.setTick()
		}
	})
}

// request sends a command. done receives each answer; an error means that there is none.
func (n *node) request(args []string, patience time.Duration, done func(redis.Reply, error)) {
	m := n.net.message()
	m.args, m.node, m.gen, m.done = args, int32(n.slot-1), n.gen, done
	m.deadline = n.clock.When(n.t, n.mono()+core.Time(patience))
	n.depart(m)
}
