package check

import (
	"math"

	"github.com/leasestorm/leasestorm/sim/history"
)

// epoch is the life of Redis' data that goes on. One begins with the first script, whoever sent it, that finds that Redis is
// another one. What was granted before is void in it: who trusts its lease asserts it anew, and for one quarantine nothing else is
// granted. How long that is follows from the run's TTL, and not from what the key says.
type epoch struct {
	value string // of its key, as last seen
	began int64  // when it began; if that was not seen, some time before; 0: it did not begin in this history
	seen  bool   // its beginning was seen
	blind int64  // when it was last lost from sight what Redis does
	down  bool   // it is not seen now
}

// quarantined begins the reason of who is refused because a quarantine lasts (docs/log.md).
const quarantined = "quarantine"

// never is an instant that does not come.
const never = int64(math.MaxInt64)

// clockStep is what one reading of Redis' clock can be off: it counts milliseconds.
const clockStep = int64(1e6)

// blur is how far off a time may be that Redis' stream tells, and none in virtual time.
func (p Params) blur() int64 {
	if p.Redis == "model" {
		return 0
	}
	return clockStep
}

// epochs takes note of what happens to the epoch. What is written before anybody is there declares that nothing was lost.
func (w *world) epochs(e *history.Event) {
	p := &w.epoch
	switch e.Kind {
	case history.RedisEpoch:
		switch {
		case e.N == 0 && len(w.instances) > 0:
			p.began, p.seen = e.T, true
		case e.N != 0 && e.Reason != p.value && p.blind != 0:
			p.began, p.seen = max(p.began, p.blind), false
		}
		p.value = e.Reason
	case history.RedisFlushed:
		w.epoch.lost(e.T)
	case history.TapDown:
		p.blind, p.down = e.T, true
	case history.TapUp:
		p.down = false
	}
}

// lost ends an epoch; the next begins when somebody notices.
func (p *epoch) lost(at int64) { p.began, p.seen = at, false }

// quarantine returns until when nothing is granted in the epoch: at least until first, and if its beginning was seen no longer than
// until last. Redis' clock may run fast or slow by the margin of a trust window, and a host that stalls shows late that it began.
func (w *world) quarantine() (first, last int64) {
	p := &w.epoch
	if p.began == 0 || w.Foreign { // how another program waits is its own affair: G1 judges
		return 0, never
	}
	end, off := p.began+int64(w.TTL), w.margin()+expirySlack+w.stall(p.began-wordAllowance, p.began)
	if !p.seen || p.down {
		return end - off, never
	}
	return end - off, end + off
}
