package real

import (
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// stampSlack is how far a stamp may lie in the future or before its process, in ns: clocks are coarse and read one after the other.
const stampSlack = int64(50e6)

// stamped converts a node's message into an event of its slot. It stamps the event with the current time if the message has no stamp. It
// also does so, and returns false, if the stamp is no CLOCK_MONOTONIC since the process began.
func stamped(c *host.Clock, slot string, began int64, m protocol.Message) (e history.Event, ok bool) {
	now := c.Now()
	e = m.Event(slot)
	e.T, ok = now, true
	if m.T != 0 {
		if t := c.FromMono(m.T); t >= began-stampSlack && t <= now+stampSlack {
			e.T = min(max(t, began), now)
		} else {
			ok = false
		}
	}
	if m.Until > 0 && ok {
		e.Until = c.FromMono(m.Until)
	}
	return e, ok
}
