package check

import (
	"fmt"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g14 judges that in any window of one renewal interval an instance sends no more client commands than its budget, whatever happens. The
// engines count the commands sent to Redis (history.Commands). The budget follows from the history alone.
//
// A window is eleven buckets, of which ten make an interval: wherever an interval begins, it lies within eleven. The reaction to a change
// takes up to an interval more, so changes in the interval before the window count too. Nothing is excused. A stall of the host above the
// renewal timeout counts as a Redis that does not answer.
type g14 struct {
	hooks
	needs  needs
	bucket int64
	pace   pace
	loads  map[*node]*load

	changes [changeKinds]int64 // time of the last change of each kind; 0: none
	stirs   tally
	moves   tally           // terms of any instance that began or ended
	writes  tally           // records and events written to Redis by any instance
	vain    tally           // starts that found no free tuner slot
	open    map[string]bool // intent sessions that have not ended
	gone    tally           // heartbeats that ended
	touches touch           // faults of all nodes
	away    map[string]bool // instances without their former heartbeat

	most [states]Load
}

// askedMost is the most discoveries in an interval that requests of other instances cause: a fiftieth of an interval lies between two.
// One in askedShare of the instances may send such requests.
const (
	askedMost  = 50
	askedShare = 4
)

const (
	windowBuckets = 11
	sinceBuckets  = 21 // a window and the interval before it
)

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

// change is a kind of change that causes repeated discoveries until all is settled.
type change uint8

const (
	changeCrash change = iota
	changeLeave
	changeJoin
	changeSessions
	changeMoves
	changeEpoch
	changeKinds
)

// load is the commands that one process sends, and the facts that its budget depends on.
type load struct {
	node     *node
	began    int64
	sent     tally
	own      tally // own terms that began or ended
	slots    tally // own terms on a tuner slot that began
	requests tally // clients' requests to it
	touches  touch
	over     bool // its last window broke the budget; each excess is reported once
}

// touch records when faults of one node, or of all, last failed their victims, by kind of failure.
type touch struct {
	open [failures]int
	last [failures]int64 // end of the last one; 0: none
}

func (g *g14) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.bucket, g.loads = int64(history.Bucket(w.Renew)), map[*node]*load{}
	g.pace = g.paceOf(windowBuckets * g.bucket)
	g.away, g.open = map[string]bool{}, map[string]bool{}
}

func (g *g14) load(n *node) *load {
	l := g.loads[n]
	if l == nil {
		l = &load{node: n}
		g.loads[n] = l
	}
	return l
}

// now returns the bucket that ends now, or the current one: a process that ends has used only a part of it.
func (g *g14) now() int64 { return (g.w.now - 1) / g.bucket }

func (g *g14) changed(c change) {
	g.changes[c] = max(1, g.w.now)
	g.stirs.add(g.now(), 1)
}

// listed returns how many instances may have counted as alive in this window: the living, and the dead while their heartbeats last.
func (g *g14) listed() int {
	return max(g.w.alive, len(g.w.rest.beats)+int(g.gone.sum(g.now(), windowBuckets)))
}

// since reports whether t lies in the window that ends now or in the interval before it. 0 is never.
func (g *g14) since(t int64) bool { return t != 0 && t > g.w.now-sinceBuckets*g.bucket }

func (g *g14) event(e *history.Event) {
	switch e.Kind {
	case history.Commands:
		g.judge(g.load(g.w.node(e.Node)), e.N)
	case history.Spawned:
		n := g.w.node(e.Node)
		g.loads[n] = &load{node: n, began: g.w.now, touches: g.load(n).touches}
		g.changed(changeJoin)
	case history.Ready:
		g.changed(changeJoin)
	case history.Exited:
		g.changed(changeLeave)
		if e.N < 0 {
			g.changed(changeCrash)
		}
	case history.Stopped:
		g.changed(changeLeave)
	case history.RedisBeatGone:
		g.away[e.Instance] = true
		g.gone.add(g.now(), 1)
		g.changed(changeLeave)
	case history.RedisBeat:
		if g.away[e.Instance] {
			delete(g.away, e.Instance)
			g.changed(changeJoin)
		}
	case history.SessionAdded, history.SessionRemoved, history.SessionPaused, history.SessionResumed:
		g.changed(changeSessions)
	case history.RedisUp, history.RedisFlushed, history.RedisLife, history.Routed: // a quarantine follows, or instances wait for its end
		g.changed(changeEpoch)
	case history.RedisState, history.RedisIntent:
		g.writes.add(g.now(), 1)
		g.record(e)
	case history.Asked:
		g.load(g.w.node(e.Node)).requests.add(g.now(), 1)
	}
}

