package check

import "time"

// pace is how often an instance does in one window what has an interval of its own, which may be any beside that of renewals.
type pace struct {
	looks   int64 // while all is settled
	spells  int64 // intervals of looks in each of which something may change, and is looked at until it is settled
	settles int64 // intervals of looks that one change takes to settle
	reads   int64 // of a session that has not ended
	fetches int64 // waits for a start that ended without one, beside those that the constant has room for
}

// usualLooks are those of a window where an instance looks no more often than it renews.
const usualLooks = 3

// A worker waits for a start for fetchBlock at a time. At the usual timings it does so for usualFetches times in a window.
const (
	fetchBlock   = time.Second
	usualFetches = 11
)

// paceOf follows from the timings of the run and from nothing that happens in it.
func (g *g14) paceOf(window int64) pace {
	p := pace{looks: usualLooks, spells: 1, settles: 1, reads: g.needs.session}
	if g.needs.discover {
		discovery := max(1, int64(g.w.Discovery))
		p.looks = max(usualLooks, 2+window*101/100/discovery) // its clock may run a percent fast
		p.spells = max(1, (int64(g.w.Renew)+discovery-1)/discovery)
		p.settles = max(1, (int64(failoverAllowance)+discovery-1)/discovery)
	}
	if g.needs.session > 0 {
		between := max(1, int64(g.w.Poll)*3/4) // a client waits for half an interval of polls to a whole one
		p.reads = max(g.needs.session, (window+between-1)/between)
		p.fetches = max(0, window/int64(fetchBlock)-usualFetches)
	}
	return p
}
