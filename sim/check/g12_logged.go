package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g12 judges that every acquire, renewal, release and loss, success or failure, is one structured log entry with instance, endpoint,
// fence and time. It sums up events and entries per instance and kind: both need the same number and the same (endpoint, fence) pairs.
type g12 struct {
	hooks
	logs     *Logs // nil: not kept
	reported map[string]*[saidKinds]sum
	held     map[string]int // open terms of killed instances, at their end
	blind    []string       // nodes with events but no log
	missing  int
	endings  endings
}

func (g *g12) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.reported, g.held = map[string]*[saidKinds]sum{}, map[string]int{}
}

func (g *g12) event(e *history.Event) {
	g.endings.event(&g.hooks, e)
	if g.logs == nil || !needsEntry(e.Kind) {
		return
	}
	sumsOf(g.reported, e.Instance)[e.Kind-history.AcquireFailed].add(g.logs.hash(e.Session, e.Fence), e.Reason)
}

func (g *g12) aside(e *history.Event) { g.endings.aside(&g.hooks, e) }

func (g *g12) ended(t *term, how ending) {
	g.endings.ended(&g.hooks, t, how)
	if how == endExited && t.inst.killed {
		g.held[t.inst.id]++
	}
}

func (g *g12) finish() {
	switch {
	case g.logs == nil:
		g.untested = "the nodes' logs were not kept"
		return
	case g.logs.entries == 0 && g.w.Foreign:
		g.untested = "the nodes keep no structured log"
		return
	}
	if g.logs.bare > 0 {
		g.broke(nil, "log entries that lack one of instance, endpoint, fence, ts: %d, first %s", g.logs.bare, g.logs.example)
	}
	if !g.w.ends { // the nodes went on to report and log
		g.untested = "the history has no end up to which logs could be held against it"
		return
	}
	for _, id := range sortedKeys(g.reported) {
		g.compare(g.w.instance(id), g.reported[id])
	}
	if len(g.blind) > 0 {
		g.untested = fmt.Sprintf("no log, an empty one, or one too large to be read, of %s", count(len(g.blind), "node", g.blind[0]))
	}
}

func count(n int, what, first string) string {
	if n == 1 {
		return first
	}
	return fmt.Sprintf("%d %ss, %s first", n, what, first)
}

// killedSlack is how many entries of a killed process may be missing, beside one for each lease that it held or could have been refused.
// Events and entries leave a process through two pipes, and the kill may fall between them.
const killedSlack = 16

func (g *g12) slack(i *instance, kind history.Kind) int {
	if kind == history.AcquireFailed {
		return len(g.w.sessions.all) + killedSlack
	}
	return g.held[i.id] + len(i.held) + killedSlack
}

func (g *g12) compare(i *instance, events *[saidKinds]sum) {
	logged := sumsOf(g.logs.said, i.id)
	if *logged == ([saidKinds]sum{}) && g.logs.blind(i.slot()) {
		if n := len(g.blind); n == 0 || g.blind[n-1] != i.slot() {
			g.blind = append(g.blind, i.slot())
		}
		return
	}
	for k := range events {
		kind := history.AcquireFailed + history.Kind(k)
		event, entry := &events[k], &logged[k]
		g.exercised += event.count
		missing := event.count - entry.count
		switch cut := i.killed || !i.gone; { // it was cut off, or still runs
		case kind == history.AcquireFailed && event.count == 0:
			continue // a node may omit that event
		case cut && max(missing, -missing) <= g.slack(i, kind) && event.begins(entry):
			continue
		}
		switch {
		case missing != 0 && !event.begins(entry):
			g.missing++
			g.broke(nil, "%s logged %q %d times, and they are not the first of the %d that it said: more than the last is missing, or other "+
				"endpoints or fences are named", i.who(), kind, entry.count, event.count)
		case missing != 0:
			g.missing += max(missing, -missing)
			g.broke(nil, "%s said %q %d times and logged it %d times", i.who(), kind, event.count, entry.count)
		case event.hash != entry.hash:
			g.missing++
			g.broke(nil, "%s's %d log entries of %q name other endpoints or fences than its events", i.who(), entry.count, kind)
		case entry.reasons < event.reasons:
			g.missing += event.reasons - entry.reasons
			g.broke(nil, "%s gave a reason for %q %d times and logged one %d times", i.who(), kind, event.reasons, entry.reasons)
		}
	}
}

func (i *instance) slot() string {
	if i.node == nil {
		return ""
	}
	return i.node.name
}

func (g *g12) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = int64(g.missing)
	if g.logs != nil {
		v.Value += int64(g.logs.bare)
		v.Detail = join(v.Detail, fmt.Sprintf("%d events of the nodes, %d log entries", g.exercised, g.logs.entries))
	}
	return v
}
