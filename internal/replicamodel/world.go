package replicamodel

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
)

const (
	ttl      = 3000.0
	margin   = 30.0  // of a trust window, for the rates of clocks
	recent   = 300.0 // AckRecent: how old a replica's last acknowledgement may be
	rateMost = 0.004 // by how much a clock runs fast or slow
	stormEnd = 20 * ttl
	calmMax  = 8 * ttl
	leases   = 2
)

type event struct {
	at  float64
	seq int
	do  func()
}

// events is a heap by time, and by order of making where times are equal.
type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// world is one run.
type world struct {
	p    Protocol
	s    Storm
	r    *rand.Rand
	now  float64
	seq  int
	ids  int
	todo events
	calm bool

	nodes   []*node
	clients []*client
	apart   map[[2]int]float64 // until when two nodes are cut apart
	cut     map[[2]int]float64 // and client and node
	slot    int                // the shard that has the leases
	books   books
	log     []string
	quiet   bool
}

func newWorld(seed uint64, p Protocol, s Storm, quiet bool) *world {
	return &world{
		p: p, s: s, quiet: quiet, r: rand.New(rand.NewPCG(seed, 2)),
		apart: map[[2]int]float64{}, cut: map[[2]int]float64{},
		books: books{back: [leases]float64{-1, -1}},
	}
}

func (w *world) after(d float64, do func()) {
	w.seq++
	heap.Push(&w.todo, event{w.now + d, w.seq, do})
}

// next does what is next.
func (w *world) next() {
	e := heap.Pop(&w.todo).(event)
	w.now = e.at
	e.do()
}

func (w *world) say(format string, args ...any) {
	if !w.quiet {
		w.log = append(w.log, fmt.Sprintf("%6.2f ", w.now/ttl)+fmt.Sprintf(format, args...))
	}
}

func (w *world) id() int {
	w.ids++
	return w.ids
}

// delay is how long a message takes.
func (w *world) delay() float64 {
	if !w.calm {
		switch w.r.IntN(14) {
		case 0:
			return w.r.Float64() * 2 * ttl
		case 1, 2:
			return w.r.Float64() * ttl / 2
		}
	}
	return 1 + w.r.Float64()*20
}

// between is a pause between two rounds of something, shorter in a storm's calm.
func (w *world) between(calm, storm float64) float64 {
	if w.calm {
		return calm
	}
	return storm
}

func pair(a, b int) [2]int { return [2]int{min(a, b), max(a, b)} }

func (w *world) nodesMeet(a, b *node) bool           { return w.apart[pair(a.id, b.id)] <= w.now }
func (w *world) clientMeets(c *client, n *node) bool { return w.cut[[2]int{c.id, n.id}] <= w.now }

// toNode brings something to n after d. A frozen process sees it when it thaws, one that has ended never.
func (w *world) toNode(n *node, d float64, do func()) {
	w.after(d, func() {
		if n.frozen <= w.now {
			do()
			return
		}
		run := n.run
		w.after(n.frozen-w.now, func() {
			if n.run == run {
				do()
			}
		})
	})
}

// toClient brings something to c after d. One that pauses sees it afterwards, one that has ended never.
func (w *world) toClient(c *client, d float64, do func()) {
	owner := c.owner
	w.after(d, func() {
		later := max(0, c.paused-w.now)
		w.after(later, func() {
			if c.owner == owner {
				do()
			}
		})
	})
}

func letter(n int) string { return string(rune('A' + n)) }

// books are what a run is judged by.
type books struct {
	overlaps, falls         int // windows that overlap, fences that fall
	terms, asserted, epochs int
	top                     [leases]float64 // the highest fence of a term
	calmAt                  float64
	back                    [leases]float64 // after the calm began the lease is owned again, -1: not yet

	heldTo, gap [leases]float64 // until when somebody's window lasts, and how long nobody had one
}

// trust extends a client's window, or begins a term, and compares it with what the others believe.
func (w *world) trust(c *client, i int, fence, until float64, fresh bool, what string) {
	if until <= w.now {
		return
	}
	b := &w.books
	for _, o := range w.clients {
		if o != c && o.terms[i].until > w.now && c.judged && o.judged {
			b.overlaps++
			w.say("OVERLAP L%d: c%d (fence %.0f) %s while c%d (fence %.0f) trusts until %.2f",
				i, c.id, fence, what, o.id, o.terms[i].fence, o.terms[i].until/ttl)
		}
	}
	if fresh && c.judged {
		b.terms++
		if fence <= b.top[i] && !w.s.has("back") {
			b.falls++
			w.say("FALL L%d: c%d has fence %.0f after %.0f", i, c.id, fence, b.top[i])
		}
	}
	b.top[i] = max(b.top[i], fence)
	t := &c.terms[i]
	t.fence, t.until, t.forgotten = fence, max(t.until, until), false
	c.seen = max(c.seen, fence)
	if w.calm && b.back[i] < 0 && w.now >= b.calmAt {
		b.back[i] = w.now - b.calmAt
	}
	if b.heldTo[i] > 0 && w.now > b.heldTo[i] {
		b.gap[i] += w.now - b.heldTo[i]
	}
	b.heldTo[i] = max(b.heldTo[i], t.until)
	w.say("c%d trusts L%d until %.2f (%s)", c.id, i, t.until/ttl, what)
}
