package virtual

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Rules that panic or loop at one instant end their process, as in reality. The other processes continue, and the run is judged.

// fall is the reason why a process must end. The zero value is none.
type fall struct {
	hang  bool // it looped instead of panicking
	why   string
	stack string
}

type spin struct {
	since        int64
	ticks, calls int
}

// A lease in an unlisted state is a defect of the rules.
func init() {
	core.Unlisted = func(lease, state string) { panic(lease + " is " + state + ": there is no such state") }
}

// caught must be deferred around every call of rules.
func (n *node) caught() {
	if p := recover(); p != nil {
		n.fall = fall{why: fmt.Sprintf("panic: %v", p), stack: string(debug.Stack())}
	}
}

// ask passes an event to the core. A core that panics has no effects.
func (n *node) ask(ev *core.Event) core.Effects {
	defer n.caught()
	return n.machine.Step(*ev)
}

// nextTick returns the next tick of the core or the program, 0 for never.
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

func guarded[T any](n *node, call func() T) T {
	defer n.caught()
	return call()
}

// fallen ends the process if its rules panicked or looped, and reports whether they did.
func (n *node) fallen() bool {
	if n.fall.why == "" {
		return false
	}
	f := n.fall
	n.fall = fall{}
	if !n.alive {
		return true
	}
	if n.out.Fell == "" {
		n.out.Fell, n.out.Hung = fmt.Sprintf("%s (%s) at %v: %s", n.name, n.instance, time.Duration(n.t), f.why), f.hang
		if f.stack != "" {
			n.out.Fell += "\n" + f.stack
		}
	}
	code := int64(2) // exit code of a Go panic
	if f.hang {
		code = -1
	}
	n.die(code, history.Fell+cutText(f.why))
	return true
}

// Rules can loop. Sound ones tick at most 50 times in 100 ms, and repeat other requests at one instant a few times for each held lease.
const (
	spinTime  = int64(100 * time.Millisecond)
	ticksMax  = 512 // per spinTime; looping rules reach a thousand, because timers are late
	callsMax  = 1 << 14
	callsHeld = 64 // additional calls for each held lease
)

func (n *node) spun() *spin {
	if n.t-n.spin.since >= spinTime {
		n.spin = spin{since: n.t}
	}
	return &n.spin
}

func (n *node) called() bool {
	s := n.spun()
	s.calls++
	return n.repeats(s.calls)
}

// repeats ends a process that repeats its own requests too often, and reports whether it did.
func (n *node) repeats(often int) bool {
	return n.tooMany(often, callsMax+callsHeld*len(n.shell.terms))
}

func (n *node) tooMany(often, most int) bool {
	if often <= most {
		return false
	}
	n.fall = fall{hang: true, why: fmt.Sprintf("hang: its rules went on without an end, %d times while hardly any time passed", often)}
	return n.fallen()
}
