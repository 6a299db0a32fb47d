package page

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// Bounds of the kept data, which keep page and memory independent of the run's length.
const (
	termsMax   = 250_000
	eventsMax  = 30_000
	notesMax   = 12
	faultsMax  = 5_000
	bucketsMax = 600
)

const (
	howOpen uint16 = iota
	howLost
	howReleased
	howExited
	howLapsed
	howReplaced
)

var howNames = []string{"still trusted at the end", "lost", "released", "its process ended", "its window closed", "acquired again"}

// collector reads a history once and keeps the page's data.
type collector struct {
	m         *model
	ttl       int64 // ns
	nodes     numbers
	instances map[string]int  // instance → node
	servers   map[string]bool // names of Redis servers, which are no nodes
	sessions  numbers
	strings   map[string]int32
	open      map[key]*term
	byNode    map[int]map[key]*term
	around    map[string][]span // kept time spans, by session
	struck    map[int64]int     // index in m.Faults of the last fault with that plan index
	sent      map[[2]int64]int64
	used      map[string][]int // leases under which a session of a break ran, if it has none itself
	last      int64
	ended     bool
	dropped   struct{ terms, events, faults, stalls, notes int }
}

type key struct {
	session  int
	instance string
}

type span struct{ from, to int64 }

// term is a term whose end is not known yet. Times are in ns.
type term struct {
	key
	node    int
	from    int64
	until   int64 // 0: not reported
	fence   int64
	doubt   int64 // start of a doubt; -1: no doubt
	doubted []span
}

func newCollector(m *model, p check.Params, around map[string][]span) *collector {
	c := &collector{
		m: m, ttl: int64(p.TTL), around: around, nodes: numbers{}, instances: map[string]int{}, sessions: numbers{},
		servers: map[string]bool{}, strings: map[string]int32{}, open: map[key]*term{}, byNode: map[int]map[key]*term{}, struck: map[int64]int{},
		sent: map[[2]int64]int64{}, used: map[string][]int{},
	}
	c.m.Terms.Hows = howNames
	c.m.Load.Width = max(1000, p.Duration.Milliseconds()/bucketsMax)
	c.text("") // index 0
	return c
}

func (c *collector) read(all iter.Seq2[history.Event, error]) (failed error) {
	for e, err := range all {
		if err != nil {
			failed = err
			break
		}
		c.last = max(c.last, e.T)
		c.event(&e)
	}
	c.finish()
	return failed
}

// numbers counts names in the order of their first use.
type numbers map[string]int

// of returns the number of the name, -1 for no name. A new name is added by add.
func (n numbers) of(name string, add func()) int {
	i, known := n[name]
	switch {
	case known:
		return i
	case name == "":
		return -1
	}
	i = len(n)
	n[name] = i
	add()
	return i
}

func (c *collector) node(name string) int {
	return c.nodes.of(name, func() { c.m.Nodes = append(c.m.Nodes, node{Name: shown(name), Lives: [][2]int64{}}) })
}

func (c *collector) session(name string) int {
	return c.sessions.of(name, func() { c.m.Sessions = append(c.m.Sessions, session{Name: shown(name), There: [][2]int64{}}) })
}

func (c *collector) text(s string) int32 {
	s = shown(s)
	n, known := c.strings[s]
	if !known {
		n = int32(len(c.m.Strings))
		c.strings[s] = n
		c.m.Strings = append(c.m.Strings, s)
	}
	return n
}

// of returns the node of an event, by its slot or else its instance; -1 if it is unknown.
func (c *collector) of(e *history.Event) int {
	if e.Node == "" {
		if n, known := c.instances[e.Instance]; known {
			return n
		}
		return -1
	}
	n := c.node(e.Node)
	if e.Aside() {
		c.servers[c.m.Nodes[n].Name] = true
		return n
	}
	if e.Instance != "" {
		c.instances[e.Instance] = n
	}
	return n
}

func (c *collector) event(e *history.Event) {
	n := c.of(e)
	switch e.Kind {
	case history.Acquired, history.Renewed:
		c.believe(e, n)
	case history.RenewFailed:
		if t := c.open[key{c.session(e.Session), e.Instance}]; t != nil && t.doubt < 0 {
			t.doubt = e.T
		}
	case history.Lost:
		c.end(key{c.session(e.Session), e.Instance}, e.T, howLost)
	case history.Released:
		c.end(key{c.session(e.Session), e.Instance}, e.T, howReleased)
	case history.SessionAdded, history.SessionResumed:
		c.appear(e, true)
	case history.SessionRemoved, history.SessionPaused:
		c.appear(e, false)
	case history.Commands:
		if at := ms(e.T-1) / c.m.Load.Width; n >= 0 && at >= 0 && at < 2*bucketsMax {
			c.sent[[2]int64{int64(n), at}] += e.N
		}
	default:
		c.harness(e, n)
	}
	c.keep(e, n)
	if e.Kind == history.Arrived {
		c.uses(e)
	}
}

