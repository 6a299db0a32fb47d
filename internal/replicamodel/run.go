package replicamodel

// build makes the nodes and clients of a storm. The first node is the master.
func (w *world) build() {
	s := &w.s
	for i := range s.processes() {
		n := w.addNode()
		n.away = i >= s.Nodes && !s.moves()
		if i >= s.Nodes && s.moves() {
			n.shard, n.moved = 1, true
			n.of = s.Nodes
			if i == s.Nodes {
				n.of = none
			}
		}
	}
	w.nodes[0].of = none
	if s.has("witness") || s.has("promoted") {
		n := w.addNode()
		n.deaf, n.barred = true, !s.has("promoted")
	}
	if s.has("stranger") {
		w.addNode()
	}
	for i := range s.Clients {
		c := &client{id: i, owner: w.id(), k: majority(s.Nodes), judged: true, rate: w.rate()}
		switch {
		case s.has("begin"):
			c.k, c.judged = 0, false
		case s.has("low") && i == 0:
			c.k--
		}
		w.clients = append(w.clients, c)
	}
}

func (w *world) rate() float64 { return 1 + (w.r.Float64()-0.5)*2*rateMost }

func (w *world) addNode() *node {
	n := &node{
		id: len(w.nodes), run: w.id(), replid: w.id(), history: []store{{}}, attached: map[int]*attachment{},
		rate: w.rate(), skew: (w.r.Float64() - 0.5) * 2 * w.s.Skew * ttl,
	}
	w.nodes = append(w.nodes, n)
	w.after(w.r.Float64()*100, func() { w.replicate(n) })
	w.after(w.r.Float64()*ttl, func() { w.tick(n) })
	return n
}

// live has every client do what is due for every lease, again and again.
func (w *world) live(pause func(c *client, i int) float64) {
	for _, c := range w.clients {
		for i := range c.terms {
			var round func()
			round = func() {
				if c.paused <= w.now {
					if !w.calm && w.r.IntN(20) == 0 {
						w.retarget(c)
					}
					if !c.idle[i] {
						w.step(c, i)
					}
				}
				w.after(pause(c, i), round)
			}
			w.after(w.r.Float64()*ttl, round)
		}
	}
}

// calmDown ends all faults: one node is the master, and everybody follows it.
func (w *world) calmDown() {
	w.calm = true
	clear(w.apart)
	clear(w.cut)
	m := w.nodes[w.slot*w.s.Nodes+w.r.IntN(w.s.Nodes)]
	for m.away || m.barred {
		m = w.nodes[w.r.IntN(len(w.nodes))]
	}
	for _, n := range w.nodes {
		n.frozen = 0
	}
	m.moved = false
	w.promote(m)
	for _, n := range w.nodes {
		if n != m {
			w.after(w.r.Float64()*ttl*0.1, func() { w.follow(n, m.id) })
		}
	}
	for _, c := range w.clients {
		c.to, c.paused = m.id, 0
	}
	w.books.calmAt = w.now + ttl*0.1
	w.say("CALM, the master is %s", letter(m.id))
}

func (b *books) broken() bool { return b.overlaps+b.falls > 0 }

func (b *books) owned() bool { return b.back[0] >= 0 && b.back[1] >= 0 }

// play plays faults until something breaks, or all leases are owned again in calm.
func play(seed uint64, p Protocol, s Storm, faults []fault, quiet bool) *world {
	w := newWorld(seed, p, s, quiet)
	w.build()
	w.live(func(*client, int) float64 { return 1 + w.r.Float64()*w.between(ttl/10, ttl/2.5) })
	for _, f := range faults {
		w.after(f.at, func() { w.strike(f) })
	}
	w.after(stormEnd, w.calmDown)
	for len(w.todo) > 0 && w.now < stormEnd+calmMax && !w.books.broken() && !w.books.owned() {
		w.next()
	}
	return w
}

// Outcome is what became of one run.
type Outcome struct {
	Overlap, Fall           bool            // two trust windows overlapped; a fence fell
	Back                    [leases]float64 // TTLs of calm after which each lease was owned again, -1: never; only where nothing broke
	Terms, Asserted, Epochs int
}

// Run plays the storm that a seed draws. The same arguments give the same outcome.
func Run(seed uint64, p Protocol, s Storm) Outcome {
	b := play(seed, p, s, draw(seed, s), true).books
	out := Outcome{Overlap: b.overlaps > 0, Fall: b.falls > 0, Terms: b.terms, Asserted: b.asserted, Epochs: b.epochs}
	for i, t := range b.back {
		out.Back[i] = t
		if t >= 0 {
			out.Back[i] = t / ttl
		}
	}
	return out
}
