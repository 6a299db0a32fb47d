package check

// e2 promises that the fenced resource accepts no write of an older leader, and that two leaders never write at once. It applies the
// queries of G2 to the resource's own record. The order in which leaders began decides if a leader sends no fence.
type e2 struct{ g2 }

func (g *e2) finish() {
	for _, s := range g.w.fleet.sorted() {
		g.older(s)
	}
	g.g2.finish()
}

// older finds the writes without a fence that the resource accepted after a write of a newer leader.
func (g *e2) older(s *session) {
	next, newest := 0, 0
	led, last := map[string]int{}, map[int]*poll{} // number of each instance's last leadership, and the last write of each leadership
	for _, p := range s.polls {
		for ; next < len(s.history) && s.history[next].seen < p.seen; next++ {
			led[s.history[next].inst.id] = next + 1
		}
		if p.refused {
			continue
		}
		n := led[p.inst]
		if n < newest && p.fence == 0 {
			other := last[newest]
			g.broken(s, p, other, "the resource accepted write %d of %s at %s, without a fence, although %s leads since and has written: an "+
				"older leader's write", p.n, g.who(p), clock(p.at), g.who(other))
		}
		newest, last[n] = max(newest, n), p
	}
}
