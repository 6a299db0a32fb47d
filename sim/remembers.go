package sim

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
)

// What a run remembers, generously: its events (twice, when they are put in order) and its sessions.
const (
	rememberedPoll    = 2 << 10 // bytes for one poll or one look or renewal, with all that is said of it
	rememberedSession = 10 << 10
	rememberedMax     = 1 << 50
	rememberedWait    = 1 << 10 // for one attempt at what another owns
)

// A history that was written by nobody but honest nodes has some bytes, of which the reckoned ones are the most. Nodes of others may ask
// without a pause, and much may go wrong: so this is what a history may have.
const (
	historyMin   = 256 << 20
	historyTimes = 4
)

// historyMax is how many bytes of events are taken of a run on the real engine.
func (c Config) historyMax() int64 {
	waits := 0.0
	if c.System == SystemIntents { // all workers ask for what is started
		waits = float64(c.Nodes) * float64(c.Sessions) * rememberedWait * float64(c.Duration()) / float64(c.Discovery)
	}
	return historyMin + historyTimes*c.Remembers() + int64(min(waits, rememberedMax))
}

// Remembers is how many bytes an honest run of that size remembers at the most, beside what each run does.
func (c Config) Remembers() int64 {
	sessions, nodes := float64(c.Sessions), float64(c.Nodes)
	if c.Plan != nil {
		for _, f := range c.Plan.Faults {
			switch f.Kind {
			case fault.SessionAdd:
				sessions += float64(max(f.Ms, 1))
			case fault.Join:
				nodes++
			}
		}
	}
	times := func(every time.Duration) float64 { return float64(c.Duration()) / float64(every) }
	bytes := sessions*(rememberedSession+rememberedPoll*(times(c.Poll)+times(c.Renew))) +
		nodes*rememberedPoll*(times(c.Renew)+times(c.Heartbeat)+times(c.Discovery))
	return int64(min(bytes, rememberedMax))
}
