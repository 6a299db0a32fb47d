package replicamodel

// Failover plays one failover in peace. The master and the owner of one lease die together, 0.3 TTL later a replica is promoted, and
// with back the old master returns as its replica within four TTLs. It returns for how long the lease whose owner lives was nobody's,
// and after how long that of the dead one was owned again, TTLs; 0 for never.
func Failover(seed uint64, p Protocol, nodes int, back bool) (gap, again float64) {
	w := newWorld(seed, p, Storm{Nodes: nodes, Clients: 3}, true)
	w.calm, w.books.calmAt = true, stormEnd*100
	w.build()
	w.live(func(c *client, i int) float64 {
		if c.terms[i].until > w.now+0.7*ttl {
			return ttl / 3
		}
		return ttl / 20
	})
	one, two, heir := w.clients[0], w.clients[1], w.clients[2]
	two.idle, heir.idle = [leases]bool{true, true}, [leases]bool{true, true}
	w.after(2*ttl, func() { two.idle[1], one.ends[1], w.books.gap[1] = false, true, -calmMax })
	w.after(3*ttl, func() { w.books.gap[1] = 0 })
	crash := 4*ttl + w.r.Float64()*ttl
	w.after(crash, func() {
		for i := range nodes {
			w.apart[pair(0, i)] = stormEnd
		}
		for c := range w.clients {
			w.cut[[2]int{c, 0}] = stormEnd
		}
		one.idle, heir.idle = [leases]bool{true, true}, [leases]bool{}
	})
	promotion := crash + 0.3*ttl
	w.after(promotion, func() { w.promote(w.nodes[1]) })
	for i := 2; i < nodes; i++ {
		w.after(promotion+w.r.Float64()*ttl*0.1, func() { w.follow(w.nodes[i], 1) })
	}
	for _, c := range w.clients {
		w.after(promotion+w.r.Float64()*ttl*0.05, func() { c.to = 1 })
	}
	if back {
		w.after(promotion+w.r.Float64()*4*ttl, func() {
			clear(w.apart)
			w.follow(w.nodes[0], 1)
		})
	}
	for len(w.todo) > 0 && w.now < 14*ttl {
		w.next()
		if again == 0 && heir.terms[0].until > w.now {
			again = w.now - crash
		}
	}
	return (w.books.gap[1] + max(0, w.now-w.books.heldTo[1])) / ttl, again / ttl
}
