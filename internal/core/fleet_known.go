package core

import "slices"

// ownedBy notes who owns session i now; "" nobody.
func (f *fleet) ownedBy(i int32, owner string) {
	if i == nobody {
		return
	}
	f.touch(i)
	f.known[i].free, f.known[i].asked = false, false
	f.moveOwner(i, f.ownerIndex(i, owner))
}

// passedMax is how many looks in a row are passed over for what is said of a session while they are under way.
const passedMax = 2

// said notes who owns session i now, as another instance says, and reports whether that counts. A look under way may be older than what
// is said, so what it shows of the session is passed over; but whoever may publish could so say for ever that what is free has an owner.
// After a few such looks nothing that is said of the session counts, and the looks do, until one in which nothing was said.
func (f *fleet) said(i int32, owner string) bool {
	if i == nobody {
		return true
	}
	k := &f.known[i]
	if f.look != 0 {
		k.talk = uint32(f.look)
	}
	if k.passed >= passedMax {
		return false
	}
	k.free = false
	f.moveOwner(i, f.ownerIndex(i, owner))
	return true
}

// believed reports whether what the look of that number shows of session i counts.
func (f *fleet) believed(i int32, look uint64) bool {
	k := &f.known[i]
	talked := k.talk == uint32(look)
	if !talked {
		k.passed = 0
	}
	if _, own := slices.BinarySearch(f.touched, i); own {
		return false
	}
	if talked && k.passed < passedMax {
		k.passed++
		return false
	}
	return true
}

// ownerIndex is the index of the owner of session i, who mostly is who it was; nobody for "".
func (f *fleet) ownerIndex(i int32, owner string) int32 {
	if owner == "" {
		return nobody
	}
	if o := f.known[i].owner; o != nobody && f.r.nodes[o].id == owner {
		return o
	}
	return f.r.know(owner)
}

// touch makes what a look under way shows of session i count for nothing: it may have been read before what just happened.
func (f *fleet) touch(i int32) {
	if i != nobody && f.look != 0 {
		f.touched = append(f.touched, i)
	}
}

// moveOwner notes the owner of session i. A session that went where it was to go is a step of the plan that stands, and a
// placement made anew would be the rest of the same plan: a rebalance of many sessions, told one by one, does not cost a
// placement each. Nor does a session that loses a dead owner: to the placement it was free already.
func (f *fleet) moveOwner(i, o int32) {
	old := f.known[i].owner
	if old == o {
		return
	}
	f.known[i].owner = o
	f.r.own.othersTake = f.r.own.othersTake || o > 0
	switch {
	case f.outdated():
		return
	case f.placeOf(o) == f.placeOf(old): // both nobody's
	case f.placeOf(o) != nobody && f.target[i] == f.place[o]:
		f.target[i] = nobody
	default:
		f.dirty = true
		return
	}
	if o != nobody {
		f.owned[o]++
	}
	if old != nobody {
		f.owned[old]--
	}
}

// placeOf returns where instance o stands among those that are placed on, nobody if it does not.
func (f *fleet) placeOf(o int32) int32 {
	if o == nobody {
		return nobody
	}
	return f.place[o]
}

// shown is the owner whom a notice names, or "" for one whom nothing in Redis has shown yet, which a look soon does: who is known by what
// is said would be placed around, and remembered, as many as somebody makes up.
func (f *fleet) shown(owner string) string {
	if _, known := f.r.index[owner]; known || owner == "" {
		return owner
	}
	f.discover(discoverUnknown)
	return ""
}

