package check

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// said has what an instance reports of a lease, and what Redis does with the lease. Each attempt to extend the lease explains one
// extension. A refused acquisition explains one too: a script that Redis refuses halfway may have extended an adopted lease without
// setting a fence.
type said struct {
	fence    int64   // highest fence that it has reported
	released int64   // when it last released the lease
	sent     int64   // start of its last renewal
	first    int64   // start of its first renewal without an answer; 0: none
	open     []int64 // starts of the attempts without an answer, as far as no extension is theirs
	done     []int64 // times of the other attempts' answers, likewise
	early    []int64 // extensions that no attempt explains yet
	effects  []effect
}

func (g *g10) by(session *session, inst string) *said {
	of := [2]string{session.id, inst}
	if g.said[of] == nil {
		g.said[of] = &said{}
	}
	return g.said[of]
}

// explains adds an attempt to the list. Its report may be recorded a moment after its effect.
func (s *said) explains(list []int64, at int64) []int64 {
	if len(s.early) > 0 {
		s.early = s.early[1:]
		return list
	}
	return append(list, at)
}

// used matches an extension to one of the holder's attempts. An extension without an attempt is a break.
func (g *g10) used(k *key, at int64) {
	i := g.w.fleet.instances[k.holder]
	if i == nil || !i.sends || i.asks {
		return
	}
	s := g.by(k.session, k.holder)
	for len(s.done) > 0 {
		answered := s.done[0]
		k.spent, s.done = answered, s.done[1:]
		if at <= answered+g.w.blur()+g.w.host.stall(answered, at) {
			return
		}
	}
	for n := len(s.open) - 1; n >= 0; n-- { // the answer to come is most likely that of the last
		sent := s.open[n]
		k.spent, s.open = sent, s.open[:n]
		if at <= sent+2*int64(g.w.TTL) || at <= g.underWay(i, sent) {
			return
		}
	}
	s.early = append(s.early, at)
	g.w.at(g.w.host.recordedBy(at)+int64(g.w.RenewTimeout), func() {
		n := slices.Index(s.early, at)
		if n < 0 || i.gone && i.killed && g.w.allows(lostMessages) { // of a killed one, the last events were lost
			return
		}
		s.early = slices.Delete(s.early, n, n+1)
		g.broke(k.session, "at %s somebody extended the lease of %s once more than its owner had asked for (session %s): whoever extends a "+
			"lease must compare its owner first", clock(at), i.who(), k.session.id)
	})
}

// underWay returns until when Redis may execute a request without an answer. A kernel retransmits with pauses that double, so the request
// may arrive as long after a fault as the fault lasted.
func (g *g10) underWay(i *instance, sent int64) int64 {
	until := sent + 2*int64(g.w.TTL)
	for inj, r := range g.w.faults.reaching(sent, nil, g.w.faults.reach) {
		if r.from > until {
			break
		}
		if (inj.ofRedis() || inj.node == i.node) && g.w.allows(heldBack) {
			until = max(until, r.to+(r.to-r.from)+g.w.blur())
		}
	}
	return until
}

// refused counts a refused acquisition as an attempt if the instance still has the lease.
func (g *g10) refused(e *history.Event) {
	for _, on := range g.stores {
		if k := on.keys[g.w.subject]; k != nil && k.holder == e.Instance {
			s := g.by(k.session, e.Instance)
			s.open = s.explains(s.open, e.T)
			return
		}
	}
}

func (g *g10) reports(k *key, e *history.Event) {
	s := g.by(k.session, e.Instance)
	s.fence = max(s.fence, e.Fence)
	switch e.Kind {
	case history.RenewStart:
		g.w.reporter.sends = true
		s.sent, s.first = e.T, cmp.Or(s.first, e.T)
		s.open = s.explains(s.open, e.T)
	case history.Released:
		s.released = e.T
	case history.Acquired:
		s.first = 0
		g.claimed(k, s, *e, e.T)
	case history.Renewed:
		since := cmp.Or(s.first, e.T-int64(g.w.RenewTimeout)-eventAllowance)
		if n := len(s.open) - 1; n >= 0 && s.open[n] == s.first && s.first == s.sent { // otherwise it may be the answer to another one
			s.open, s.done = s.open[:n], append(s.done, e.T)
		}
		s.first = 0
		if g.w.reporter.sends {
			g.claimed(k, s, *e, since-expirySlack)
		}
	}
}

// claimed judges a grant or renewal that a node asked for at asked, or later, and reports. A single Redis is asked only if it has shown the
// lease without the node since then.
func (g *g10) claimed(k *key, s *said, e history.Event, asked int64) {
	since, fence, what := asked, int64(0), "renewed its lease of"
	if e.Kind == history.Acquired {
		since, fence, what = e.T-int64(g.w.TTL), e.Fence, "acquired"
	}
	g.w.at(e.T+g.w.blur()+g.w.host.stall(e.T-eventAllowance, e.T), func() {
		without := k.known && k.holder != e.Instance && k.since < asked && !k.token
		if g.w.replicated() && g.w.Foreign || !g.w.replicated() && !without {
			return
		}
		if why := g.lacks(k, s, since, fence); why != "" {
			g.broke(k.session, "%s says that it %s session %s at %s%s, but %s", g.who(e.Instance), what, k.session.id, clock(e.T),
				inBrackets(e.Fence), why)
		}
	})
}

// lacks returns "" if a server did something for the instance since then, under that fence (0: any), and enough replicas acknowledged it.
func (g *g10) lacks(k *key, s *said, since, fence int64) string {
	why := "Redis did not do that (it shows that lease with " + g.who(k.holder) + ")"
	for _, f := range slices.Backward(s.effects) {
		switch {
		case f.at < since:
			return why
		case g.fences && fence != 0 && f.fence != fence:
		case g.w.Replicas == 0 || f.at <= f.store.acked:
			return ""
		default:
			why = "as few replicas had acknowledged that as do not count"
		}
	}
	return why
}
