package core

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/place"
)

func (c *Core) notice(n *Notice) {
	if n.From == c.cfg.Instance || !c.own.Started() || c.own.Leaving() {
		return
	}
	switch n.Kind {
	case NoticeJoined: // any client can publish it, so the instance counts only after a discovery shows its heartbeat
		c.table.Discover(place.DiscoverJoined)
	case NoticeLeft:
		if c.members.Left(n.From) {
			c.table.Discover(place.DiscoverLeft)
		}
	case NoticeTaken:
		for _, id := range n.IDs {
			c.taken(id, c.table.Find(id), n.From)
		}
	case NoticeFreed:
		for k, id := range n.IDs {
			c.freed(id, c.table.Find(id), n.From, n.heir(k))
		}
	case NoticeAsked:
		if len(n.Peers) > 0 && n.Peers[0] == c.cfg.Instance && c.cfg.Place && c.mayHave(n.IDs) {
			c.table.Hear(n.From, n.IDs)
			c.table.Discover(place.DiscoverAsked)
		}
	}
}

// mayHave reports whether this instance may hold one of the requested leases. If acknowledgements count, Redis also names it as the owner
// of grants that too few replicas acknowledged. At a master without a majority these are all leases: the others request them at each
// discovery, and a discovery here for each request would be in vain (G14).
func (c *Core) mayHave(ids []string) bool {
	return !c.k.Replicated() || slices.ContainsFunc(ids, func(id string) bool { l := c.leases[id]; return l != nil && l.Phase() == owned })
}

func (n *Notice) heir(k int) heir {
	if k < len(n.Peers) {
		return heirNamed(n.Peers[k], n.From)
	}
	return heir{}
}

// taken handles a notice that owner acquired id, which is session i or nobody's.
func (c *Core) taken(id string, i int32, owner string) {
	l := c.entryOf(id, i)
	if l != nil && l.Phase() == owned {
		return // a notice ends no term: the next renewal decides
	}
	if l == nil && c.cfg.Place && i < 0 {
		c.table.Discover(place.DiscoverUnknown)
		return
	}
	if !c.table.Said(i, c.table.Shown(owner)) || l == nil || l.Phase() != idle || len(l.stuck) > 0 {
		return
	}
	l.holder = owner
	l.vacant(Vacancy{})
	switch {
	case l.place && !l.want && c.members.Fresh(owner):
		c.forget(l)
	case l.want || l.place:
		l.will(nextRead) // a notice does not postpone the timer: the lease is read when it fires
	}
}

// freed handles a notice that from released id, which is session i or nobody's. The heir acquires it at once, or without one the target.
// An instance whose user wants the lease does too. The others leave it to the heir for a moment and then follow in order.
func (c *Core) freed(id string, i int32, from string, to heir) {
	l := c.entryOf(id, i)
	if l != nil && (l.Phase() != idle || len(l.stuck) > 0) {
		if l.Phase() == acquiring {
			l.vacant(Vacancy{Since: c.k.Now(), Owner: from, GivenBack: true})
			l.will(nextAgain) // the answer under way may be older than the release
		}
		return
	}
	if l != nil && l.want {
		l.holder = ""
		l.vacant(Vacancy{Since: c.k.Now(), Owner: from, GivenBack: true})
		c.retry(l)
		return
	}
	if i < 0 {
		c.table.Discover(place.DiscoverUnknown)
		return
	}
	if to.none {
		c.table.Said(i, "") // its session is gone or paused, as a discovery will show
		c.table.Discover(place.DiscoverToNobody)
		return
	}
	c.leftTo(i, l, from, to)
}

// leftTo is freed for session i under placement, whose entry is l, nil without one. Placement takes the heir as the owner already.
func (c *Core) leftTo(i int32, l *lease, from string, to heir) {
	c.table.Said(i, c.table.Shown(to.id))
	inLine := l != nil && l.place && l.holder == "" && (l.next == nextTurn || l.next == nextAcquire)
	l = c.placed(i)
	l.holder = ""
	l.exp = c.k.Now()
	l.vacant(Vacancy{Since: c.k.Now(), Owner: from, GivenBack: true})
	if to.id == c.cfg.Instance {
		c.retry(l)
		if l.Phase() == acquiring {
			l.will(nextInherit)
		}
		return
	}
	turn, wait := nextTurn, c.pause.Heir(len(c.leases)-len(c.held)) // after that, most have a notice of the acquisition and need no turn
	if to.id == "" {
		turn, wait = nextAcquire, c.stagger(l)
	}
	switch at := c.k.Now() + Time(wait); {
	case wait == 0:
		c.retry(l)
	case inLine && (to.id != "" || l.due <= at): // a repeated notice does not postpone the turn
	default:
		l.Cancel()
		l.will(turn)
		c.timers.armLease(l, at)
	}
}

func (c *Core) retry(l *lease) {
	l.Cancel()
	c.tryAcquire(l)
}
