package replicamodel

import "math"

// term is what a client believes of a lease.
type term struct {
	fence, until float64
	forgotten    bool // an epoch has begun since: to be asserted again
	released     int  // how often it was: voids the answers to what was asked before
}

// client is an instance.
type client struct {
	id, owner   int // owner is another after a restart
	to          int
	k           int
	judged      bool
	rate        float64
	paused      float64
	seen        float64 // the highest fence
	learnt      float64 // when the call was sent that told the epoch
	epoch       epoch
	confirmed   epoch // Confirm
	confirmedAt float64
	highest     int // Gossip
	terms       [leases]term

	idle [leases]bool // does nothing for this lease
	ends [leases]bool // releases it as soon as it has it, and then is idle
}

// restart ends c, and starts another instance in its place.
func (w *world) restartClient(c *client) {
	w.say("c%d ends, and another instance takes its place", c.id)
	*c = client{id: c.id, owner: w.id(), to: c.to, k: c.k, judged: c.judged, rate: c.rate}
}

// learn takes the epochs that a reply tells. It reports whether the op was done.
func (w *world) learn(c *client, r reply, sent float64) bool {
	w.confirm(c, r, sent)
	if w.p.Gossip && !w.gossip(c, r.num) {
		return false
	}
	if sent < c.learnt {
		return !r.void
	}
	c.learnt = sent
	if r.now != c.epoch {
		c.epoch = r.now
		for i := range c.terms {
			t := &c.terms[i]
			if t.forgotten = t.until > w.now; t.forgotten {
				w.toClient(c, 1, func() { w.step(c, i) })
			}
		}
	}
	return !r.void
}

func (w *world) confirm(c *client, r reply, sent float64) {
	known := c.confirmed == r.epoch
	if !r.counts || (w.now-sent)*c.rate >= ttl-margin || !known && sent < c.learnt {
		return
	}
	if !known {
		c.confirmedAt = 0
	}
	c.confirmed, c.confirmedAt = r.epoch, max(c.confirmedAt, r.at)
}

// gossip tells half of the others of a new epoch. It reports whether this one is the highest known.
func (w *world) gossip(c *client, num int) bool {
	if num > c.highest {
		c.highest = num
		for _, o := range w.clients {
			if o != c && w.r.IntN(2) == 0 && w.clientMeets(o, w.nodes[c.to]) {
				w.toClient(o, w.delay(), func() { o.highest = max(o.highest, num) })
			}
		}
	}
	return num == c.highest
}

// attempt is a call under way, for one lease.
type attempt struct {
	i        int
	sent     float64
	until    float64 // trust that it gives
	released int
}

// counts reports whether what a reply says of a lease may be believed.
func (w *world) counts(c *client, a attempt, r reply) bool {
	return r.counts && (c.epoch == r.epoch || w.p.drops("epoch")) && (c.terms[a.i].released == a.released || w.p.drops("void"))
}

// step does what is due for a lease.
func (w *world) step(c *client, i int) {
	t := &c.terms[i]
	a := attempt{i, w.now, w.now + (ttl-margin)/c.rate, t.released}
	switch open := t.until > w.now; {
	case open && t.forgotten:
		w.assert(c, a)
	case open && (c.ends[i] || !w.calm && w.r.IntN(7) == 0):
		w.release(c, a)
	case open:
		w.renew(c, a)
	default:
		w.acquire(c, a)
	}
}

// free reports whether nobody holds l, and clears it where its time is over.
func (w *world) free(n *node, l *lease) bool {
	if l.owner != 0 && l.exp <= w.time(n) {
		l.owner = 0
	}
	return l.owner == 0
}

func (w *world) assert(c *client, a attempt) {
	t, done := &c.terms[a.i], false
	fence, end, owner := t.fence, t.until, c.owner
	late := w.p.drops("closed") || w.p.drops("epoch")
	w.call(c, true, func(n *node, s *store, quarantined bool) {
		l := &s.leases[a.i]
		if !quarantined && !late {
			return
		}
		free := w.free(n, l)
		if l.last <= fence || !free && l.owner == owner || w.p.drops("superseded") {
			l.owner, l.exp, l.last = owner, w.time(n)+ttl, max(l.last, fence)
			done = true
			w.books.asserted++
			w.say("%s: c%d asserts L%d", letter(n.id), c.id, a.i)
		}
	}, func(r reply) {
		intime := w.now < end && t.until > w.now || late
		if w.learn(c, r, a.sent) && done && w.counts(c, a, r) && intime && t.fence == fence {
			w.trust(c, a.i, fence, a.until, false, "asserted")
		}
	})
}

func (w *world) release(c *client, a attempt) {
	t := &c.terms[a.i]
	fence, owner := t.fence, c.owner
	t.until, t.forgotten = 0, false
	t.released++
	c.idle[a.i] = c.ends[a.i]
	w.say("c%d releases L%d", c.id, a.i)
	w.call(c, false, func(n *node, s *store, _ bool) {
		if l := &s.leases[a.i]; l.owner == owner && (l.last == fence || w.p.drops("release")) {
			l.owner = 0
			w.say("%s: L%d is released by c%d", letter(n.id), a.i, c.id)
		}
	}, func(r reply) { w.learn(c, r, a.sent) })
}

func (w *world) renew(c *client, a attempt) {
	t, done := &c.terms[a.i], false
	fence, owner := t.fence, c.owner
	w.call(c, true, func(n *node, s *store, _ bool) {
		if l := &s.leases[a.i]; !w.free(n, l) && l.owner == owner {
			l.exp = w.time(n) + ttl
			done = true
		}
	}, func(r reply) {
		if w.learn(c, r, a.sent) && done && w.counts(c, a, r) && (t.until > w.now || w.p.drops("ended")) && t.fence == fence {
			if w.p.drops("stamp") {
				a.until = w.now + (ttl-margin)/c.rate
			}
			w.trust(c, a.i, fence, a.until, false, "renewed")
		}
	})
}

// acquire takes what is free, and adopts what the client has already: an acquisition that did not count may have left it.
func (w *world) acquire(c *client, a attempt) {
	t, fence, seen, owner := &c.terms[a.i], 0.0, c.seen, c.owner
	w.call(c, false, func(n *node, s *store, quarantined bool) {
		l := &s.leases[a.i]
		free := w.free(n, l)
		if !free && l.owner != owner || quarantined && (free || !w.p.drops("adoption")) {
			return
		}
		fence = max(l.last, seen, math.Floor(w.time(n))-1) + 1
		if w.p.drops("fence") {
			fence = l.last + 1
		}
		l.owner, l.exp, l.last = owner, w.time(n)+ttl, fence
		w.say("%s: c%d gets L%d", letter(n.id), c.id, a.i)
	}, func(r reply) {
		if w.learn(c, r, a.sent) && fence > 0 && w.counts(c, a, r) && fence > t.fence && t.until <= w.now {
			w.trust(c, a.i, fence, a.until, true, "acquired")
		}
	})
}
