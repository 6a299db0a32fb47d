package check

import (
	"cmp"

	"github.com/leasestorm/leasestorm/sim/history"
)

// epoch is one life of Redis' data. The first script that finds another Redis begins it. Owners assert their earlier leases anew, and
// nothing else is granted for one quarantine. Its length follows from the run's TTL, not from the key.
type epoch struct {
	value string
	since int64 // earliest possible start; 0: not in this history
	until int64 // latest possible start; never: the start was not seen
	shown int64 // when its start was shown
	blind int64 // when the view of Redis' data was last lost
	down  bool  // the view is lost now
}

// quarantined is the prefix of the reason of a request that is refused during a quarantine (docs/log.md).
const quarantined = "quarantine"

// epochs follows the epoch. A key that is written before any instance is there declares that nothing was lost.
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
			w.servers.began[e.Reason] = max(1, e.T)
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

// stopped ends the epoch if a fault of the plan takes the data, as the server has ended or is back.
func (p *epoch) stopped(w *world) {
	if !w.shows() {
		return
	}
	for _, inj := range w.open {
		if inj.did == didPlan && inj.forgets() && p.shown < inj.From {
			p.lost(max(inj.From, w.earliest(w.now)), w.now)
		}
	}
}

// lost ends an epoch, at the earliest at the given time. The next epoch begins when an instance notices.
func (p *epoch) lost(at, shown int64) { p.since, p.until, p.shown = at, never, shown }

// quarantine returns until when nothing is granted, at least and at most. Redis' clock may run fast or slow by the margin of a window.
func (p *epoch) quarantine(w *world) (first, last int64) {
	length, off := int64(w.TTL), w.margin()+expirySlack
	switch {
	case p.since == 0 || w.Foreign: // another program chooses its own wait, which G1 judges
		return 0, never
	case p.until == never || p.down:
		return p.since + length - off, never
	}
	return p.since + length - off, p.until + length + off
}
