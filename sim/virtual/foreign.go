package virtual

import (
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/history"
)

// nothing is the core of a process without leases.
type nothing struct{}

func (nothing) Step(core.Event) core.Effects { return core.Effects{} }
func (nothing) Next() core.Time              { return 0 }

// foreigner is a process whose rules are a foreign.Machine. While that leads, the process holds a term without end and fence.
type foreigner struct {
	plainProgram
	n       *node
	machine foreign.Machine
	began   core.Time
}

// endless exceeds any run. Clocks can add a day without overflow.
const endless = 24 * time.Hour

func (f *foreigner) start() {
	f.began = f.n.mono()
	f.step(foreign.Input{})
}

func (f *foreigner) next() core.Time {
	at, ok := f.machine.Next()
	if !ok {
		return 0
	}
	return f.began + core.Time(at)
}

func (f *foreigner) tick() { f.step(foreign.Input{}) }

func (*foreigner) leases() bool { return false }

func (f *foreigner) replied(r *foreign.Reply) {
	f.step(foreign.Input{Reply: r})
}

func (f *foreigner) drain() bool {
	f.step(foreign.Input{Stop: true})
	return true
}

func (f *foreigner) step(in foreign.Input) {
	now := f.n.clock.Now(f.n.t)
	in.Now, in.Wall = time.Duration(now.Mono-f.began), time.Unix(0, now.Wall)
	eff := guarded(f.n, func() foreign.Effects { return f.machine.Step(in) })
	if f.n.fallen() {
		return
	}
	for i := range eff.Words {
		f.say(&eff.Words[i])
	}
	for _, c := range eff.Commands {
		f.n.command(c, f.replied)
	}
	if eff.Exit {
		f.n.stopped()
		return
	}
	f.n.setTick()
}

func (f *foreigner) say(word *foreign.Word) {
	id := f.n.fleet.app.sessions[0].id
	switch kind, _ := history.ParseKind(word.Event); kind {
	case history.Acquired:
		now := f.n.clock.Now(f.n.t)
		f.n.say(history.Acquired, id, 0, "")
		f.n.shell.hold(&core.Tell{Kind: core.TellAcquired, ID: id, Until: now.Mono + core.Time(endless), UntilWall: now.Wall + int64(endless)})
	case history.Lost, history.Released:
		f.n.say(kind, id, 0, word.Reason)
		f.n.shell.over(id, word.Reason)
	case history.StateChanged:
		f.n.say(kind, id, 0, word.From+" "+word.To)
	case history.Leading:
		f.n.say(kind, id, 0, word.Leader)
	default:
		f.n.say(kind, id, 0, word.Reason)
	}
}
