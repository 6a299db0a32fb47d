package place

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/internal/term"
)

// left is a session that a discovery shows without the owner it had.
type left struct {
	session, owner int32
	ask            bool // the owner is to be asked
}

// vanished reports whether session i lost its living owner without a notice of a release, and without a request of this instance for it.
// Another program may have deleted the key without the owner's knowledge. If so, vanished marks the owner to be asked.
func (t *Table) vanished(i int32) bool {
	if _, hoped := slices.BinarySearch(t.hoped, i); hoped {
		return false
	}
	k, ok := slices.BinarySearchFunc(t.left, i, func(l left, i int32) int { return cmp.Compare(l.session, i) })
	if !ok {
		return false
	}
	t.left[k].ask, t.known[i].asked = true, true
	return true
}

// Formers returns the requests to the owners of vanished sessions, one for each owner. A request makes the owner run a discovery.
// This instance takes the sessions only after its own next discovery, which it runs soon, because in most cases a notice of a
// release was lost.
func (t *Table) Formers() (asks [][]term.Item) {
	t.left = slices.DeleteFunc(t.left, func(l left) bool { return !l.ask })
	if t.blocked != 0 {
		return nil // no instance may acquire now
	}
	all := t.left
	slices.SortStableFunc(all, func(a, b left) int { return cmp.Compare(a.owner, b.owner) })
	for len(all) > 0 {
		owner := all[0].owner
		var items []term.Item
		for len(all) > 0 && all[0].owner == owner {
			items = append(items, term.Item{ID: t.sessions.IDs[all[0].session], Peer: t.r.ID(owner)})
			all = all[1:]
		}
		asks = append(asks, items)
		t.Discover(DiscoverVanished)
	}
	return asks
}

// Wanted returns the requests to the owners of sessions that this instance should have, one for each owner. They are repeated at every
// discovery, because messages may be lost and no instance releases a lease without a request.
func (t *Table) Wanted() (asks [][]term.Item) {
	t.hoped = t.hoped[:0]
	t.Place()
	if t.blocked != 0 {
		t.Discover(DiscoverBlocked)
		return nil
	}
	me := t.place[0]
	if me == Nobody {
		return nil // nobody would release anything to it
	}
	for i, to := range t.target {
		if o := t.known[i].owner; to == me && o > 0 && t.r.Alive(o) {
			t.hoped = append(t.hoped, int32(i))
		}
	}
	if t.own.Doubtful() {
		t.hoped = t.hoped[:min(1, len(t.hoped))]
	}
	t.askAgain(len(t.hoped))
	if len(t.hoped) == 0 || t.askings.add(t.k.Now(), t.cfg.Discovery, 1) > 2 { // two in a tenth: when it joins, and on the result
		return nil
	}
	for _, i := range t.hoped {
		it := term.Item{ID: t.sessions.IDs[i], Peer: t.r.ID(t.known[i].owner)}
		k := slices.IndexFunc(asks, func(of []term.Item) bool { return of[0].Peer == it.Peer })
		if k < 0 {
			k, asks = len(asks), append(asks, nil)
		}
		asks[k] = append(asks[k], it)
	}
	return asks
}
