package virtual

import (
	"context"
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/membership"
)

// intentInbox passes messages to a worker's machine, one at a time, and carries out the effects.
type intentInbox struct {
	*intentProcess
	machine  *intent.Machine
	carry    func(intent.Effect)
	messages []intentMessage
	open     bool  // the worker has joined
	busy     bool  // messages are being handled
	later    bool  // pump runs again after the current step of the leases
	capacity latch // of the machine
}

// intentMessage is input for the machine: f runs first, then the machine gets event.
type intentMessage struct {
	f     func()
	event intent.Event
}

func (b *intentInbox) tell(e intent.Event) { b.put(intentMessage{event: e}) }

func (b *intentInbox) put(m intentMessage) {
	b.messages = append(b.messages, m)
	b.pump()
}

// pump handles the messages. During a step of the leases it waits, because an attempt could otherwise mistake an answer of that
// step for its own.
func (b *intentInbox) pump() {
	if b.busy || !b.open || !b.runs() {
		return
	}
	if b.n.working {
		if !b.later {
			b.later = true
			b.n.inProcess(0, func() {
				b.later = false
				b.pump()
			})
		}
		return
	}
	b.busy = true
	for often := 1; len(b.messages) > 0 && b.n.alive && !b.n.repeats(often); often++ {
		m := b.messages[0]
		b.messages = b.messages[1:]
		if m.f != nil {
			m.f()
		}
		if m.event.Kind != 0 {
			b.step(m.event)
		}
	}
	b.busy = false
	if !b.n.alive {
		return
	}
	if b.machine.Idle() {
		b.capacity.set()
	}
	b.n.setTick()
}

func (b *intentInbox) step(e intent.Event) {
	e.Now = b.n.mono()
	effects := guarded(b.n, func() []intent.Effect { return slices.Clone(through(b.n.cfg.Seams.Intent, b.machine.Step)(e)) })
	if b.n.fallen() {
		return
	}
	for _, eff := range effects {
		if b.n.alive {
			b.carry(eff)
		}
	}
}

func (b *intentInbox) next() core.Time {
	if !b.open {
		return 0
	}
	return b.machine.Next()
}

func (b *intentInbox) tick() { b.tell(intent.Event{Kind: intent.EvTick}) }

// awaitCapacity waits until the machine can accept more. False: the worker stops.
func (b *intentInbox) awaitCapacity() bool {
	return b.capacity.wait(b.current(), endlessly) && b.ctx.Err() == nil
}

// intentBeats keeps a worker alive in the registry. It also has the worker join.
type intentBeats struct {
	*intentProcess
	member *membership.Member
	soon   latch // a beat is requested
	next   core.Time
	busy   bool  // a beat or the join is in progress
	over   latch // no beat is in progress
}

func (b *intentBeats) join() error {
	err := b.do(b.member.Join)
	b.next = b.n.mono()
	return err
}

func (b *intentBeats) do(f func(context.Context) error) error {
	b.busy = true
	err := f(b.ctx)
	b.busy = false
	b.over.set()
	return err
}

func (b *intentBeats) run(r *routine) {
	every := core.Time(membership.BeatInterval(b.n.cfg.TTL))
	for !r.dead && b.ctx.Err() == nil {
		_ = b.do(b.member.Beat) // the next beat retries
		now := b.n.mono()
		for b.next <= now {
			b.next += every
		}
		b.soon.wait(r, b.n.clock.TrueOf(int64(now), int64(b.next)))
	}
}

// stop waits until no beat is in progress. False: the routine must end.
func (b *intentBeats) stop(r *routine) bool {
	b.soon.set()
	return !b.busy || b.over.wait(r, endlessly)
}