// usesMax is the largest number of leases shown for a session that ran under several.
const usesMax = 4

func (c *collector) uses(e *history.Event) {
	if _, watched := c.around[e.Reason]; !watched || e.Reason == "" || e.Reason == e.Session {
		return
	}
	of := c.used[e.Reason]
	if i := c.session(e.Session); i >= 0 && len(of) < usesMax && !slices.Contains(of, i) {
		c.used[e.Reason] = append(of, i)
	}
}

func (c *collector) harness(e *history.Event, n int) {
	switch e.Kind {
	case history.Spawned:
		if n >= 0 {
			c.m.Nodes[n].Lives = append(c.m.Nodes[n].Lives, [2]int64{ms(e.T), -1})
		}
	case history.Exited:
		c.exited(e, n)
	case history.FaultStart:
		c.strike(e, n)
	case history.FaultEnd:
		if i, known := c.struck[e.N]; known {
			c.m.Faults[i].To = ms(e.T)
		}
	case history.RedisDown, history.RedisUp, history.RedisFlushed, history.TapDown, history.TapUp:
		c.m.Marks = append(c.m.Marks, mark{ms(e.T), e.Kind.String(), shown(e.Reason)})
	case history.Stall, history.StreamLate:
		c.late(e)
	case history.Phase:
		switch e.Reason {
		case "calm":
			c.m.Calm = ms(e.T)
		case "end":
			c.ended = true
		}
	case history.Malformed, history.Note:
		c.note(e)
	}
}

// late collects a stall of the host, or a late read of Redis' stream. The page omits stalls below 1 % of a TTL, although the judge widens
// limits by them too.
func (c *collector) late(e *history.Event) {
	switch {
	case e.Kind == history.Stall && e.Until-e.T < c.ttl/100:
	case len(c.m.Stalls) == faultsMax:
		c.dropped.stalls++
	default:
		c.m.Stalls = append(c.m.Stalls, spell{Kind: e.Kind.String(), Node: -1, Session: -1, From: ms(e.T), To: ms(e.Until)})
	}
}

func (c *collector) note(e *history.Event) {
	if len(c.m.Notes) == notesMax {
		c.dropped.notes++
		return
	}
	c.m.Notes = append(c.m.Notes, fmt.Sprintf("%.3f s  %s %s: %s", time.Duration(e.T).Seconds(), e.Kind, shown(e.Node), shown(e.Reason)))
}

func (c *collector) exited(e *history.Event, n int) {
	if n < 0 {
		return
	}
	terms := c.byNode[n]
	delete(c.byNode, n) // iterating a map takes as long as its largest size ever did
	for _, k := range slices.SortedFunc(maps.Keys(terms), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.session, b.session), cmp.Compare(a.instance, b.instance))
	}) {
		c.end(k, e.T, howExited)
	}
	lives := c.m.Nodes[n].Lives
	if len(lives) == 0 {
		lives = append(lives, [2]int64{0, -1})
	}
	lives[len(lives)-1][1] = ms(e.T)
	c.m.Nodes[n].Lives = lives
	if e.Reason != "asked" && e.Reason != "" {
		c.note(e)
	}
}

func (c *collector) strike(e *history.Event, n int) {
	if len(c.m.Faults) == faultsMax {
		c.dropped.faults++
		return
	}
	c.struck[e.N] = len(c.m.Faults)
	c.m.Faults = append(c.m.Faults, spell{
		N: e.N, Kind: shown(e.Reason), Node: n, Session: c.session(e.Session), From: ms(e.T), To: ms(e.T),
	})
}

func (c *collector) appear(e *history.Event, there bool) {
	i := c.session(e.Session)
	if i < 0 {
		return
	}
	s := &c.m.Sessions[i]
	last := len(s.There) - 1
	switch {
	case there && (last < 0 || s.There[last][1] >= 0):
		s.There = append(s.There, [2]int64{ms(e.T), -1})
	case !there && last >= 0 && s.There[last][1] < 0:
		s.There[last][1] = ms(e.T)
	}
}

