package core

import "slices"

// ownedBy records the owner of session i as this instance has seen or caused it; "" nobody.
func (f *fleet) ownedBy(i int32, owner string) {
	if i == nobody {
		return
	}
	f.touch(i)
	f.known[i].free, f.known[i].asked = false, false
	f.moveOwner(i, f.ownerIndex(i, owner))
}

// passedMax is how many discoveries in a row are ignored for a session because a notice about it arrived during them.
const passedMax = 2

// said records the owner of session i from a notice, and reports whether the notice counts. A discovery under way may be older than the
// notice, so its result for the session is ignored. But then a client that may publish could claim forever that a free session has an
// owner. Therefore, after passedMax such discoveries, notices about the session do not count until a discovery without any.
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

// ownerIndex returns the index of owner, nobody for "". Mostly it is still the known owner of session i, which saves the map access.
func (f *fleet) ownerIndex(i int32, owner string) int32 {
	if owner == "" {
		return nobody
	}
	if o := f.known[i].owner; o != nobody && f.r.nodes[o].id == owner {
		return o
	}
	return f.r.know(owner)
}

// touch makes a discovery under way not count for session i, because it may be older than the present change.
func (f *fleet) touch(i int32) {
	if i != nobody && f.look != 0 {
		f.touched = append(f.touched, i)
	}
}

// moveOwner sets the owner of session i. If the session went to its target, the placement remains valid: a rebalance of many sessions
// costs no new placement for each. The same holds for a session that loses a dead owner, because the placement took it as free.
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
	case f.placeOf(o) == f.placeOf(old): // both are nobody
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

// placeOf returns the index of instance o in live, nobody if it is not there.
func (f *fleet) placeOf(o int32) int32 {
	if o == nobody {
		return nobody
	}
	return f.place[o]
}

// shown returns owner, which a notice names, or "" if Redis has not shown that instance yet; a discovery will. Instances known only from
// notices would otherwise affect placement and take memory, in any number that a client makes up.
func (f *fleet) shown(owner string) string {
	if _, known := f.r.index[owner]; known || owner == "" {
		return owner
	}
	f.discover(discoverUnknown)
	return ""
}

// see takes over the sessions and owners of discovery number seq. It reports whether the set of sessions changed. It calls stands for each
// entered session whose index changed, with nobody if the session is gone, and for each new session, with its entry in known.
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
			continue // nothing is new, as for most sessions
		}
		if s := int32(i); f.believed(s, seq) {
			f.seeOwner(s, owner)
		}
	}
	return changed
}

func (f *fleet) seeOwner(i int32, owner string) {
	k, o := &f.known[i], f.ownerIndex(i, owner)
	if o != nobody {
		k.free, k.asked = false, false
	}
	was := k.owner
	if k.held && was == 0 && o != 0 {
		f.denied = append(f.denied, i) // another program changed the key, or the read is older than the grant
		return
	}
	if o == nobody && was > 0 && f.r.nodes[was].alive {
		f.left = append(f.left, left{session: i, owner: was})
	}
	f.moveOwner(i, o)
}

// remap carries known over to another set of sessions. Both sets are sorted, so one pass suffices.
func (f *fleet) remap(to *Sessions, stands func(id string, i int32, came *known)) {
	all := make([]known, len(to.IDs))
	slices.Sort(f.touched)
	var touched []int32
	was := f.sessions.IDs
	j := 0
	for i, id := range to.IDs {
		s, k, from := int32(i), &all[i], j
		for j < len(was) && was[j] != id && was[j] < id { // != is fast: mostly both are the very same string
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

// wentFrom calls stands for the entered sessions in [from, end), which are gone.
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

// found records that a discovery showed session i free. It reports whether this instance should take it now, or in its turn. Only the
// target takes a session that is found free for the first time; after a second discovery, the others take it in order.
func (f *fleet) found(i int32) (now, turn bool) {
	second := f.known[i].free
	f.known[i].free = f.blocked == 0
	if f.blocked != 0 || !second && !f.known[i].asked && f.vanished(i) {
		return false, false
	}
	now = f.targetOf(i) == 0
	return now, !now && second
}

// leaves records whether a discovery left a session free, and plans the next one then. While acquisitions are blocked, discoverBlocked
// does that instead: otherwise each instance would run ten discoveries an interval during a quarantine.
func (f *fleet) leaves(free bool) {
	f.anyFree = free && f.blocked == 0
	if f.anyFree {
		f.discover(discoverFree)
	}
}
