package place

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/internal/member"
	"github.com/leasestorm/leasestorm/internal/pause"
	"github.com/leasestorm/leasestorm/internal/term"
)

// Table is this instance's view of the sessions and their owners, and the placement that follows from it. Discoveries set the view;
// notices and the instance's own actions correct it in between. The table reads the registry, but does not depend on the keeper. Its
// errors move a lease in vain or late, but never give it two owners: package term does not use it.
//
// A session is identified by its index until the next set of sessions. One without an owner is never held, and a held one is entered.
type Table struct {
	view
	placement
	Discoveries
	requests
	k   *term.Kernel // read only
	cfg *pause.Config
	r   *member.Registry
	own *member.Membership

	anyFree term.Time // since when each discovery showed a session without an owner; 0: the last one showed none
	touched []int32   // sessions whose owner changed during a discovery, whose answer may be older
	left    []left    // sessions that the last discovery shows free although their owner lives, ascending by session
	denied  []int32   // sessions that this instance holds and the last discovery shows as not its own
	hoped   []int32   // sessions that this instance wanted of others at the last discovery, ascending: they may be released to it
	askings tenth     // discoveries that asked others for sessions
}

// NewTable returns the empty table of an instance. by nil is a Placer.
func NewTable(k *term.Kernel, cfg *pause.Config, r *member.Registry, own *member.Membership, by Placement) *Table {
	if by == nil {
		by = &Placer{}
	}
	t := &Table{k: k, cfg: cfg, r: r, own: own, view: view{sessions: NewSessions(nil)}}
	t.placement = placement{k: k, cfg: cfg, r: r, of: &t.view, by: by}
	t.requests = requests{k: k, cfg: cfg, p: &t.placement}
	t.Discoveries = Discoveries{readings: readings{k: k, cfg: cfg, read: -1}, hash: r.Hash(0)}
	return t
}

// AnyFree reports whether the last discovery showed a session without an owner.
func (t *Table) AnyFree() bool { return t.anyFree != 0 }

// Denied returns the sessions that this instance holds, but that the last discovery does not show as its own.
func (t *Table) Denied() []int32 { return t.denied }

// LookSent records the discovery seq.
func (t *Table) LookSent(seq uint64) {
	t.due = false
	t.look, t.last[DiscoverAsked] = seq, t.k.Now() // any discovery answers requests
	t.touched, t.left, t.denied = t.touched[:0], t.left[:0], t.denied[:0]
}

// News takes over the news, which a discovery shows. If Reading is true then, the discovery goes on with a reading.
func (t *Table) News(n *News) {
	t.Place()
	t.readings.news(n, t.sessions.Sum(), t.cfg.Turn(max(0, int(t.place[0]))))
	t.due = t.due || t.reading
}

// Seen ends a discovery. changed says whether the discovery showed other instances or sessions than the one before. Until blocked,
// nothing may be acquired.
func (t *Table) Seen(changed bool, blocked term.Time) {
	t.blocked = blocked
	t.touched = t.touched[:0]
	t.dirty = t.dirty || changed
	if changed {
		t.Discover(DiscoverChanged)
	}
}

// OwnedBy records the owner of session i as this instance has seen or caused it; "" nobody.
func (t *Table) OwnedBy(i int32, owner string) {
	if i == Nobody {
		return
	}
	t.known[i].asked = false
	t.Said(i, owner)
}

// Said records the owner of session i from a notice.
func (t *Table) Said(i int32, owner string) {
	if i == Nobody {
		return
	}
	t.Touch(i)
	t.known[i].free = false
	t.moveOwner(i, t.ownerIndex(i, owner))
}

// ownerIndex returns the index of owner, Nobody for "". Mostly it is still the known owner of session i, which saves the map access.
func (t *Table) ownerIndex(i int32, owner string) int32 {
	if owner == "" {
		return Nobody
	}
	if o := t.known[i].owner; o != Nobody && t.r.ID(o) == owner {
		return o
	}
	return t.r.Know(owner)
}

// Touch makes a discovery under way not count for session i, because it may be older than the present change.
func (t *Table) Touch(i int32) {
	if i != Nobody && t.look != 0 {
		t.touched = append(t.touched, i)
	}
}

// moveOwner sets the owner of session i. If the session went to its target, the placement remains valid: a rebalance of many sessions
// costs no new placement for each. The same holds for a session that loses a dead owner, because the placement took it as free.
func (t *Table) moveOwner(i, o int32) {
	old := t.known[i].owner
	if old == o {
		return
	}
	t.known[i].owner = o
	if o > 0 {
		t.own.OthersTake()
	}
	switch {
	case t.outdated():
		return
	case t.placeOf(o) == t.placeOf(old): // both are Nobody
	case t.placeOf(o) != Nobody && t.target[i] == t.place[o]:
		t.target[i] = Nobody
	default:
		t.dirty = true
		return
	}
	if o != Nobody {
		t.owned[o]++
	}
	if old != Nobody {
		t.owned[old]--
	}
}

