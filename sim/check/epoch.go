package check

import (
	"cmp"
	"math"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// epoch is one life of Redis' data. It begins with the first script that finds another Redis. Earlier grants are void in it: owners assert
// their leases anew, and for one quarantine nothing else is granted. Its length follows from the run's TTL, not from the key.
type epoch struct {
	value string // of its key, as last seen
	since int64  // it did not begin before; 0: not in this history
	until int64  // nor after; never: that was not seen
	shown int64  // when its beginning was shown
	blind int64  // when it was last lost from sight what Redis does
	down  bool   // it is not seen now
}

// quarantined begins the reason of who is refused because a quarantine lasts (docs/log.md).
const quarantined = "quarantine"

// never is an instant that does not come.
const never = int64(math.MaxInt64)

// clockStep is what one reading of Redis' clock can be off: it counts milliseconds.
const clockStep = int64(time.Millisecond)

// blur is how late what Redis did may be shown: a replication stream is read when it comes. In virtual time nothing is late.
func (p Params) blur() int64 {
	if p.Redis == "model" {
		return 0
	}
	return eventAllowance
}

// epochs follows the epoch. A key that is written before anybody is there declares that nothing was lost.
func (w *world) epochs(e *history.Event) {
	if e.Kind == history.RedisEpoch && e.N == 0 {
		w.lossDetected()
	}
	w.epoch.follow(w, e)
}

func (p *epoch) follow(w *world, e *history.Event) {
	switch e.Kind {
	case history.RedisEpoch:
		switch {
		case w.replicated() && e.N != 0: // another server, whose epoch may have gone on
			began := w.servers.began[e.Reason]
			p.since, p.until, p.shown = began, cmp.Or(began, never), began
		case e.N == 0 && len(w.instances) > 0:
			p.since, p.until, p.shown = max(p.since, w.earliest(w.now)), w.now, w.now
			w.servers.begins(e)
		case e.N != 0 && e.Reason != p.value && p.blind != 0:
			p.since, p.until = max(p.since, p.blind), never
		}
		p.value = e.Reason
	case history.RedisFlushed:
		p.lost(w.earliest(e.T), e.T)
	case history.TapDown:
		p.blind, p.down = w.earliest(e.T), true
		p.stopped(w)
	case history.RedisUp:
		p.stopped(w)
	case history.TapUp:
		p.down = false
	}
}

// shows reports whether the stream of Redis shows when the injection takes its data: it may grant for a while after the fault has begun.
func (p *epoch) shows(w *world, inj *injection) bool { return inj.did == didPlan && w.shows() }

// stopped takes the end of the server, or that it is back, for the end of its data where a fault of the plan takes them.
func (p *epoch) stopped(w *world) {
	if !w.shows() {
		return
	}
	for _, inj := range w.open {
		if inj.did == didPlan && inj.forgets() && p.shown < inj.start {
			p.lost(max(inj.start, w.earliest(w.now)), w.now)
		}
	}
}

// lost ends an epoch not before at; the next begins when somebody notices.
func (p *epoch) lost(at, shown int64) { p.since, p.until, p.shown = at, never, shown }

// quarantine returns until when nothing is granted, at least and at most: Redis' clock may run fast or slow by the margin of a window.
func (w *world) quarantine() (first, last int64) { return w.epoch.quarantine(w) }

func (p *epoch) quarantine(w *world) (first, last int64) {
	length, off := int64(w.TTL), w.margin()+expirySlack
	switch {
	case p.since == 0 || w.Foreign: // how another program waits is its own affair: G1 judges
		return 0, never
	case p.until == never || p.down:
		return p.since + length - off, never
	}
	return p.since + length - off, p.until + length + off
}
