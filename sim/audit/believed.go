package audit

import (
	"github.com/leasestorm/leasestorm/sim/audit/logs"
	"github.com/leasestorm/leasestorm/sim/history"
)

var events = map[logs.Kind]history.Kind{
	logs.Acquired: history.Acquired, logs.Renewed: history.Renewed, logs.RenewFailed: history.RenewFailed, logs.Lost: history.Lost,
	logs.Released: history.Released, logs.AcquireFailed: history.AcquireFailed, logs.Epoch: history.Ready, logs.Drained: history.Stopped,
}

// Event returns an entry as an event of a history; its kind is 0 if the history has none for it. If the entry does not say when the window
// ends, the event has the latest possible end.
func (a *Auditor) Event(e *logs.Entry) history.Event {
	start := a.start
	ev := history.Event{
		T: e.At - start, Kind: events[e.Kind], Node: e.Instance, Instance: e.Instance, Session: e.Lease, Fence: e.Fence, Reason: e.Reason,
	}
	if e.Kind == logs.Acquired || e.Kind == logs.Renewed {
		ev.Until = e.Until - start
		if e.Until == 0 {
			ev.Until = ev.T + int64(a.p.TTL) - a.p.margin
		}
	}
	return ev
}

// Start returns the time of the first entry, from which the times of events count.
func (a *Auditor) Start() int64 { return a.start }

// Tally is how often a guarantee broke, and how often trouble excused it.
type Tally struct {
	ID             string
	Broke, Excused int
}

// Tallies returns the tally of each guarantee so far.
func (a *Auditor) Tallies() (all []Tally) {
	for _, f := range a.findings() {
		all = append(all, Tally{f.id, f.broke, f.excused})
	}
	return all
}
