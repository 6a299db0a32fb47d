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

func (g *g14) finish() {
	if g.w.Foreign { // another program has its own rules
		g.untested = "the nodes are another program, of which it is only reported"
		if len(g.breaks) > 0 {
			g.untested += ": " + strings.Join(g.texts(), "; ")
		}
		g.breaks = nil
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
