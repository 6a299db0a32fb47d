package core

import (
	"cmp"
	"slices"
)

// left is a session that a discovery shows without the owner it had.
type left struct {
	session, owner int32
	ask            bool // the owner is to be asked
}

// ask is another instance's request for leases. A discovery that was sent after the request arrived decides it.
type ask struct {
	from  string
	ids   []string
	after uint64 // last op sent before it arrived
	at    Time   // when it arrived
	again bool   // a discovery did not settle it
	bytes int    // of the ids
}

// vanished reports whether session i lost its living owner without a notice of a release, and without a request of this instance for it.
// Another program may have deleted the key without the owner's knowledge. If so, vanished marks the owner to be asked.
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

// formers returns the requests to the owners of vanished sessions, one for each owner. A request makes the owner run a discovery; this
// instance takes the sessions no sooner than after its own next one. That comes soon, because mostly a notice of a release was lost.
func (f *fleet) formers() (asks [][]Item) {
	f.left = slices.DeleteFunc(f.left, func(l left) bool { return !l.ask })
	if f.blocked != 0 {
		return nil // no instance may acquire now
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

// wanted returns the requests to the owners of sessions that this instance should have, one for each owner. They are repeated at every
// discovery, because messages may be lost and no instance releases a lease without a request.
func (f *fleet) wanted() (asks [][]Item) {
	f.hoped = f.hoped[:0]
	f.placement()
	if f.blocked != 0 {
		f.discover(discoverBlocked)
		return nil
	}
	me := f.place[0]
	if me == nobody {
		return nil // nobody would release anything to it
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
	if len(f.waits) == 0 || f.askings.add(f.k.Now(), f.cfg.Discovery, 1) > 2 { // two in a tenth: when it joins, and on the result
		return nil
	}
	for _, i := range f.waits {
		if o := f.known[i].owner; !slices.ContainsFunc(asks, func(a []Item) bool { return a[0].Peer == f.r.nodes[o].id }) {
			asks = append(asks, f.askOf(o, f.waits))
		}
	}
	return asks
}

func (f *fleet) askOf(o int32, sessions []int32) (items []Item) {
	for _, i := range sessions {
		if f.known[i].owner == o {
			items = append(items, Item{ID: f.sessions.IDs[i], Peer: f.r.nodes[o].id})
		}
	}
	return items
}

func (f *fleet) askAgain(missing int) {
	if missing != f.missing {
		f.missing, f.asked = missing, 0
	}
	f.asked++
	f.discover(discoverAsking)
}

// countedAgain restarts the requests of this instance, because the others may not have counted it until now.
func (f *fleet) countedAgain() {
	f.asked = 0
	f.discover(discoverCounted)
}

// asksMax bounds the requests that are kept until the next discovery. In that time an instance sends at most two to each other.
const asksMax = 1024

// askBytesMax bounds the memory of their lease names, and suffices for a fleet of a hundred thousand sessions. A client that may publish
// can request any number of names.
const askBytesMax = 8 << 20

func bytesOf(ids []string) (n int) {
	const header = 16 // of a string
	for _, id := range ids {
		n += header + len(id)
	}
	return n
}

// hear keeps another instance's request until the next discovery. It replaces an earlier one that a discovery did not settle.
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
		f.asks = append(f.asks, ask{from: n.From, ids: n.IDs, after: f.k.Seq(), at: f.k.Now(), bytes: bytes})
	}
}

func (f *fleet) forgetAsks() { f.asks = f.asks[:0] }

// decide decides the requests that arrived before the discovery look was sent. give releases the leases that can be given and reports
// whether some cannot. The asking instance may know of an instance that is not counted here yet, so an unsettled request is kept for an
// interval.
func (f *fleet) decide(look uint64, give func(*ask) (lacking bool)) {
	later := f.asks[:0]
	for _, a := range f.asks {
		if a.after >= look || f.stillAsks(&a, give) && f.k.Now() < a.at+Time(f.cfg.Discovery) {
			later = append(later, a)
		}
	}
	clear(f.asks[len(later):])
	f.asks = later
}

func (f *fleet) stillAsks(a *ask, give func(*ask) (lacking bool)) bool {
	i, ok := f.r.index[a.from]
	if !ok || !f.r.nodes[i].alive {
		return false
	}
	lacks, known := f.lacks(i)
	if a.again && !lacks {
		return false
	}
	// An instance that has reached its quota since gets no more, or others would lack it.
	a.again = known && !lacks || give(a)
	return a.again
}

// excess returns how many of its held placed leases this instance has above its quota. ok is false if no sessions are placed on it.
func (f *fleet) excess(held int) (n int, ok bool) {
	f.placement()
	me := f.place[0]
	if me == nobody {
		return 0, false
	}
	return held - int(f.quota[me]), true
}
