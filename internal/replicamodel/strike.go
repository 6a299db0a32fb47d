package replicamodel

// strike is a fault that comes about.
func (w *world) strike(f fault) {
	if f.at >= stormEnd {
		return
	}
	switch f.kind {
	case "cutClient", "retarget", "pause", "restart", "raise", "lower":
		w.strikeClient(f)
	case "empty", "data", "dump", "freeze", "replace", "zombie", "join", "end":
		w.strikeProcess(f)
	case "flush", "unmark", "reset", "step", "replicas", "reshard", "backup":
		w.strikeMaster(f)
	default:
		w.strikeReplication(f)
	}
}

func (w *world) strikeClient(f fault) {
	c := w.clients[f.a]
	switch f.kind {
	case "cutClient":
		w.cut[[2]int{f.a, f.b}] = w.now + f.span
	case "retarget":
		if n := w.nodes[f.b]; n.master() && !n.away && !n.moved {
			c.to = f.b
		}
	case "pause":
		c.paused = w.now + f.span
		w.say("c%d pauses until %.2f", c.id, c.paused/ttl)
	case "restart":
		w.restartClient(c)
	case "raise":
		c.k, c.judged = c.k+1, true
		w.restartClient(c)
		w.say("c%d counts with %d", c.id, c.k)
	case "lower":
		c.k--
		w.restartClient(c)
		w.say("c%d counts with %d", c.id, c.k)
	}
}

func (w *world) strikeReplication(f fault) {
	n := w.nodes[f.a]
	switch f.kind {
	case "promote":
		w.toNode(n, 0, func() { w.promote(n) })
	case "point":
		w.toNode(n, 0, func() { w.follow(n, f.b) })
	case "cutNodes":
		w.apart[pair(f.a, f.b)] = w.now + f.span
		w.say("%s and %s are cut apart until %.2f", letter(f.a), letter(f.b), (w.now+f.span)/ttl)
	}
}

func (w *world) strikeProcess(f fault) {
	n := w.nodes[f.a]
	if n.away && f.kind != "join" {
		return
	}
	switch f.kind {
	case "empty":
		w.restart(n, nil, n.of)
		w.say("%s restarts empty", letter(f.a))
	case "data":
		w.restart(n, n, n.of)
		w.say("%s restarts with its data", letter(f.a))
	case "dump":
		to := w.nodes[f.b]
		if n.master() || len(n.dumps) == 0 || n == to || to.shard != n.shard || !to.master() && !w.s.Chain {
			return
		}
		w.restart(n, w.dump(n, to), f.b)
		w.say("%s restarts from an old dump, following %s", letter(f.a), letter(f.b))
	case "freeze":
		n.frozen = w.now + f.span
		w.say("%s freezes until %.2f", letter(f.a), n.frozen/ttl)
	case "replace":
		w.replace(n)
	case "zombie":
		w.zombie(n, f)
	case "end":
		w.dropReplicas(n)
		n.unlink()
		n.waits, n.away, n.run = nil, true, w.id()
		w.say("%s ends for good", letter(f.a))
	case "join":
		n.away = false
		w.restart(n, nil, f.b)
		w.say("%s is new, and follows %s", letter(f.a), letter(f.b))
	}
}

// dump is one of n's dumps, the youngest of its days with to where there is one, else any.
func (w *world) dump(n, to *node) *node {
	for i := len(n.dumps) - 1; i >= 0; i-- {
		if n.dumps[i].replid == to.replid && w.s.has("return") {
			return &n.dumps[i]
		}
	}
	return &n.dumps[max(0, len(n.dumps)-1-w.r.IntN(6))]
}

// replace ends n for good. The empty process in its place follows a master that there is.
func (w *world) replace(n *node) {
	of := none
	for _, x := range w.nodes {
		if x != n && x.master() && !x.away && x.shard == n.shard && (of == none || w.r.IntN(2) == 0) {
			of = x.id
		}
	}
	if of == none {
		return
	}
	w.restart(n, nil, of)
	w.say("%s is replaced by an empty node, which follows %s", letter(n.id), letter(of))
}

// zombie replaces n by a new process, while n itself is only frozen, and returns.
func (w *world) zombie(n *node, f fault) {
	old := *n
	w.replace(n)
	if n.run == old.run || len(w.nodes) > w.s.processes()+3 {
		return
	}
	z := w.addNode()
	keep := *z
	*z = old
	z.id, z.attached, z.waits, z.frozen = keep.id, map[int]*attachment{}, nil, w.now+f.span/8
	z.unlink()
	w.say("%s is what %s was, frozen until %.2f", letter(z.id), letter(n.id), z.frozen/ttl)
}

func (w *world) strikeMaster(f fault) {
	n := w.nodes[f.a]
	if n.away || n.frozen > w.now {
		return
	}
	switch f.kind {
	case "step":
		w.stepClock(n, f)
	case "backup":
		n.full++
		w.say("%s is copied", letter(f.a))
	case "reset":
		n.partial-- // counted anew, and all but one again
		w.say("%s counts anew", letter(f.a))
	}
	if !n.master() {
		return
	}
	s := n.data()
	switch f.kind {
	case "flush":
		n.write(store{})
		w.say("%s: FLUSHALL", letter(f.a))
	case "unmark":
		s.marker = marker{}
		n.write(s)
		w.say("%s: the marker is deleted", letter(f.a))
	case "replicas":
		if !n.moved {
			w.begin(n, &s, w.lowest())
			n.write(s)
		}
	case "reshard":
		w.reshard(n)
	}
}

// lowest is what the operator lowers k to: what the clients bring.
func (w *world) lowest() int {
	k := w.clients[0].k
	for _, c := range w.clients {
		k = min(k, c.k)
	}
	return k
}

// stepClock sets n's clock. Forward means beyond what a margin leaves for rates.
func (w *world) stepClock(n *node, f fault) {
	d := -f.span / 2
	spare := margin - 2*rateMost*ttl
	switch {
	case w.s.has("forward"):
		d = f.span / 4
	case w.r.IntN(3) == 0 && w.s.has("back"):
		d = spare * w.r.Float64() / 4 // several of them may fall into one TTL
	}
	n.skew += d
	w.say("%s: the clock steps by %.2f", letter(n.id), d/ttl)
}

// reshard moves the leases' slot from n to a master of the other shard. "reshard" has all processes of n's shard hear of it first,
// "reshard-early" only n itself.
func (w *world) reshard(n *node) {
	if n.moved {
		return
	}
	for _, t := range w.nodes {
		if t.shard == n.shard || !t.master() || t.away {
			continue
		}
		for _, x := range w.nodes {
			if x == n || x.shard == n.shard && w.s.has("reshard") {
				x.moved = true
			}
		}
		for _, x := range w.nodes {
			if x.shard == t.shard {
				x.moved = x.master() && x != t && w.s.has("reshard")
			}
		}
		t.write(n.data())
		n.write(store{})
		w.slot = t.shard
		w.say("the slot moves from %s to %s", letter(n.id), letter(t.id))
		return
	}
}
