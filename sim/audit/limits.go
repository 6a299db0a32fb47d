package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
)

// limits are those of the judge of storms, with the fleet's timings.
type limits struct {
	check.Params
	margin int64
}

// setTTL completes the timings by the TTL of the first term.
func (p *limits) setTTL(ttl int64) {
	if ttl == 0 || p.margin != 0 {
		return
	}
	d := time.Duration(ttl)
	p.TTL = d
	p.Renew = cmp.Or(p.Renew, d/3)
	p.RenewTimeout = cmp.Or(p.RenewTimeout, d/10)
	p.Heartbeat = cmp.Or(p.Heartbeat, d/3)
	p.Discovery = cmp.Or(p.Discovery, d/3)
	p.margin = p.Margin()
}

// agenda has the time of the log, and judgements that wait for what follows.
type agenda struct {
	now    int64
	over   bool // nothing follows
	timers []timer
}

type timer struct {
	at  int64
	run func()
}

// later runs f once the log is past at.
func (a *agenda) later(at int64, f func()) {
	k, _ := slices.BinarySearchFunc(a.timers, at+1, func(t timer, at int64) int { return int(min(max(t.at-at, -1), 1)) })
	a.timers = slices.Insert(a.timers, k, timer{at, f})
}

func (a *agenda) reach(at int64) {
	for len(a.timers) > 0 && a.timers[0].at < at {
		f := a.timers[0].run
		a.timers = a.timers[1:]
		f()
	}
}
