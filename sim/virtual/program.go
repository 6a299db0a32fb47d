package virtual

import (
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

func (w *world) programOf(n *node) program {
	if w.cfg.Foreign != nil {
		delay := time.Duration(upTo(w.load, int64(w.cfg.TTL)/3))
		if m := w.cfg.Foreign(Instance{n.slot, n.instance, delay}); m != nil {
			return &foreigner{machine: m}
		}
	}
	switch {
	case w.cfg.Election != nil:
		return w.newCampaign(n)
	case w.cfg.Intents != nil:
		return w.newIntentNode(n)
	}
	return nil
}

func (w *world) command(n *node, c foreign.Command) { w.request(n, c, w.cfg.OpTimeout, nil) }

// request sends a command and passes the result to done or, if that is nil, to the program.
func (w *world) request(n *node, c foreign.Command, patience time.Duration, done func(redis.Reply, error)) {
	m := w.message()
	m.cmd, m.node, m.gen, m.done = &c, int32(n.slot-1), n.gen, done
	m.deadline = n.clock.When(w.t, n.clock.MonoAt(w.t)+core.Time(patience))
	w.depart(n, m)
}

type nothing struct{}

func (nothing) Step(core.Event) core.Effects { return core.Effects{} }
func (nothing) Next() core.Time              { return 0 }

// foreigner runs another program's machine. Its leadership is a term without end and fence.
type foreigner struct {
	plainProgram
	machine foreign.Machine
	began   core.Time
}

// endless exceeds any run. Clocks can add a day without overflow.
const endless = 24 * time.Hour

func (f *foreigner) start(w *world, n *node) {
	f.began = n.clock.MonoAt(w.t)
	f.step(w, n, foreign.Input{})
}

func (f *foreigner) next() core.Time {
	at, ok := f.machine.Next()
	if !ok {
		return 0
	}
	return f.began + core.Time(at)
}

func (f *foreigner) tick(w *world, n *node) { f.step(w, n, foreign.Input{}) }
func (*foreigner) leases() bool             { return false }

func (f *foreigner) replied(w *world, n *node, r *foreign.Reply) {
	f.step(w, n, foreign.Input{Reply: r})
}

func (f *foreigner) drain(w *world, n *node) bool {
	f.step(w, n, foreign.Input{Stop: true})
	return true
}

func (f *foreigner) step(w *world, n *node, in foreign.Input) {
	now := n.clock.Now(w.t)
	in.Now, in.Wall = time.Duration(now.Mono-f.began), time.Unix(0, now.Wall)
	eff := guarded(n, func() foreign.Effects { return f.machine.Step(in) })
	if w.fallen(n) {
		return
	}
	for i := range eff.Words {
		f.say(w, n, &eff.Words[i])
	}
	for _, c := range eff.Commands {
		w.command(n, c)
	}
	if eff.Exit {
		w.stopped(n)
		return
	}
	w.setTick(n)
}

func (f *foreigner) say(w *world, n *node, word *foreign.Word) {
	id := w.sess[0].id
	switch kind, _ := history.ParseKind(word.Event); kind {
	case history.Acquired:
		now := n.clock.Now(w.t)
		w.say(n, history.Acquired, id, 0, "")
		w.hold(n, &core.Tell{Kind: core.TellAcquired, ID: id, Until: now.Mono + core.Time(endless), UntilWall: now.Wall + int64(endless)})
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
