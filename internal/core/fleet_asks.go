package core

import (
	"cmp"
	"slices"
)

// left is a session without the owner that it had.
type left struct {
	session, owner int32
	ask            bool
}

// ask is what another instance wants; it is decided on a look that was sent after it was heard.
type ask struct {
	from  string
	ids   []string
	after uint64 // ops sent before it was heard
	at    Time   // when it was heard
	again bool   // a look has shown nothing to give
	bytes int    // of the ids
}

// vanished reports whether session i had a living owner until this look, that nothing told of a release and nobody here
// asked for one: a foreign hand may have deleted the key without its owner's knowing.
func (f *fleet) vanished(i int32) bool {
	if _, hoped := slices.BinarySearch(f.hoped, i); hoped {
		return false
	}
	k, ok := slices.BinarySearchFunc(f.left, i, func(l left, i int32) int { return cmp.Compare(l.session, i) })
	if !ok {
		return false
	}
	f.left[k].ask, f.known[i].asked = true, true
	return true
}

// formers returns what the owners of what vanished are asked for, a message each: to look for themselves, which they are given until
// the next look. It comes soon, because mostly it was a release that was not heard.
func (f *fleet) formers() (asks [][]Item) {
	f.left = slices.DeleteFunc(f.left, func(l left) bool { return !l.ask })
	if f.blocked != 0 {
		return nil // nobody takes anything now
	}
	all := f.left
	slices.SortStableFunc(all, func(a, b left) int { return cmp.Compare(a.owner, b.owner) })
	for len(all) > 0 {
		owner := all[0].owner
		var items []Item
		for len(all) > 0 && all[0].owner == owner {
			items = append(items, Item{ID: f.sessions.IDs[all[0].session], Peer: f.r.nodes[owner].id})
			all = all[1:]
		}
		asks = append(asks, items)
		f.discover(discoverVanished)
	}
	return asks
}

// wanted returns what the owners of what this instance should have are asked for, a message each. It is repeated at every look: a
// message may be lost, and nobody gives up unasked.
func (f *fleet) wanted() (asks [][]Item) {
	f.hoped = f.hoped[:0]
	f.placement()
	if f.blocked != 0 {
		f.discover(discoverBlocked)
		return nil
	}
	me := f.place[0]
	if me == nobody {
		return nil // nobody would give it anything
	}
	f.waits = f.waits[:0]
	for i, t := range f.target {
		if o := f.known[i].owner; t == me && o > 0 && f.r.nodes[o].alive {
			f.waits = append(f.waits, int32(i))
		}
	}
	if f.r.own.doubtful() {
		f.waits = f.waits[:min(1, len(f.waits))]
	}
	f.hoped = append(f.hoped, f.waits...)
	f.askAgain(len(f.waits))
	if len(f.waits) == 0 || f.askings.add(f.k, 1) > 2 { // in a tenth of the interval: one when it joins, and one on what came of it
		return nil
	}
	for _, i := range f.waits {
		if o := f.known[i].owner; !slices.ContainsFunc(asks, func(a []Item) bool { return a[0].Peer == f.r.nodes[o].id }) {
			asks = append(asks, f.askOf(o, f.waits))
		}
	}
	return asks
}

// askOf names those of sessions that o owns.
func (f *fleet) askOf(o int32, sessions []int32) (items []Item) {
	for _, i := range sessions {
		if f.known[i].owner == o {
			items = append(items, Item{ID: f.sessions.IDs[i], Peer: f.r.nodes[o].id})
		}
	}
	return items
}

// askAgain counts the looks in a row that asked for as much.
func (f *fleet) askAgain(missing int) {
	if missing != f.missing {
		f.missing, f.asked = missing, 0
	}
	f.asked++
	f.discover(discoverAsking)
}

// countedAgain has this instance ask afresh: until now the others may have counted it out.
func (f *fleet) countedAgain() {
	f.asked = 0
	f.discover(discoverCounted)
}

// asksMax bounds what is kept until the next look. An instance asks each other twice in the time of one at the most.
const asksMax = 1024

// askBytesMax bounds what the names in them take, as a fleet of a hundred thousand sessions asks for. Whoever may publish can ask for
// names that nobody has.
const askBytesMax = 8 << 20

// bytesOf is what names take.
func bytesOf(ids []string) (n int) {
	const header = 16 // of a string
	for _, id := range ids {
		n += header + len(id)
	}
	return n
}

// hear keeps what another instance wants until the next look. It takes the place of what that one wanted before.
func (f *fleet) hear(n *Notice) {
	if len(f.asks) >= asksMax {
		return
	}
	f.asks = slices.DeleteFunc(f.asks, func(a ask) bool { return a.again && a.from == n.From })
	bytes := bytesOf(n.IDs)
	kept := bytes
	for i := range f.asks {
		kept += f.asks[i].bytes
	}
	if kept <= askBytesMax {
		f.asks = append(f.asks, ask{from: n.From, ids: n.IDs, after: f.k.seq, at: f.k.now.Mono, bytes: bytes})
	}
}

// forgetAsks drops what others asked for.
func (f *fleet) forgetAsks() { f.asks = f.asks[:0] }

// decide takes up, on what the look just made shows, what others asked for before it was sent: give gives of an asking what can be
// given, and reports whether something is lacking still. Who asks may know of an instance that is not counted here yet: what cannot be
// given now is kept in mind for an interval.
func (f *fleet) decide(look uint64, give func(*ask) (lacking bool)) {
	later := f.asks[:0]
	for _, a := range f.asks {
		if a.after >= look || f.stillAsks(&a, give) && f.k.now.Mono < a.at+Time(f.k.cfg.Discovery) {
			later = append(later, a)
		}
	}
	clear(f.asks[len(later):])
	f.asks = later
}

// stillAsks decides on one asking, and reports whether something of it is to be kept in mind.
func (f *fleet) stillAsks(a *ask, give func(*ask) (lacking bool)) bool {
	i, ok := f.r.index[a.from]
	if !ok || !f.r.nodes[i].alive {
		return false
	}
	lacks, known := f.lacks(i)
	if a.again && !lacks {
		return false
	}
	// It may have asked more than once, or others gave: what it got since, the others lack.
	a.again = known && !lacks || give(a)
	return a.again
}

// excess returns how many this instance is to give of the placed ones that it holds, if asked. ok is false where it is not placed on.
func (f *fleet) excess(held int) (n int, ok bool) {
	f.placement()
	me := f.place[0]
	if me == nobody {
		return 0, false
	}
	return held - int(f.quota[me]), true
}
