package virtual

import (
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/history"
)

// program is what a process runs beside the leases of its core and the polls that hang on them. Polling needs none.
type program interface {
	// start: the process has begun; its core, if it has one, has been started.
	start(w *world, n *node)
	// next is when it wants tick, on the node's monotonic clock; 0: never.
	next() core.Time
	tick(w *world, n *node)
	// asks: an op of the core is about to leave.
	asks(w *world, n *node, op *core.Op)
	// told: the shell has carried out a tell of the core.
	told(w *world, n *node, t *core.Tell)
	// replied: what became of a command of its own.
	replied(w *world, n *node, r *foreign.Reply)
	// drain: the process is asked to stop. False: the core is to be drained as ever.
	drain(w *world, n *node) bool
}

// programOf makes the program of a process that begins; nil: it needs none.
func (w *world) programOf(n *node) program {
	if w.cfg.Foreign != nil {
		delay := time.Duration(upTo(w.load, int64(w.cfg.TTL)/3))
		if m := w.cfg.Foreign(Instance{n.slot, n.instance, delay}); m != nil {
			return &foreigner{machine: m}
		}
	}
	if w.cfg.Election != nil {
		return w.newCampaign(n)
	}
	return nil
}

// command sends a command of the node's program. It travels as an op does.
func (w *world) command(n *node, c foreign.Command) {
	m := w.message()
	m.cmd, m.node, m.gen, m.run = &c, int32(n.slot-1), n.gen, w.server.gen
	m.deadline = n.clock.when(w.t, n.clock.monoAt(w.t)+core.Time(w.cfg.OpTimeout))
	w.depart(n, m)
}

// obey executes a command of a program.
func (r *redis) obey(t int64, c *foreign.Command) foreign.Reply {
	r.denied, r.dirty = "", false
	var plain func(reply) any
	plain = func(v reply) any {
		switch v := v.(type) {
		case status:
			return string(v)
		case []reply:
			all := make([]any, len(v))
			for i := range v {
				all[i] = plain(v[i])
			}
			return all
		}
		return v
	}
	v := r.command(t, c.Args[0], c.Args[1:])
	if no, refused := v.(refusal); refused {
		return foreign.Reply{Err: string(no)}
	}
	return foreign.Reply{Value: plain(v)}
}

// finished hands a node what became of a message, of its core's or of its program's.
func (w *world) finished(n *node, m *message, a core.Answer) {
	if m.cmd == nil {
		w.step(n, core.Event{Kind: core.EvAnswer, Answer: a})
		return
	}
	r := m.reply
	if a.Failure != core.FailNone {
		r = foreign.Reply{Err: a.Text}
	}
	r.Seq = m.cmd.Seq
	n.program.replied(w, n, &r)
	if n.alive {
		w.setTick(n)
	}
}

// nothing is the core of a process that has none.
type nothing struct{}

func (nothing) Step(core.Event) core.Effects { return core.Effects{} }
func (nothing) Next() core.Time              { return 0 }

// foreigner runs another program's machine. Its leadership is a term without an end and without a fence.
type foreigner struct {
	machine foreign.Machine
	began   core.Time
}

// endless is longer than any run: the trust of who believes until it says otherwise. Clocks take a day without overflow.
const endless = 24 * time.Hour

func (f *foreigner) start(w *world, n *node) {
	f.began = n.clock.monoAt(w.t)
	f.step(w, n, foreign.Input{})
}

func (f *foreigner) next() core.Time {
	at, ok := f.machine.Next()
	if !ok {
		return 0
	}
	return f.began + core.Time(at)
}

func (f *foreigner) tick(w *world, n *node) {
	if next := f.next(); next != 0 && n.clock.monoAt(w.t) >= next {
		f.step(w, n, foreign.Input{})
	}
}

func (*foreigner) asks(*world, *node, *core.Op)   {}
func (*foreigner) told(*world, *node, *core.Tell) {}

func (f *foreigner) replied(w *world, n *node, r *foreign.Reply) {
	f.step(w, n, foreign.Input{Reply: r})
}

func (f *foreigner) drain(w *world, n *node) bool {
	f.step(w, n, foreign.Input{Stop: true})
	return true
}

func (f *foreigner) step(w *world, n *node, in foreign.Input) {
	now := n.clock.now(w.t)
	in.Now, in.Wall = time.Duration(now.Mono-f.began), time.Unix(0, now.Wall)
	eff := f.machine.Step(in)
	for i := range eff.Words {
		f.say(w, n, &eff.Words[i])
	}
	for _, c := range eff.Commands {
		w.command(n, c)
	}
	if eff.Exit {
		w.say(n, history.Stopped, "", 0, "")
		w.die(n, 0, "asked")
		w.comeBack(n)
		return
	}
	w.setTick(n)
}

// say turns a word into history, and what it means for the leader's work.
func (f *foreigner) say(w *world, n *node, word *foreign.Word) {
	id := w.sess[0].id
	switch kind, _ := history.ParseKind(word.Event); kind {
	case history.Acquired:
		now := n.clock.now(w.t)
		w.say(n, history.Acquired, id, 0, "")
		w.hold(n, &core.Tell{ID: id, Until: now.Mono + core.Time(endless), UntilWall: now.Wall + int64(endless)})
	case history.Lost, history.Released:
		w.say(n, kind, id, 0, word.Reason)
		w.over(n, id, word.Reason)
	case history.StateChanged:
		w.say(n, kind, id, 0, word.From+" "+word.To)
	case history.Leading:
		w.say(n, kind, id, 0, word.Leader)
	default:
		w.say(n, kind, id, 0, word.Reason)
	}
}
