package check

import (
	"fmt"

	"time"
)

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

// needs are the commands that the instances of a system may send.
type needs struct {
	constant int64
	start    int64 // extra for a new process: greetings of connections, checks, unknown scripts
	beats    bool  // each instance reads the others' heartbeats
	look     func(g *g14) int64
	again    int64   // discoveries while not all is settled, one per tenth of an interval
	discover bool    // one discovery per discovery interval, however often the instance renews
	asked    bool    // each other instance may cause one more discovery by a request for a lease
	own      int64   // per own term that begins or ends
	others   float64 // per term of another instance that begins or ends
	session  int64   // per intent session that has not ended, for the reads of a waiting process
	write    int64   // per record of a session, or event about one
	request  int64   // per request of a client to the instance
	silence  int64   // extra while Redis or the network fails the instance, beside looksRefused
	stuck    int64   // extra then, per own term of the last TTL: failed releases and writes are retried
}

var pollingNeeds = needs{
	constant: 22, start: 15, beats: true, look: lookAll, again: 12, discover: true, asked: true, own: 2, others: 0.5, silence: 100,
}

var electionNeeds = needs{
	constant: 4, start: 16, look: func(*g14) int64 { return 1 }, again: 6, own: 2, others: 1, silence: 44,
}

var intentNeeds = needs{
	constant: 30, start: 10, look: func(*g14) int64 { return 2 }, again: 12, own: 5, session: 3, write: 3, request: 8, silence: 80, stuck: 3,
}

// looksRefused is the number of extra discoveries per interval while a fault fails the instance. Each is retried ever more rarely, and
// leases that the instance may not acquire stay free.
const looksRefused = 6

// lookAll is a discovery of all sessions and heartbeats. SCAN finds both among all keys, of which a session has three (its own, its
// lease, its fence). They are read 1,000 at a time.
func lookAll(g *g14) int64 {
	pages := func(keys int) int64 { return int64(1 + keys/1000) }
	sessions := len(g.w.created)
	return 2*pages(3*sessions+g.listed()) + 2*pages(sessions) + pages(g.listed())
}

type budget struct {
	constant int64
	rounds   int64 // renewals, heartbeats and reads of others' heartbeats, per hundred
	looks    int64
	changes  int64 // discoveries while not all is settled
	moves    int64
	work     int64 // sessions' records and clients' requests
	silence  int64
}

func (b budget) total() int64 {
	return b.constant + b.rounds + b.looks + b.changes + b.moves + b.work + b.silence
}

func (b budget) String() string {
	text := fmt.Sprintf("its budget is %d: %d, %d for renewals and heartbeats, %d for looks", b.total(), b.constant, b.rounds, b.looks)
	for _, more := range []struct {
		n   int64
		why string
	}{{b.changes, "what changed"}, {b.moves, "leases that moved"}, {b.work, "sessions' work"}, {b.silence, "faults"}} {
		if more.n > 0 {
			text += fmt.Sprintf(", %d for %s", more.n, more.why)
		}
	}
	return text
}

func (g *g14) budget(l *load) budget {
	held := 0
	if i := l.node.current; i != nil {
		held = len(i.held)
	}
	hundreds := func(n int) int64 { return int64(n+99) / 100 }
	others := 0
	if g.needs.beats {
		others = g.listed()
	}
	now, look := g.now(), g.needs.look(g)
	own, all := l.own.sum(now, sinceBuckets), g.moves.sum(now, sinceBuckets)
	b := budget{
		constant: g.needs.constant + g.pace.fetches,
		rounds:   4 * (1 + hundreds(held) + hundreds(others)),
		looks:    g.pace.looks * look,
		moves:    g.needs.own*own + int64(g.needs.others*float64(all-own)),
		work: g.needs.write*g.writes.sum(now, sinceBuckets) + g.needs.request*l.requests.sum(now, sinceBuckets) +
			g.pace.reads*int64(len(g.open)) + int64(g.w.Tuners)*g.vain.sum(now, sinceBuckets),
	}
	g.acknowledged(&b, l, hundreds(held), own)
	if g.needs.asked {
		b.constant += int64(min(60, 2*g.listed())) // an instance that lacks leases asks each owner, twice per discovery
	}
	if g.since(max(1, l.began)) {
		b.constant += g.needs.start
	}
	if g.unsettled(l) {
		looks := g.needs.again
		if g.state(l) == stateMoves { // only leases moved
			looks -= looks / 3
		}
		if g.needs.asked {
			looks += min(askedMost, int64(g.listed()/askedShare))
		}
		b.changes = g.spells() * looks * look
	}
	for f := failRefusing; f <= failRedis; f++ {
		if g.failing(l, f) {
			stuck := l.own.sum(now, min(tallyBuckets, int64(g.w.TTL)/g.bucket+sinceBuckets))
			b.silence = g.needs.silence + g.waits()*12*4 + g.pace.spells*looksRefused*look + g.needs.stuck*stuck
		}
	}
	return b
}

// spells returns the number of intervals with something to settle: all of them in a quarantine, else as many as the changes take.
func (g *g14) spells() int64 {
	if g.quarantined() {
		return g.pace.spells
	}
	return min(g.pace.spells, g.pace.settles*max(1, g.stirs.sum(g.now(), sinceBuckets)))
}

// acknowledged adds the cost of acknowledgements. A WAIT follows each hundred renewals or assertions. A WAIT and a script that reads the
// epoch again follow each acquisition. A start may have tried all slots before it found one, or none.
func (g *g14) acknowledged(b *budget, l *load, held, own int64) {
	tried := l.slots.sum(g.now(), sinceBuckets) + g.vain.sum(g.now(), sinceBuckets)
	b.rounds += g.waits() * 4 * (1 + held)
	b.moves += g.waits() * 2 * own
	b.work += g.waits() * 2 * int64(g.w.Tuners) * tried
}

// waits returns 1 if acknowledgements count, else 0.
func (g *g14) waits() int64 {
	if g.w.replicated() && g.w.Replicas > 0 {
		return 1
	}
	return 0
}

// unsettled reports whether the process may run more than one discovery per interval: it is new, was disturbed, or something changed.
func (g *g14) unsettled(l *load) bool {
	if g.since(max(1, l.began)) || g.failing(l, failOther) || g.quarantined() {
		return true
	}
	for _, at := range g.changes {
		if g.since(at) {
			return true
		}
	}
	return false
}

// quarantined reports whether Redis returned as another one so recently that a quarantine lasts, or has just ended.
func (g *g14) quarantined() bool {
	at := g.changes[changeEpoch]
	return at != 0 && g.w.now <= at+int64(g.w.TTL+2*g.w.Renew)
}
