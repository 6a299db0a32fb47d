package check

import "github.com/leasestorm/leasestorm/sim/fault"

// A process stands still from a freeze on, and of a check-send (which is open before) from when it says that it pauses.

// stands counts one more fault by which the node's process stands still, or n = -1, one less.
func (w *world) stands(at *node, n int) {
	switch at.stopped += n; at.stopped {
	case 0:
		at.still.to = w.now
	case n:
		at.still.from = w.now
	}
}

// pauses: the node stops itself, which the first fault asked for that is open and waits for it; else it does so of its own accord.
func (w *world) pauses(at *node) {
	var asked *injection
	w.looks(len(w.open))
	for _, inj := range w.open {
		waits := inj.node != nil && inj.node == at && inj.open && inj.Kind == fault.CheckSend && !inj.stops
		if waits && (asked == nil || inj.id < asked.id) {
			asked = inj
		}
	}
	if asked != nil {
		asked.stops = true
		w.stands(at, 1)
	}
}

// stopsNone: a process that has ended does not stand still.
func (w *world) stopsNone(at *node) {
	w.looks(len(w.open))
	for _, inj := range w.open {
		if inj.node == at && inj.stops {
			inj.stops = false
			w.stands(at, -1)
		}
	}
}

// standsStill reports whether the instance's process has stood still for so long that nothing of it arrives any more: it sends nothing, and
// what was on its way has come.
func (w *world) standsStill(inst string) bool {
	n := w.nodeOf(inst)
	if n == nil || n.stopped == 0 {
		return false
	}
	began := n.still.from
	return w.now > began+sentLate+w.stall(began-eventAllowance, w.now)
}

// thawedSince reports whether the instance's process went on at any moment since then. The thaw's event follows it: what arrives just
// before that may have been sent after.
func (w *world) thawedSince(inst string, since int64) bool {
	n := w.nodeOf(inst)
	return n != nil && n.still.to >= since
}
