package check

import (
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/nodelogs"
)

// g12 judges that every acquire, renewal, release and loss, success or failure, is one structured log entry with instance, endpoint,
// fence and time. It compares the events and the entries of each instance and kind.
type g12 struct {
	endings
	logs *nodelogs.Logs // nil: not kept
	said nodelogs.Statements
	held map[*instance]int // leases at the exit
}

func (g *g12) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.said, g.held = nodelogs.Statements{}, map[*instance]int{}
}

func (g *g12) event(e *history.Event) {
	g.endings.event(e)
	if g.logs != nil && nodelogs.Needed(e.Kind) {
		g.said.Add(e.Instance, e.Kind, e.Session, e.Fence, e.Reason)
	}
}

func (g *g12) ended(t *term, how ending) {
	g.endings.ended(t, how)
	if how == endExited {
		g.held[t.inst]++
	}
}

func (g *g12) finish() {
	switch {
	case g.logs == nil:
		g.untested = "the nodes' logs were not kept"
		return
	case g.logs.Entries() == 0 && g.w.Foreign:
		g.untested = "the nodes keep no structured log"
		return
	}
	if n, first := g.logs.Bare(); n > 0 {
		g.v.Value += int64(n)
		g.broke(nil, "log entries that lack one of instance, endpoint, fence, ts: %d, first %s", n, first)
	}
	if !g.w.progress.ends { // the nodes went on to report and log
		g.untested = "the history has no end up to which logs could be held against it"
		return
	}
	var blind []string
	for _, id := range sortedKeys(g.said) {
		i := g.w.fleet.instance(id)
		if len(g.logs.Said[id]) == 0 && g.logs.Blind(i.short()) {
			blind = append(blind, i.short())
			continue
		}
		for kind := history.AcquireFailed; kind <= history.Released; kind++ {
			g.compare(i, kind, g.said[id][kind], g.logs.Said[id][kind])
		}
	}
	if len(blind) > 0 {
		g.untested = "no log, an empty one, or one too large to be read, of " + strings.Join(slices.Compact(blind), ", ")
	}
}

// killedSlack is how many entries of a killed process may be missing, beside one for each lease that it held or could have been refused.
// Events and entries leave a process through two pipes, and the kill may fall between them.
const killedSlack = 16

func (g *g12) compare(i *instance, kind history.Kind, events, entries []nodelogs.Statement) {
	if kind == history.AcquireFailed && len(events) == 0 {
		return // a node may omit that event
	}
	for range events {
		g.exercise("")
	}
	leases := g.held[i] + len(i.held)
	if kind == history.AcquireFailed {
		leases = len(g.w.fleet.sessions)
	}
	cut := (i.killed || !i.gone) && g.w.allows(lostMessages) // it was cut off, or still runs
	differ, begins := len(events)-len(entries), alike(events, entries)
	differ = max(differ, -differ)
	bare := reasons(events) - reasons(entries)
	switch {
	case begins && cut && (differ <= leases+killedSlack || g.stalled(g.w.now, g.w.now)):
	case !begins:
		g.v.Value += int64(max(differ, 1))
		g.broke(nil, "%s said %q %d times and logged it %d times, with other endpoints or fences", i.who(), kind, len(events), len(entries))
	case differ > 0:
		g.v.Value += int64(differ)
		g.broke(nil, "%s said %q %d times and logged it %d times", i.who(), kind, len(events), len(entries))
	case bare > 0:
		g.v.Value += int64(bare)
		g.broke(nil, "%s gave a reason for %q %d times and logged one %d times", i.who(), kind, reasons(events), reasons(entries))
	}
}

// alike reports whether the shorter list names the same leases as the beginning of the longer one, in any order.
func alike(a, b []nodelogs.Statement) bool {
	differ := map[nodelogs.Statement]int{}
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		x.Reason, y.Reason = false, false
		if x != y {
			differ[x]++
			differ[y]--
		}
	}
	for _, n := range differ {
		if n != 0 {
			return false
		}
	}
	return true
}

func reasons(all []nodelogs.Statement) (n int) {
	for _, x := range all {
		if x.Reason {
			n++
		}
	}
	return n
}
