package check

import (
	"cmp"
	"sort"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g14 checks that in any renewal interval, wherever it begins, an instance sends no more client commands than the budget of its state. The
// engines count the commands sent to Redis (history.Commands). The budget follows from the history alone. Nothing is excused.
//
// Ten buckets make an interval. g14 counts in windows of eleven buckets, so every interval lies within one window. The reaction to a change
// takes up to an interval more, so changes in the interval before the window count too.
type g14 struct {
	hooks
	causes
	bucket int64
	since  int64 // start of the interval before the window that ends now
	loads  map[*node]*load
	vain   []int64         // starts that found no free slot
	open   map[string]bool // intent sessions that have not ended
	most   [states]Load
}

// causes are the times of the events that put one instance, or all instances, into a state.
type causes [states][]int64

func (c *causes) add(s state, at int64) { c[s] = append(c[s], at) }

const windowBuckets, sinceBuckets = 11, 21 // of a window, and of a window and the interval before it

// load is the commands that the process of a node sends, and the facts that its budget depends on.
type load struct {
	causes
	node  *node
	sent  []sent
	slots []int64 // own terms on a slot that began
	over  bool    // its last window broke the budget; each excess is reported once
}

// sent is the number of commands in the bucket that ends at at.
type sent struct{ at, n int64 }

// recent returns how many of the times, which are in order, lie in the window that ends now or in the interval before it.
func (g *g14) recent(times []int64) int64 {
	return int64(len(times) - sort.Search(len(times), func(i int) bool { return times[i] > g.since }))
}

func (g *g14) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.bucket, g.loads, g.open = int64(history.Bucket(w.Renew)), map[*node]*load{}, map[string]bool{}
}

func (g *g14) load(n *node) *load {
	if g.loads[n] == nil {
		g.loads[n] = &load{node: n}
	}
	return g.loads[n]
}

func (g *g14) changed(s state) { g.add(s, g.w.now) }

func (g *g14) event(e *history.Event) {
	switch e.Kind {
	case history.Commands:
		g.judge(g.load(g.w.fleet.node(e.Node)), e.N)
	case history.Spawned:
		n := g.w.fleet.node(e.Node)
		g.loads[n] = &load{node: n, causes: causes{stateCold: {g.w.now}}}
	case history.Ready:
		g.changed(stateJoin)
	case history.Exited, history.Stopped, history.RedisBeatGone:
		g.changed(stateLeave)
		if e.Kind == history.Exited && e.N < 0 {
			g.changed(stateCrash)
		}
	case history.RedisBeat:
		if g.w.rest.since == g.w.now { // it was not there before
			g.changed(stateJoin)
		}
	case history.SessionAdded, history.SessionRemoved, history.SessionPaused, history.SessionResumed:
		g.changed(stateSessions)
	case history.RedisUp, history.RedisFlushed, history.RedisLife, history.Routed: // a quarantine follows, or instances wait for its end
		g.add(stateQuarantine, g.w.now+int64(g.w.TTL))
	case history.RedisIntent:
		g.changed(stateBusy)
	case history.RedisState:
		g.changed(stateBusy)
		g.record(e)
	case history.Asked:
		g.load(g.w.fleet.node(e.Node)).add(stateBusy, g.w.now)
	}
}

func (g *g14) record(e *history.Event) {
	state, reason, _ := strings.Cut(e.Reason, " ")
	if g.open[e.Session] = true; state == stateEnded || state == stateGone {
		delete(g.open, e.Session)
	}
	if reason == reasonNoTuner {
		g.vain = append(g.vain, g.w.now)
	}
}

func (g *g14) began(t *term)           { g.moved(t) }
func (g *g14) ended(t *term, _ ending) { g.moved(t) }

func (g *g14) moved(t *term) {
	g.changed(stateMoves)
	if t.inst.node != nil {
		l := g.load(t.inst.node)
		l.add(stateMoves, g.w.now)
		if !t.over && strings.HasPrefix(t.session.id, tunerPrefix) {
			l.slots = append(l.slots, g.w.now)
		}
	}
}

// judge adds the n commands of the bucket that ends now, and holds the window that ends with it against its limit.
func (g *g14) judge(l *load, n int64) {
	end := (g.w.now-1)/g.bucket*g.bucket + g.bucket // the process may end before its bucket does
	g.since = end - sinceBuckets*g.bucket
	l.sent = append(l.sent, sent{end, n})
	g.exercise("")
	sum := int64(0)
	for i := len(l.sent) - 1; i >= 0 && l.sent[i].at > end-windowBuckets*g.bucket; i-- {
		sum += l.sent[i].n
	}
	inst := cmp.Or(l.node.current, &instance{id: l.node.name}) // it may not have reported yet
	s := g.state(l, len(inst.held))
	limit := g.limit(l, s, len(inst.held))
	most := &g.most[s]
	most.Windows++
	most.Most = max(most.Most, sum)
	if most.Limit == 0 || sum*most.Limit > most.Sent*limit {
		most.Sent, most.Limit = sum, limit
	}
	if sum > limit && !l.over {
		g.breach(breach{from: g.w.now, timed: true}, "%s sent %d commands in the %v before %s; its budget is %d (%s)", inst.who(), sum,
			time.Duration(windowBuckets*g.bucket), clock(g.w.now), limit, budgets[s].name)
	}
	l.over = sum > limit
}

func (g *g14) finish() {
	switch {
	case g.w.Foreign: // another program has its own rules
		g.untested = "the nodes are another program, of which it is only reported"
		if len(g.breaks) > 0 {
			g.untested += ": " + strings.Join(g.texts(), "; ")
		}
		g.breaks = nil
	case g.exercised == 0:
		g.untested = "the history does not tell how many commands the nodes sent"
	}
	worst := Load{}
	for s, l := range g.most {
		if l.Windows > 0 {
			l.State = budgets[s].name
			g.v.Loads = append(g.v.Loads, l)
			if worst.Limit == 0 || l.Sent*worst.Limit > worst.Sent*l.Limit {
				worst = l
			}
		}
	}
	if g.v.Value, g.v.Limit = worst.Sent, worst.Limit; g.v.Limit > 0 {
		g.note("%d windows, nearest to the limit: %s", g.exercised, worst.State)
	}
}