// placeOf returns the index of instance o in live, Nobody if it is not there.
func (t *Table) placeOf(o int32) int32 {
	if o == Nobody {
		return Nobody
	}
	return t.place[o]
}

// Shown returns owner, which a notice names, or "" if Redis has not shown that instance yet; a discovery will. Instances known only from
// notices would otherwise affect placement and take memory, in any number that a client makes up.
func (t *Table) Shown(owner string) string {
	if _, known := t.r.Find(owner); known || owner == "" {
		return owner
	}
	t.Discover(DiscoverUnknown)
	return ""
}

// Stands is called for each entered session whose index changed, with Nobody if the session is gone, and for each new session. It
// returns what Enter and Hold would be called with.
type Stands func(id string, i int32) (entered, held bool)

// See takes over the sessions and owners of a reading. It reports whether the set of sessions changed.
func (t *Table) See(look *Look, stands Stands) (changed bool) {
	t.done(look.Owners != nil)
	if t.sessions != look.Sessions {
		changed = !slices.Equal(t.sessions.IDs, look.Sessions.IDs)
		t.remap(look.Sessions, stands)
	}
	slices.Sort(t.touched)
	for i, owner := range look.Owners {
		k := &t.known[i]
		if o := k.owner; o > 0 && t.r.ID(o) == owner && !k.asked {
			continue // nothing is new, as for most sessions
		}
		if _, touched := slices.BinarySearch(t.touched, int32(i)); !touched {
			t.seeOwner(int32(i), owner)
		}
	}
	return changed
}

func (t *Table) seeOwner(i int32, owner string) {
	k, o := &t.known[i], t.ownerIndex(i, owner)
	if o != Nobody {
		k.free, k.asked = false, false
	}
	was := k.owner
	if k.held && was == 0 && o != 0 {
		t.denied = append(t.denied, i) // another program changed the key, or the read is older than the grant
		return
	}
	if o == Nobody && was > 0 && t.r.Alive(was) {
		t.left = append(t.left, left{session: i, owner: was})
	}
	t.moveOwner(i, o)
}

// remap carries known over to another set of sessions. Both sets are sorted, so one pass suffices.
func (t *Table) remap(to *Sessions, stands Stands) {
	all := make([]known, len(to.IDs))
	slices.Sort(t.touched)
	var touched []int32
	was := t.sessions.IDs
	j := 0
	for i, id := range to.IDs {
		s, k, from := int32(i), &all[i], j
		for j < len(was) && was[j] != id && was[j] < id { // != is fast: mostly both are the very same string
			j++
		}
		t.wentFrom(from, j, stands)
		if j == len(was) || was[j] != id {
			k.owner = Nobody
			if k.entered, k.held = stands(id, s); k.held {
				k.owner = 0
			}
			continue
		}
		*k = t.known[j]
		if k.entered && i != j {
			stands(id, s)
		}
		if _, ok := slices.BinarySearch(t.touched, int32(j)); ok {
			touched = append(touched, s)
		}
		j++
	}
	t.wentFrom(j, len(was), stands)
	t.sessions, t.known, t.touched, t.hoped = to, all, touched, t.hoped[:0]
	t.dirty, t.target = true, t.target[:0]
}

// wentFrom calls stands for the entered sessions in [from, end), which are gone.
func (t *Table) wentFrom(from, end int, stands Stands) {
	for ; from < end; from++ {
		if t.known[from].entered {
			stands(t.sessions.IDs[from], Nobody)
		}
	}
}

// Unowned yields the sessions without a living owner, and those in this instance's name that it does not hold.
func (t *Table) Unowned(yield func(i int32) bool) {
	t.Place()
	for i := range t.known {
		k := &t.known[i]
		if o := k.owner; (o == Nobody || o == 0 && !k.held || o > 0 && !t.r.Alive(o)) && !yield(int32(i)) {
			return
		}
	}
}

// Found records that a discovery showed session i free. It reports whether this instance should take the session, now or in its
// turn. When a discovery first shows a session free, only the target takes the session. After another one, a tenth of an interval
// later, those that are Early follow, and after an interval all: otherwise, in a large fleet that starts, each instance that has read the
// sessions would try to acquire those of all others, which are still reading.
func (t *Table) Found(i int32) (now, turn bool) {
	since := int64(t.k.Now() - t.anyFree)
	second := t.known[i].free && since >= t.cfg.Discovery/10
	t.known[i].free = t.blocked == 0
	if t.blocked != 0 || !second && !t.known[i].asked && t.vanished(i) {
		return false, false
	}
	now = t.targetOf(i) == 0
	return now, !now && second && (since >= t.cfg.Discovery || t.Early(i))
}

// Leaves records whether a discovery left a session free. If so, it plans the next discovery. While acquisitions are blocked,
// DiscoverBlocked plans it instead: otherwise each instance would run ten discoveries an interval during a quarantine.
func (t *Table) Leaves(free bool) {
	if !free || t.blocked != 0 {
		t.anyFree = 0
		return
	}
	t.anyFree = cmp.Or(t.anyFree, t.k.Now())
	t.Discover(DiscoverFree)
}
