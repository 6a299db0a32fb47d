package virtual

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/history"
)

// This file is about rules that take their process down: they panic, or go on for ever at one instant. What they do must not take the
// engine along: their process ends, as a real one does by itself or by whoever watches it, the others go on, and all is judged.

// A lease in a state that the rules do not list is a defect of theirs, in whatever run it shows.
func init() {
	core.Unlisted = func(lease, state string) { panic(lease + " is " + state + ": there is no such state") }
}

// fall is why the process of a node has to end; the zero value: it has not.
type fall struct {
	hang  bool // it did not panic
	why   string
	stack string
}

// caught is deferred around every call of rules.
func (n *node) caught() {
	if p := recover(); p != nil {
		n.fall = fall{why: fmt.Sprintf("panic: %v", p), stack: string(debug.Stack())}
	}
}

// ask tells the core an event. The effects of one that panics are none.
func (n *node) ask(ev *core.Event) core.Effects {
	defer n.caught()
	return n.machine.Step(*ev)
}

// nextTick is when the core, or the program, wants a tick; 0: never.
func (n *node) nextTick() core.Time {
	defer n.caught()
	next := n.machine.Next()
	if n.program != nil {
		if own := n.program.next(); own != 0 && (next == 0 || own < next) {
			next = own
		}
	}
	return next
}

// guarded is a call of a program's rules.
func guarded[T any](n *node, call func() T) T {
	defer n.caught()
	return call()
}

// fallen ends the process if its rules have taken it down, and reports whether they have.
func (w *world) fallen(n *node) bool {
	if n.fall.why == "" {
		return false
	}
	f := n.fall
	n.fall = fall{}
	if !n.alive {
		return true
	}
	if w.out.Fell == "" {
		w.out.Fell, w.out.Hung = fmt.Sprintf("%s (%s) at %v: %s", n.name, n.instance, time.Duration(w.t), f.why), f.hang
		if f.stack != "" {
			w.out.Fell += "\n" + f.stack
		}
	}
	code := int64(2) // as Go's runtime ends a program
	if f.hang {
		code = -1
	}
	w.die(n, code, history.Fell+cutText(f.why))
	return true
}

// Rules that are told what they asked for can ask for more without time passing: for a tick at once, for the end of work that has ended.
// Sound ones tick 50 times in 100 ms at most, and do other things at one instant a few times for each lease that they hold.
const (
	spinTime  = int64(100 * time.Millisecond)
	ticksMax  = 512 // in that time: who wants one at once, over and over, has a thousand, because timers are late
	callsMax  = 1 << 14
	callsHeld = 64 // more for each lease
)

// spin counts what a process does while hardly any time passes.
type spin struct {
	since        int64
	ticks, calls int
}

func (w *world) spun(n *node) *spin {
	if w.t-n.spin.since >= spinTime {
		n.spin = spin{since: w.t}
	}
	return &n.spin
}

// ticks takes note of one more tick, and reports whether the process falls by it.
func (w *world) ticks(n *node) bool {
	s := w.spun(n)
	s.ticks++
	return w.tooMany(n, s.ticks, ticksMax)
}

// called takes note of one more call of the program's own, and reports whether the process falls by it.
func (w *world) called(n *node) bool {
	s := w.spun(n)
	s.calls++
	return w.repeats(n, s.calls)
}

// repeats reports whether the process falls by doing that often what it asked for itself.
func (w *world) repeats(n *node, often int) bool {
	return w.tooMany(n, often, callsMax+callsHeld*len(n.terms))
}

func (w *world) tooMany(n *node, often, most int) bool {
	if often <= most {
		return false
	}
	n.fall = fall{hang: true, why: fmt.Sprintf("hang: its rules went on without an end, %d times while hardly any time passed", often)}
	return w.fallen(n)
}
