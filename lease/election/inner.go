package election

import (
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/lease"
)

func init() {
	of := inner.Of
	inner.Of = func(x any) any {
		switch x := x.(type) {
		case *Election:
			return innerElection{x}
		case *Group:
			return of(x.keeper) // a source of the events of all its elections' leases, whose names are the leader keys
		}
		return of(x)
	}
}

// innerElection has the methods of an Election for lease/metrics and lease/traces.
type innerElection struct{ *Election }

// SubscribeChanges calls f with the changes of this election's lease. Each such
// listener receives the events of all elections of a Group.
func (e innerElection) SubscribeChanges(f func(lease.Event)) (cancel func()) {
	var dropped int64 // missed events, perhaps of this election, not reported yet
	changes := inner.Of(e.g.keeper).(interface {
		SubscribeChanges(func(lease.Event)) (cancel func())
	})
	return changes.SubscribeChanges(func(ev lease.Event) {
		dropped += ev.Dropped
		if ev.Name == e.key {
			ev.Dropped, dropped = dropped, 0
			f(ev)
		}
	})
}

// Vacancies returns how long there was no leader before this member led, if
// known. A takeover counts from the expiry of the last leader's key, a handover
// from the last leader's notice of release.
func (e innerElection) Vacancies() (takeovers, handovers inner.Histogram) {
	s := &e.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeovers.Copy(), s.handovers.Copy()
}
