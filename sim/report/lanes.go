package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// lanes draws one session around a break, with time from left to right: the holder of its key in Redis, the nodes that trusted it, its
// polls, and the faults.
type lanes struct {
	session  string
	from, to int64
	nodes    map[string]*lane
	slots    map[string]string // instance → node
	key      lane              // its marks have the instances whose key it was
	polls    []visit
	faults   []*spell
	lasting  map[int64][]*spell // open faults, by index in the plan
}

// lane is a row of the drawing. A mark of 0 draws nothing.
type lane struct {
	spans []stretch
	mark  mark
	since int64
	until int64 // when the mark ends by itself; 0: never
	shown bool  // it has an event of the session within the drawing's time
}

type mark struct {
	rune rune
	inst string // instance whose key it is; "" in lanes of nodes
}

type stretch struct {
	from, to int64
	mark     mark
}

type visit struct {
	at      int64
	inst    string
	refused bool
}

// spell is a fault from its start to its end.
type spell struct {
	text     string
	node     string
	from, to int64 // to 0: it lasts, or has no end
}

// Sizes of a drawing, and the largest number of each item.
const (
	lanesWidth   = 96
	lanesNodes   = 8
	lanesFaults  = 4
	lanesBreaks  = 3  // guarantees of a run
	lanesTTLs    = 10 // largest length of a drawing, in TTLs
	lanesLabel   = 11
	lanesUnknown = '?'
)

// newLanes returns the empty drawing of a break; nil if the break has no session.
func newLanes(v check.Verdict, ttl time.Duration) *lanes {
	if v.Session == "" {
		return nil
	}
	from := max(0, v.From-int64(ttl))
	return &lanes{
		session: v.Session, from: from, to: min(max(v.At, v.From)+int64(ttl)/2, from+lanesTTLs*int64(ttl)),
		nodes: map[string]*lane{}, slots: map[string]string{}, lasting: map[int64][]*spell{},
	}
}

// drawings reads the history once and draws the breaks, by guarantee. A break that an earlier drawing shows gets no drawing of its own.
// If the history cannot be read, there are no drawings.
func (r Report) drawings(in string, broken []check.Verdict) map[string]string {
	all := map[string]*lanes{}
	var order []string
	last := int64(0)
	for _, v := range broken {
		l := newLanes(v, r.Config.TTL)
		seen := l == nil || len(all) == lanesBreaks || slices.ContainsFunc(order, func(id string) bool {
			return all[id].session == l.session && all[id].from <= v.From && v.From <= all[id].to
		})
		if !seen {
			all[v.ID] = l
			order = append(order, v.ID)
			last = max(last, l.to)
		}
	}
	if len(all) == 0 {
		return nil
	}
	for e, err := range history.Open(in) {
		if err != nil || e.T > last {
			break
		}
		for _, id := range order {
			all[id].event(&e)
		}
	}
	drawn := map[string]string{}
	for _, id := range order {
		drawn[id] = all[id].String()
	}
	return drawn
}

func (l *lanes) node(name string) *lane {
	n := l.nodes[name]
	if n == nil {
		n = &lane{mark: mark{rune: '.'}}
		l.nodes[name] = n
	}
	return n
}

// set gives the lane another mark from t on. The mark ends at until, if that is not 0.
func (n *lane) set(t int64, m mark, until int64) {
	n.lapse(t)
	if n.mark.rune != 0 && t > n.since {
		n.spans = append(n.spans, stretch{n.since, t, n.mark})
	}
	n.mark, n.since, n.until = m, t, until
}

// lapse ends a mark whose end is t or earlier.
func (n *lane) lapse(t int64) {
	if n.until != 0 && n.until <= t {
		n.spans = append(n.spans, stretch{n.since, n.until, n.mark})
		n.mark, n.since, n.until = mark{rune: '.'}, n.until, 0
	}
}

func (l *lanes) event(e *history.Event) {
	if e.T > l.to {
		return
	}
	if e.Kind.Said() && e.Node != "" {
		l.slots[e.Instance] = e.Node
	}
	switch e.Kind {
	case history.Spawned:
		l.node(e.Node).set(e.T, mark{rune: '.'}, 0)
	case history.Exited:
		l.node(e.Node).set(e.T, mark{}, 0)
	case history.FaultStart:
		if e.Session == "" || e.Session == l.session {
			f := &spell{text: strings.TrimSpace(e.Reason + " " + e.Node), node: e.Node, from: e.T}
			l.faults, l.lasting[e.N] = append(l.faults, f), append(l.lasting[e.N], f)
		}
	case history.FaultEnd:
		for _, f := range l.lasting[e.N] {
			f.to = e.T
		}
		delete(l.lasting, e.N)
	case history.RedisFlushed:
		l.key.set(e.T, mark{rune: '.'}, 0)
	case history.TapDown:
		l.key.set(e.T, mark{}, 0)
	default:
		if e.Session == l.session {
			l.ofSession(e)
		}
	}
}

