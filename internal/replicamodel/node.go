package replicamodel

import "slices"

// marker is the epoch key. A life of 0 is no key.
type marker struct {
	life, attached, k int
	begin             int // tells two epochs of one life apart, as the end of the quarantine does in Redis
	num               int // Gossip
	until             float64
	confirmed         float64 // Confirm: when the last acknowledged answer was given
}

// lease is a lease's key and its fence key.
type lease struct {
	owner int // 0: none
	exp   float64
	last  float64
}

// store is all data of a node.
type store struct {
	leases [leases]lease
	marker marker
}

// attachment is a replica as its master sees it.
type attachment struct {
	link int // its number of the connection
	ack  int // the highest offset that it has acknowledged, -1: none
	at   float64
}

// waiting is a blocked WAIT.
type waiting struct {
	offset, k int
	end       func(acknowledged bool)
}

const none = -1

// node is a process of Redis: a master, or a replica of another.
type node struct {
	id, shard int
	away      bool // not there yet, or ended for good
	deaf      bool // never acknowledges
	barred    bool // never promoted
	moved     bool // does not serve the leases' slot

	of       int // whose replica it is, none: master
	run      int
	replid   int
	replid2  int // the stream before its last promotion,
	offset2  int // which it shares up to here
	full     int // sync_full
	partial  int // sync_partial_ok
	frozen   float64
	rate     float64
	skew     float64
	dumps    []node
	since    float64 // it has this master, or is one, since then
	lastSeen int     // replid of the last master

	link    bool // it is attached
	copying bool // and a full synchronization is under way
	links   int

	history  []store // the data after each offset of the stream
	offset   int
	attached map[int]*attachment
	waits    []*waiting
}

func (n *node) master() bool { return n.of == none }
func (n *node) data() store  { return n.history[n.offset] }

func (n *node) write(s store) {
	n.history = append(n.history, s)
	n.offset++
}

func (w *world) time(n *node) float64 { return 1e7 + w.now*n.rate + n.skew }

// unlink ends n's own connection to its master.
func (n *node) unlink() {
	n.link, n.copying = false, false
	n.links++
}

// dropReplicas ends the connections of all that replicate n. Redis does it at a promotion, and when n's stream becomes another; not
// at a demotion.
func (w *world) dropReplicas(n *node) {
	for _, x := range w.nodes {
		if x.of == n.id {
			x.unlink()
		}
	}
	n.attached = map[int]*attachment{}
}

func (w *world) promote(n *node) {
	if n.master() || n.away || n.barred || n.frozen > w.now {
		return
	}
	n.unlink()
	n.of, n.since = none, w.now
	n.replid2, n.offset2, n.replid = n.replid, n.offset+1, w.id()
	w.dropReplicas(n)
	w.say("%s is promoted", letter(n.id))
}

// follow makes n a replica of to.
func (w *world) follow(n *node, to int) {
	t := w.nodes[to]
	switch {
	case n == t || n.of == to || n.away || t.away || n.shard != t.shard || n.frozen > w.now:
		return
	case !w.s.Chain && !t.master(), w.s.Dwell > 0 && w.now < n.since+w.s.Dwell*ttl:
		return
	}
	n.waits = nil // -UNBLOCKED
	n.unlink()
	n.of = to
	w.say("%s is told to follow %s", letter(n.id), letter(to))
}

// restart starts n's process anew: with a dump's data, or empty where there is none.
func (w *world) restart(n *node, dump *node, of int) {
	w.dropReplicas(n)
	n.unlink()
	n.waits, n.frozen = nil, 0
	n.run, n.full, n.partial, n.of = w.id(), 0, 0, of
	n.replid2, n.offset2 = 0, 0
	if dump == nil {
		n.replid, n.offset, n.history = w.id(), 0, []store{{}}
		return
	}
	n.replid, n.offset, n.history = dump.replid, dump.offset, dump.history[:dump.offset+1:dump.offset+1]
	if of == none {
		n.replid2, n.offset2, n.replid = n.replid, n.offset+1, w.id()
	}
}

