package check

import "time"

// pace is how often an instance acts in one window on intervals of its own, which may be shorter or longer than renewal intervals.
type pace struct {
	looks   int64 // discoveries while all is settled
	spells  int64 // discovery intervals in which a change may cause more discoveries
	settles int64 // discovery intervals that one change takes to settle
	reads   int64 // reads of a session that has not ended
	fetches int64 // waits for a start that timed out, beside those that the constant covers
}

// usualLooks is the number of discoveries in a window if the discovery interval is not below the renewal interval.
const usualLooks = 3

// A worker waits fetchBlock at a time for a start. With the usual timings there are usualFetches such waits in a window.
const (
	fetchBlock   = time.Second
	usualFetches = 11
)

// paceOf computes the pace from the run's timings alone.
func (g *g14) paceOf(window int64) pace {
	p := pace{looks: usualLooks, spells: 1, settles: 1, reads: g.needs.session}
	if g.needs.discover {
		discovery := max(1, int64(g.w.Discovery))
		p.looks = max(usualLooks, 2+window*101/100/discovery) // its clock may run 1 % fast
		p.spells = max(1, (int64(g.w.Renew)+discovery-1)/discovery)
		p.settles = max(1, (int64(failoverAllowance)+discovery-1)/discovery)
	}
	if g.needs.session > 0 {
		between := max(1, int64(g.w.Poll)*3/4) // a client waits between half a poll interval and a whole one
		p.reads = max(g.needs.session, (window+between-1)/between)
		p.fetches = max(0, window/int64(fetchBlock)-usualFetches)
	}
	return p
}
