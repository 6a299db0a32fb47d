package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g12: every acquire, renew, release and loss, success or failure, is one structured log entry with instance, endpoint,
// fence, reason and time. The words that the nodes said on the protocol are counted against their log entries.
//
// Both sides are summed up per instance and word, so that neither needs to be kept: as many entries as words, and the same
// (endpoint, fence) pairs among them.
type g12 struct {
	hooks
	logs    Logs
	err     error
	words   map[saying]*tally
	held    map[string]int // instances that were killed → terms open at their end
	seed    maphash.Seed
	missing int
	entries int
	bare    int
}

// saying is one kind of word of one instance.
type saying struct {
	inst string
	kind history.Kind
}

// tally sums up words or entries. Sum does not depend on their order.
type tally struct {
	words, entries      int
	wordSum, entrySum   uint64
	withReason, reasons int
}

func (g *g12) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.words, g.held, g.seed = map[saying]*tally{}, map[string]int{}, maphash.MakeSeed()
}

// told are the words that need an entry.
func told(k history.Kind) bool {
	switch k {
	case history.Acquired, history.Renewed, history.RenewFailed, history.Lost, history.Released:
		return true
	}
	return false
}

func (g *g12) event(e *history.Event) {
	if !told(e.Kind) {
		return
	}
	t := g.tally(saying{e.Instance, e.Kind})
	t.words++
	t.wordSum += g.hash(e.Session, e.Fence)
	if e.Reason != "" {
		t.withReason++
	}
}

func (g *g12) tally(s saying) *tally {
	t := g.words[s]
	if t == nil {
		t = &tally{}
		g.words[s] = t
	}
	return t
}

func (g *g12) hash(session string, fence int64) uint64 {
	var h maphash.Hash
	h.SetSeed(g.seed)
	h.WriteString(session)
	h.WriteByte(0)
	h.Write(strconv.AppendInt(nil, fence, 10))
	return h.Sum64()
}

func (g *g12) ended(t *term, how ending) {
	if how == endExited && t.inst.killed {
		g.held[t.inst.id]++
	}
}

// entry is a node's log entry, as far as it matters.
type entry struct {
	Event    string          `json:"event"`
	Instance string          `json:"instance"`
	Endpoint string          `json:"endpoint"`
	Fence    *int64          `json:"fence"`
	Reason   string          `json:"reason"`
	TS       json.RawMessage `json:"ts"`
}

func (g *g12) finish() {
	if g.logs == nil {
		g.untested = "the nodes' logs were not kept"
		return
	}
	nodes, err := g.logs.Nodes()
	if err != nil {
		g.err = fmt.Errorf("check: logs: %w", err)
	}
	for _, n := range nodes {
		for line, err := range g.logs.Lines(n) {
			if err != nil {
				g.err = fmt.Errorf("check: log of %s: %w", n, err)
				break
			}
			g.line(line)
		}
	}
	if g.entries == 0 && (g.w.Foreign || len(nodes) == 0) {
		g.untested = "the nodes keep no structured log"
		return
	}
	g.compare()
}

func (g *g12) line(line []byte) {
	if !bytes.Contains(line, []byte(`"event"`)) {
		return
	}
	var e entry
	if json.Unmarshal(line, &e) != nil {
		return // not an entry of ours: a panic's trace, a line that was cut off by a kill
	}
	kind, ok := history.ParseKind(e.Event)
	if !ok || !told(kind) {
		return
	}
	g.entries++
	t := g.tally(saying{e.Instance, kind})
	t.entries++
	fence := int64(0)
	if e.Fence != nil {
		fence = *e.Fence
	}
	t.entrySum += g.hash(e.Endpoint, fence)
	if e.Reason != "" {
		t.reasons++
	}
	if e.Endpoint == "" || e.Instance == "" || e.Fence == nil || len(e.TS) == 0 {
		g.bare++
		if g.bare == 1 {
			g.broke(nil, "a log entry lacks one of instance, endpoint, fence, ts: %s", bytes.TrimSpace(line))
		}
	}
}

// killedSlack is how many entries of a killed process may be missing beside one for each lease that it held: words and
// entries leave it through two pipes, and the kill falls between.
const killedSlack = 16

func (g *g12) compare() {
	for _, id := range sortedKeys(g.w.instances) {
		for k := history.Acquired; k <= history.Released; k++ {
			t := g.words[saying{id, k}]
			if t == nil {
				continue
			}
			g.exercised += t.words
			missing := t.words - t.entries
			i := g.w.instances[id]
			if i.killed || !i.gone { // it was ended in mid-sentence, or still speaks
				if missing < 0 || missing <= g.held[id]+len(i.held)+killedSlack {
					continue
				}
			}
			switch {
			case missing != 0:
				g.missing += max(missing, -missing)
				g.broke(nil, "%s said %q %d times and logged it %d times", i.who(), k, t.words, t.entries)
			case t.wordSum != t.entrySum:
				g.missing++
				g.broke(nil, "%s's %d log entries of %q name other endpoints or fences than its words", i.who(), t.entries, k)
			case t.reasons < t.withReason:
				g.missing += t.withReason - t.reasons
				g.broke(nil, "%s gave a reason for %q %d times and logged one %d times", i.who(), k, t.withReason, t.reasons)
			}
		}
	}
}

func (g *g12) verdict() Verdict {
	v := g.hooks.verdict()
	v.Value = int64(g.missing + g.bare)
	if g.logs != nil {
		v.Detail = join(v.Detail, fmt.Sprintf("%d words of the nodes, %d log entries", g.exercised, g.entries))
	}
	return v
}