// believe begins or continues a term. It ignores a message after the end of its own window.
func (c *collector) believe(e *history.Event, n int) {
	k := key{c.session(e.Session), e.Instance}
	if k.session < 0 || e.Until != 0 && e.Until <= e.T {
		return
	}
	t := c.open[k]
	if t != nil && t.until != 0 && t.until <= e.T {
		c.end(k, t.until, howLapsed)
		t = nil
	}
	if t != nil && e.Kind == history.Acquired {
		c.end(k, e.T, howReplaced)
		t = nil
	}
	if t == nil && len(c.open) == termsMax {
		c.dropped.terms++
		return
	}
	if t == nil {
		t = &term{key: k, node: n, from: e.T, fence: e.Fence, doubt: -1}
		c.open[k] = t
		if c.byNode[n] == nil {
			c.byNode[n] = map[key]*term{}
		}
		c.byNode[n][k] = t
	}
	t.certain(e.T)
	t.until = e.Until
}

func (t *term) certain(at int64) {
	if t.doubt >= 0 {
		t.doubted = append(t.doubted, span{t.doubt, at})
		t.doubt = -1
	}
}

func (c *collector) end(k key, at int64, how uint16) {
	t := c.open[k]
	if t == nil {
		return
	}
	if t.until != 0 && t.until < at {
		at, how = t.until, howLapsed
	}
	t.certain(max(at, t.doubt))
	delete(c.open, k)
	delete(c.byNode[t.node], k)
	all := &c.m.Terms
	if len(all.Session) == termsMax {
		c.dropped.terms++
		return
	}
	for _, d := range t.doubted {
		if to := min(d.to, at); to > d.from {
			c.m.Doubts.Term = append(c.m.Doubts.Term, int32(len(all.Session)))
			c.m.Doubts.From = append(c.m.Doubts.From, ms(d.from))
			c.m.Doubts.For = append(c.m.Doubts.For, ms(to)-ms(d.from))
		}
	}
	all.Session = append(all.Session, int32(t.session))
	all.Node = append(all.Node, int32(t.node))
	all.From = append(all.From, ms(t.from))
	all.For = append(all.For, ms(max(at, t.from))-ms(t.from))
	all.Fence = append(all.Fence, exact(t.fence))
	all.How = append(all.How, how)
}

// keep keeps an event of a session that broke, and routine events only near the break.
func (c *collector) keep(e *history.Event, n int) {
	spans, watched := c.around[e.Session]
	if e.Session == "" || !watched {
		return
	}
	near := func(s span) bool { return e.T >= s.from && e.T <= s.to }
	if often(e.Kind) && !slices.ContainsFunc(spans, near) {
		return
	}
	all := &c.m.Events
	if len(all.At) == eventsMax {
		c.dropped.events++
		return
	}
	all.At = append(all.At, us(e.T))
	all.Kind = append(all.Kind, uint16(e.Kind))
	all.Node = append(all.Node, int32(n))
	all.Session = append(all.Session, int32(c.session(e.Session)))
	all.Instance = append(all.Instance, c.text(e.Instance))
	all.Fence = append(all.Fence, exact(e.Fence))
	all.Until = append(all.Until, us(e.Until))
	all.Number = append(all.Number, exact(e.N))
	all.Reason = append(all.Reason, c.text(e.Reason))
}

func often(k history.Kind) bool {
	switch k {
	case history.RenewStart, history.Renewed, history.RenewFailed, history.RedisExtended, history.AcquireFailed:
		return true
	}
	return k >= history.PollStart && k <= history.PollEnd || k >= history.Arrived && k <= history.Aborted
}

func (c *collector) finish() {
	open := make([]*term, 0, len(c.open))
	for _, t := range c.open {
		open = append(open, t)
	}
	slices.SortFunc(open, func(a, b *term) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.session, b.session), cmp.Compare(a.instance, b.instance))
	})
	for _, t := range open {
		c.end(t.key, c.last, howOpen)
	}
	c.m.End = ms(c.last)
	sent := make([][]int64, len(c.m.Nodes))
	for at, n := range c.sent {
		for int64(len(sent[at[0]])) <= at[1] {
			sent[at[0]] = append(sent[at[0]], 0)
		}
		sent[at[0]][at[1]] = n
	}
	c.m.Load.Sent = sent
	c.left()
}

func (c *collector) left() {
	say := func(n int, format string) {
		if n > 0 {
			c.m.Left = append(c.m.Left, fmt.Sprintf(format, n))
		}
	}
	say(c.dropped.terms, "%d terms beyond the first 250000 are not drawn")
	say(c.dropped.events, "%d events near breaks beyond the first 30000 are not drawn")
	say(c.dropped.faults, "%d faults beyond the first 5000 are not drawn")
	say(c.dropped.stalls, "%d stalls of the host beyond the first 5000 are not drawn")
	say(c.dropped.notes, "%d more notes are in the history only")
	if c.m.Load.Width > 1000 {
		c.m.Left = append(c.m.Left, fmt.Sprintf("commands are summed up over %g s", float64(c.m.Load.Width)/1000))
	}
}