// see takes over the sessions and owners that the look of that number showed. It reports whether the set of sessions changed. stands is
// told of each session that is entered and stands elsewhere, or nowhere, now, and of each that came, with what is known of it.
func (f *fleet) see(seq uint64, look *Look, stands func(id string, i int32, came *known)) (changed bool) {
	if f.sessions != look.Sessions {
		changed = !slices.Equal(f.sessions.IDs, look.Sessions.IDs)
		f.remap(look.Sessions, stands)
	}
	slices.Sort(f.touched)
	f.left, f.denied = f.left[:0], f.denied[:0]
	for i, owner := range look.Owners {
		k := &f.known[i]
		if o := k.owner; o > 0 && f.r.nodes[o].id == owner && !k.asked && k.passed == 0 {
			continue // as most are: nothing is new
		}
		if s := int32(i); f.believed(s, seq) {
			f.seeOwner(s, owner)
		}
	}
	return changed
}

// seeOwner takes over the owner of session i that a look showed.
func (f *fleet) seeOwner(i int32, owner string) {
	k, o := &f.known[i], f.ownerIndex(i, owner)
	if o != nobody {
		k.free, k.asked = false, false
	}
	was := k.owner
	if k.held && was == 0 && o != 0 {
		f.denied = append(f.denied, i) // a foreign hand, or a read older than the grant: ask
		return
	}
	if o == nobody && was > 0 && f.r.nodes[was].alive {
		f.left = append(f.left, left{session: i, owner: was})
	}
	f.moveOwner(i, o)
}

// remap carries what is known over to another set of sessions. Both sets are sorted, so it is one walk.
func (f *fleet) remap(to *Sessions, stands func(id string, i int32, came *known)) {
	all := make([]known, len(to.IDs))
	slices.Sort(f.touched)
	var touched []int32
	was := f.sessions.IDs
	j := 0
	for i, id := range to.IDs {
		s, k, from := int32(i), &all[i], j
		for j < len(was) && was[j] != id && was[j] < id { // mostly it is the very same string, which is told without reading it
			j++
		}
		f.wentFrom(from, j, stands)
		if j == len(was) || was[j] != id {
			k.owner = nobody
			if stands(id, s, k); k.held {
				k.owner = 0
			}
			continue
		}
		*k = f.known[j]
		if k.entered && i != j {
			stands(id, s, nil)
		}
		if _, ok := slices.BinarySearch(f.touched, int32(j)); ok {
			touched = append(touched, s)
		}
		j++
	}
	f.wentFrom(j, len(was), stands)
	f.sessions, f.known, f.touched, f.hoped = to, all, touched, f.hoped[:0]
	f.dirty, f.target = true, f.target[:0]
}

// wentFrom tells of the sessions from from to before end, which went.
func (f *fleet) wentFrom(from, end int, stands func(id string, i int32, came *known)) {
	for ; from < end; from++ {
		if f.known[from].entered {
			stands(f.sessions.IDs[from], nobody, nil)
		}
	}
}

// unowned returns the sessions without a living owner, and those in this instance's name that it does not hold.
func (f *fleet) unowned() []int32 {
	f.placement()
	f.waits = f.waits[:0]
	for i := range f.known {
		k := &f.known[i]
		if o := k.owner; o == nobody || o == 0 && !k.held || o > 0 && !f.r.nodes[o].alive {
			f.waits = append(f.waits, int32(i))
		}
	}
	return f.waits
}

// found takes note that a look showed session i free. It reports whether this instance is to take it now, or in its turn: one that is
// merely found free is taken only by its target; one that was already free at the look before, by whoever comes first in order. What
// could not be taken is found free at the look after.
func (f *fleet) found(i int32) (now, turn bool) {
	second := f.known[i].free
	f.known[i].free = f.blocked == 0
	if f.blocked != 0 || !second && !f.known[i].asked && f.vanished(i) {
		return false, false
	}
	now = f.targetOf(i) == 0
	return now, !now && second
}

// leaves takes note whether a look left something free. What is free while nobody may take it is looked at when that is over
// (discoverBlocked), and not until then: a quarantine would be ten looks an interval, by each instance that had tried to acquire.
func (f *fleet) leaves(free bool) {
	f.anyFree = free && f.blocked == 0
	if f.anyFree {
		f.discover(discoverFree)
	}
}
