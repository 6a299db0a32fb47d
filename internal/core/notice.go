package core

import (
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/internal/place"
)

func (b *balancer) notice(n *Notice) {
	b.numbered(n)
	if n.From == b.cfg.Instance || !b.own.Started() || b.own.Leaving() {
		return
	}
	switch n.Kind {
	case NoticeJoined: // it counts once its heartbeat was read
		if b.cfg.ReadAll {
			b.table.Discover(place.DiscoverJoined)
		} else {
			b.members.Joined(n.From)
		}
	case NoticeLeft:
		if b.members.Left(n.From) {
			b.table.Discover(place.DiscoverLeft)
		}
	case NoticeTaken:
		for _, id := range n.IDs {
			b.taken(id, b.table.Find(id), n.From)
		}
	case NoticeFreed:
		for k, id := range n.IDs {
			b.freed(id, b.table.Find(id), n.From, n.heir(k))
		}
	case NoticeAsked:
		if len(n.Peers) > 0 && n.Peers[0] == b.cfg.Instance && b.cfg.Place && b.mayHave(n.IDs) {
			b.table.Hear(n.From, n.IDs)
			b.table.Discover(place.DiscoverAsked)
		}
	}
}

// numbered records the number of a notice. Requests have none.
func (b *balancer) numbered(n *Notice) {
	if n.Kind != NoticeAsked && n.Kind != NoticeNumber {
		b.table.Noticed()
	}
	if n.Number != 0 {
		b.table.Numbered(n.Number, strings.HasSuffix(b.k.Epoch(), " "+n.Epoch))
	}
}

// mayHave reports whether this instance may hold one of the requested leases. If acknowledgements count, Redis also names it as the
// owner of grants that too few replicas acknowledged. At a master without a majority, this applies to all leases: the other
// instances request them at each discovery, and a discovery of this instance for each request would be in vain (G14).
func (b *balancer) mayHave(ids []string) bool {
	owns := func(id string) bool { l := b.entries.leases[id]; return l != nil && l.Phase() == owned }
	return !b.k.Replicated() || slices.ContainsFunc(ids, owns)
}

// heir returns the instance that should take the k-th released lease, "" for the first in order, n.From for none.
func (n *Notice) heir(k int) string {
	if k < len(n.Peers) {
		return n.Peers[k]
	}
	return ""
}

// taken handles a notice that owner acquired id, which is session i or nobody's.
func (b *balancer) taken(id string, i int32, owner string) {
	l := b.entries.entryOf(id, i)
	if l != nil && l.Phase() == owned {
		return // a notice ends no term: the next renewal decides
	}
	if l == nil && b.cfg.Place && i < 0 {
		b.table.Discover(place.DiscoverUnknown)
		return
	}
	b.table.Said(i, b.table.Shown(owner))
	if l == nil || l.Phase() != idle || l.stuck {
		return
	}
	l.holder = owner
	l.vacant(Vacancy{})
	switch {
	case l.place && !l.want && b.members.Fresh(owner):
		b.entries.forget(l)
	case l.want || l.place:
		l.will(nextRead) // a notice does not postpone the timer: the lease is read when it fires
	}
}

// freed handles a notice that from released id, which is session i or nobody's. The heir acquires it at once, or without one the target.
// An instance whose user wants the lease does too. A few others leave it to the heir for a moment and then follow in order.
func (b *balancer) freed(id string, i int32, from, to string) {
	l := b.entries.entryOf(id, i)
	if l != nil && (l.Phase() != idle || l.stuck) {
		if l.Phase() == acquiring {
			l.vacant(Vacancy{Since: b.k.Now(), Owner: from, GivenBack: true})
			l.will(nextAgain) // the answer under way may be older than the release
		}
		return
	}
	if l != nil && l.want {
		l.holder = ""
		l.vacant(Vacancy{Since: b.k.Now(), Owner: from, GivenBack: true})
		b.keeper.retry(l)
		return
	}
	if i < 0 {
		b.table.Discover(place.DiscoverUnknown)
		return
	}
	if to == from {
		b.table.Said(i, "") // its session is gone or paused, as a discovery will show
		b.table.Discover(place.DiscoverToNobody)
		return
	}
	b.leftTo(i, l, from, to)
}

// leftTo is freed for session i under placement, whose entry is l, nil without one. For placement, the heir is the owner already.
func (b *balancer) leftTo(i int32, l *lease, from, to string) {
	b.table.Said(i, b.table.Shown(to))
	follows := b.table.Follows(i)
	if l == nil && to != b.cfg.Instance && b.members.Fresh(to) && follows > b.cfg.StaggerMax {
		return // enough others would follow, and the heir's heartbeat is watched
	}
	inLine := l != nil && l.place && l.holder == "" && l.next == nextAcquire
	l = b.entries.placed(i)
	l.holder, l.exp = "", b.k.Now()
	l.vacant(Vacancy{Since: b.k.Now(), Owner: from, GivenBack: true})
	if to == b.cfg.Instance {
		b.keeper.retry(l)
		if l.Phase() == acquiring {
			l.will(nextInherit)
		}
		return
	}
	wait := b.pause.Heir(b.req.took) + b.pause.Turn(follows)
	if to == "" {
		wait = b.keeper.stagger(l)
	}
	switch {
	case wait == 0:
		b.keeper.retry(l)
	case !inLine: // a repeated notice does not postpone the turn
		l.Cancel()
		l.will(nextAcquire)
		b.timers.armLease(l, b.k.Now()+Time(wait))
	}
}