func (g *g14) record(e *history.Event) {
	if e.Kind != history.RedisState {
		return
	}
	state, reason, _ := strings.Cut(e.Reason, " ")
	if reason == reasonNoTuner {
		g.vain.add(g.now(), 1)
	}
	if state == stateEnded || state == stateGone {
		delete(g.open, e.Session)
	} else {
		g.open[e.Session] = true
	}
}

func (g *g14) began(t *term) {
	g.moved(t)
	if t.inst.node != nil && strings.HasPrefix(t.session.id, tunerPrefix) {
		g.load(t.inst.node).slots.add(g.now(), 1)
	}
}

func (g *g14) ended(t *term, _ ending) { g.moved(t) }

func (g *g14) moved(t *term) {
	g.moves.add(g.now(), 1)
	g.changed(changeMoves)
	if t.inst.node != nil {
		g.load(t.inst.node).own.add(g.now(), 1)
	}
}

func (g *g14) injected(inj *injection) {
	if f := failureOf(inj); f != failNothing {
		t := g.touched(inj)
		t.last[f] = max(1, g.w.now)
		if inj.lasts() {
			t.open[f]++
		}
	}
}

func (g *g14) healed(inj *injection) {
	if f := failureOf(inj); f != failNothing {
		t := g.touched(inj)
		t.last[f] = g.w.now + inj.lingers()
		if inj.lasts() {
			t.open[f]--
		}
		if inj.node != nil {
			g.changed(changeJoin) // the others hear it again
		}
	}
}

func (g *g14) touched(inj *injection) *touch {
	if inj.node == nil {
		return &g.touches
	}
	return &g.load(inj.node).touches
}

// failing reports whether such a fault fails the process now, or did since the interval before the window. If the host or Redis stalls
// for more than a renewal timeout, that counts as a Redis that does not answer.
func (g *g14) failing(l *load, f failure) bool {
	if f == failRedis && g.w.longest(g.w.now-sinceBuckets*g.bucket, g.w.now) > int64(g.w.RenewTimeout) {
		return true
	}
	return l.touches.open[f]+g.touches.open[f] > 0 || g.since(l.touches.last[f]) || g.since(g.touches.last[f])
}

// judge adds the n commands of the bucket that ends now. It holds the window that ends with this bucket against its budget.
func (g *g14) judge(l *load, n int64) {
	now := g.now()
	l.sent.add(now, n)
	g.exercised++
	sent := l.sent.sum(now, windowBuckets)
	b := g.budget(l)
	limit := b.total()
	g.most[g.state(l)].see(sent, limit)
	if sent <= limit {
		l.over = false
		return
	}
	if !l.over {
		l.over = true
		g.breach(breach{from: g.w.now, timed: true}, "%s sent %d commands in the %v before %s; %s", l.node.who(), sent,
			time.Duration(windowBuckets*g.bucket), clock(g.w.now), b)
	}
}

func (n *node) who() string {
	if n.current != nil {
		return n.current.who()
	}
	return n.name
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

func (g *g14) finish() {
	if g.w.Foreign { // another program has its own rules
		g.untested = "the nodes are another program, of which it is only reported"
		if g.breaks > 0 {
			g.untested += ": " + strings.Join(g.texts(), "; ")
		}
		g.breaks = 0
	}
}

func (g *g14) verdict() Verdict {
	if g.exercised == 0 && g.untested == "" {
		g.untested = "the history does not tell how many commands the nodes sent"
	}
	v := g.hooks.verdict()
	worst := Load{}
	for s, l := range g.most {
		if l.Windows == 0 {
			continue
		}
		l.State = state(s).String()
		v.Loads = append(v.Loads, l)
		if l.closer(worst.Sent, worst.Limit) {
			worst = l
		}
	}
	if v.Value, v.Limit = worst.Sent, worst.Limit; v.Limit > 0 {
		v.Detail = join(v.Detail, fmt.Sprintf("%d windows, nearest to the limit: %s", v.Exercised, worst.State))
	}
	return v
}