// replicate is a round of n as a replica: it attaches itself, or takes some of the stream and acknowledges it.
func (w *world) replicate(n *node) {
	w.after(2+w.r.Float64()*w.between(40, 250), func() { w.replicate(n) })
	if n.master() || n.copying || n.away || n.frozen > w.now {
		return
	}
	t := w.nodes[n.of]
	switch {
	case t.away || !w.nodesMeet(n, t) || t.of == n.id:
		n.link = false
	case t.frozen > w.now: // the connection stands
	case n.link:
		w.stream(n, t)
	case t.master() || t.link:
		if w.attach(n, t) {
			w.stream(n, t)
		}
	}
}

// attach is PSYNC. It reports whether n was attached at once, by a partial synchronization.
func (w *world) attach(n, t *node) bool {
	n.links++
	if n.replid == t.replid && n.offset <= t.offset || n.replid == t.replid2 && n.offset < t.offset2 {
		if n.replid != t.replid {
			n.replid2, n.offset2, n.replid = n.replid, n.offset+1, t.replid
			w.dropReplicas(n)
		}
		t.partial++
		w.attached(n, t)
		w.say("%s resumes from %s", letter(n.id), letter(t.id))
		return true
	}
	t.full++
	n.copying = true
	link, replid, offset, history := n.links, t.replid, t.offset, t.history
	w.toNode(n, w.delay(), func() {
		if n.links != link || !n.copying {
			return
		}
		if !w.nodesMeet(n, t) || t.replid != replid {
			n.copying = false
			return
		}
		n.replid, n.replid2, n.offset, n.history = replid, 0, offset, history[:offset+1:offset+1]
		w.dropReplicas(n)
		w.attached(n, t)
		w.say("%s has all from %s", letter(n.id), letter(t.id))
	})
	return false
}

func (w *world) attached(n, t *node) {
	n.link, n.copying = true, false
	if n.lastSeen != t.replid {
		n.lastSeen, n.since = t.replid, w.now
	}
	t.attached[n.id] = &attachment{link: n.links, ack: none}
}

// stream takes what t has written, in a storm at times only some of it, and acknowledges.
func (w *world) stream(n, t *node) {
	to := t.offset
	if !w.calm && w.r.IntN(3) == 0 {
		to = min(to, n.offset+w.r.IntN(3))
	}
	if n.offset < to {
		n.history = append(n.history, t.history[n.offset+1:to+1]...)
		n.offset = to
	}
	if n.deaf {
		return
	}
	offset, link, run := n.offset, n.links, t.run
	w.toNode(t, w.delay(), func() {
		if a := t.attached[n.id]; a != nil && a.link == link && t.run == run {
			a.ack, a.at = max(a.ack, offset), w.now
			w.acknowledged(t)
		}
	})
}

// acknowledging is how many replicas have acknowledged an offset.
func (n *node) acknowledging(offset int) int {
	count := 0
	for _, a := range n.attached {
		if a.ack >= offset {
			count++
		}
	}
	return count
}

func (n *node) acknowledgedSince(t float64) int {
	count := 0
	for _, a := range n.attached {
		if a.ack >= 0 && a.at >= t {
			count++
		}
	}
	return count
}

// acknowledged ends each WAIT that has what it waits for.
func (w *world) acknowledged(n *node) {
	var done []*waiting
	n.waits = slices.DeleteFunc(n.waits, func(x *waiting) bool {
		if n.acknowledging(x.offset) < x.k {
			return false
		}
		done = append(done, x)
		return true
	})
	for _, x := range done {
		x.end(true)
	}
}

// tick is now and then a PING in a master's stream, and a dump.
func (w *world) tick(n *node) {
	if n.master() && len(n.attached) > 0 && w.r.IntN(2) == 0 && n.frozen <= w.now {
		n.write(n.data())
	}
	n.dumps = append(n.dumps, node{replid: n.replid, offset: n.offset, history: n.history})
	if len(n.dumps) > 12 {
		n.dumps = n.dumps[1:]
	}
	w.after(w.r.Float64()*ttl*0.6, func() { w.tick(n) })
}
