package stream

import (
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

const (
	// markEvery is the interval at which Redis writes its own time to the stream.
	markEvery = 50 * time.Millisecond
	// markWithin bounds the wait for that.
	markWithin = 250 * time.Millisecond
	// placedWithin is the precision that the judge needs for the time of a command, in ns.
	placedWithin = int64(4 * markEvery)
	// ttlSlack is how far two expiries of one TTL may differ, in ns: Redis rounds to milliseconds, and wall clocks drift.
	ttlSlack = int64(20 * time.Millisecond)
)

// stamps determines when Redis executed the commands of its stream. A busy host reads the stream late, so a lease would seem
// granted after its owner believed in it. Redis therefore writes its own time to the stream every markEvery. A command was executed
// between the marks before and after it, after the stream was last empty, and before the command was read. An expiry (execution
// plus a known TTL) narrows this interval. The stamp of an event is the interval's end. A StreamLate event marks intervals that are
// too wide to judge.
type stamps struct {
	ttls    [keyKinds]ttl // by kind of key, learned from expiries
	since   int64         // time of the last mark; waiting events were not executed before
	waiting []shown
	script  bool // inside a script, between MULTI and EXEC
	joins   bool // the next event belongs to the script of the last one
}

// shown is an event that waits for the next mark.
type shown struct {
	event history.Event
	kind  Kind
	fresh int64 // expiry that its command set, if that counts from the execution; else 0
	read  span  // from when the stream was last empty to when the command was read
	joins bool  // executed in one step with the event before it
}

type span struct{ from, to int64 }

// ttl is the known range of the TTL of a kind of key; several: there is more than one TTL.
type ttl struct {
	span
	known, several bool
}

func (s *stamps) add(e shown) {
	e.joins, s.joins = s.joins, s.script
	s.waiting = append(s.waiting, e)
}

// transaction handles the begin (MULTI) or end (EXEC) of a script.
func (s *stamps) transaction(begins bool) { s.script, s.joins = begins, false }

// mark stamps and returns the events since the last mark. now is the time of this mark.
func (s *stamps) mark(now int64) []history.Event {
	groups := s.groups(now)
	latest := now
	for i := len(groups) - 1; i >= 0; i-- { // no group was executed after the next one
		latest = min(latest, groups[i].at.to)
		groups[i].at.to = latest
	}
	events := make([]history.Event, 0, len(s.waiting))
	var late span
	for _, g := range groups {
		if s.since = max(s.since, g.at.from); g.at.to-s.since > placedWithin {
			if late.from == 0 {
				late.from = max(s.since, 1)
			}
			late.to = g.at.to
		}
		for _, e := range g.events {
			e.event.T = g.at.to
			events = append(events, e.event)
		}
	}
	if late.from != 0 {
		events = append(events, history.Event{T: late.from, Kind: history.StreamLate, Until: late.to})
	}
	s.waiting, s.since = s.waiting[:0], max(s.since, now)
	return events
}

// group holds the events of one script or single command, and the interval of its execution.
type group struct {
	events []shown
	at     span
}

func (s *stamps) groups(now int64) (all []group) {
	for begin := 0; begin < len(s.waiting); {
		end := begin + 1
		for end < len(s.waiting) && s.waiting[end].joins {
			end++
		}
		read := s.waiting[begin].read
		to := max(s.since, min(now, read.to))
		g := group{s.waiting[begin:end], span{min(to, max(s.since, read.from)), to}}
		for _, e := range g.events {
			if e.fresh != 0 {
				g.at = s.ttls[e.kind].narrow(g.at, e.fresh)
			}
		}
		all = append(all, g)
		begin = end
	}
	return all
}

// narrow narrows the interval of a command that set this expiry, and learns the TTL from it.
func (t *ttl) narrow(at span, expiry int64) span {
	seen := span{expiry - at.to, expiry - at.from}
	switch {
	case !t.known:
		t.span, t.known = seen, true
	case t.several:
	case seen.from > t.to+ttlSlack, seen.to < t.from-ttlSlack:
		t.several = true
	default:
		t.from = max(t.from, min(seen.from, t.to))
		t.to = min(t.to, max(seen.to, t.from))
	}
	if t.several {
		return at
	}
	to := max(at.from, min(at.to, expiry-t.from))
	return span{min(to, max(at.from, expiry-t.to)), to}
}