func (l *lanes) ofSession(e *history.Event) {
	switch e.Kind {
	case history.Acquired, history.Renewed:
		n := l.node(e.Node)
		n.set(e.T, mark{rune: '='}, e.Until)
		if holder := l.key.mark.inst; holder != "" && l.slots[holder] == "" {
			l.slots[holder] = e.Node // the key's value is no instance ID
		}
		n.shown = n.shown || e.T >= l.from || e.Until == 0 || e.Until >= l.from
	case history.RenewFailed, history.Lost, history.Released:
		if n := l.node(e.Node); n.mark.rune == '=' {
			n.set(e.T, mark{rune: '.'}, 0)
		}
	case history.RedisGranted:
		m := mark{'k', e.Instance}
		if e.Instance == "" {
			m = mark{} // holder unknown
		}
		l.key.set(e.T, m, e.Until)
	case history.RedisExtended:
		if l.key.mark.inst != "" {
			l.key.until = max(l.key.until, e.Until)
		}
	case history.RedisDeleted:
		l.key.set(e.T, mark{rune: '.'}, 0)
	case history.Arrived, history.Rejected:
		if e.T >= l.from {
			l.polls = append(l.polls, visit{e.T, e.Instance, e.Kind == history.Rejected})
		}
	}
}

func (l *lanes) column(t int64) int {
	return int(max(0, min(lanesWidth-1, (t-l.from)*lanesWidth/max(1, l.to-l.from))))
}

// row paints a lane. A span shorter than a column takes one column.
func (l *lanes) row(n *lane, as func(mark) rune) string {
	n.set(l.to, mark{}, 0)
	cells := blank()
	for _, s := range n.spans {
		if s.to < l.from || s.from > l.to {
			continue
		}
		to := l.column(s.to)
		if s.to < l.to {
			to-- // the next mark begins there
		}
		for i := l.column(s.from); i <= max(to, l.column(s.from)); i++ {
			cells[i] = as(s.mark)
		}
	}
	return string(cells)
}

func blank() []rune { return []rune(strings.Repeat(" ", lanesWidth)) }

// String returns the drawing; "" if it is empty.
func (l *lanes) String() string {
	shown := l.shown()
	if len(shown) == 0 {
		return ""
	}
	marks := marksOf(shown)
	of := func(inst string) rune {
		if m, ok := marks[l.slots[inst]]; ok {
			return m
		}
		return lanesUnknown
	}
	var b strings.Builder
	line := func(name, row string) {
		name = plain.Text(name)
		fmt.Fprintf(&b, "  %s\n", strings.TrimRight(fmt.Sprintf("%-*.*s%s", lanesLabel, lanesLabel-1, name, row), " "))
	}
	for _, row := range l.faultRows(shown) {
		line("", row)
	}
	line("Redis", l.row(&l.key, func(m mark) rune {
		if m.inst == "" {
			return m.rune
		}
		return of(m.inst)
	}))
	for _, name := range shown {
		line(name, l.row(l.nodes[name], func(m mark) rune { return m.rune }))
	}
	for _, refused := range []bool{false, true} {
		cells, any := blank(), false
		for _, p := range l.polls {
			if i := l.column(p.at); p.refused == refused {
				m := of(p.inst)
				if cells[i] != ' ' && cells[i] != m {
					m = '*'
				}
				cells[i], any = m, true
			}
		}
		if any || !refused {
			line(map[bool]string{false: "polled by", true: "refused"}[refused], string(cells))
		}
	}
	line("", l.axis())
	var who []string
	for _, name := range shown {
		who = append(who, fmt.Sprintf("%c %s", marks[name], plain.Text(name)))
	}
	fmt.Fprintf(&b, "  =  trusts its lease   .  does not; of Redis: nobody's key   %s\n", strings.Join(who, ", "))
	return b.String()
}

// shown returns the nodes with a part in the drawing, in order.
func (l *lanes) shown() (names []string) {
	for _, p := range l.polls {
		if n := l.nodes[l.slots[p.inst]]; n != nil {
			n.shown = true
		}
	}
	for name, n := range l.nodes {
		if n.shown {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return names[:min(len(names), lanesNodes)]
}

// marksOf gives each node a character of its own: the last of its name, or a letter if those are not distinct.
func marksOf(names []string) map[string]rune {
	marks, taken := map[string]rune{}, map[rune]bool{}
	for i, name := range names {
		m, _ := utf8.DecodeLastRuneInString(plain.Text(name))
		if taken[m] || m == ' ' || m == '.' || m == lanesUnknown || m == utf8.RuneError {
			m = rune('A' + i)
		}
		marks[name], taken[m] = m, true
	}
	return marks
}

// faultRows draws the faults of the shown nodes and of Redis, from their start to their end.
func (l *lanes) faultRows(shown []string) (rows []string) {
	var lines [][]rune
	var ends []int
	for _, f := range l.faults {
		to := f.to
		if to == 0 {
			to = f.from
		}
		if to < l.from || f.from > l.to || f.node != "" && !slices.Contains(shown, f.node) {
			continue
		}
		text := []rune("v " + plain.Text(f.text) + " ")
		at, end := l.column(f.from), l.column(to)
		at = max(0, min(at, lanesWidth-len(text)))
		for len(text) < end-at {
			text = append(text, '-')
		}
		k := slices.IndexFunc(ends, func(end int) bool { return end < at })
		if k < 0 {
			if len(lines) == lanesFaults {
				continue
			}
			k = len(lines)
			lines, ends = append(lines, blank()), append(ends, 0)
		}
		ends[k] = at + copy(lines[k][at:], text)
	}
	for _, line := range lines {
		rows = append(rows, string(line))
	}
	return rows
}

// axis writes the time at every sixth of the row.
func (l *lanes) axis() string {
	cells := blank()
	for i := 0; i < lanesWidth; i += lanesWidth / 6 {
		t := time.Duration(l.from + int64(i)*(l.to-l.from)/lanesWidth)
		copy(cells[i:], []rune(fmt.Sprintf("%.2fs", t.Seconds())))
	}
	return string(cells)
}
