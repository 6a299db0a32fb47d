package core

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/internal/term"
)

// fleet is this instance's view of the sessions and their owners, and the placement that follows from it. Discoveries set the view;
// notices and the instance's own actions correct it in between. The fleet reads the registry, but does not depend on the keeper. Its
// errors move a lease in vain or late, but never give it two owners: terms do not use it.
//
//   - known, owners and target are aligned with sessions; a session is identified by its index until the next set of sessions.
//   - target, live, place, owned and quota belong to one placement; while they are outdated, only placement and stagger read them.
//   - A session without an owner is never held, and a held one is entered.
type fleet struct {
	k   *term.Kernel // read only
	cfg *Config
	r   *registry

	on       bool   // discoveries are on
	next     Time   // when the next discovery is due
	due      bool   // a discovery is to be sent
	look     uint64 // the discovery under way, 0 none
	lookedAt Time   // when the last discovery was sent
	blocked  Time   // as of the last discovery, nothing may be acquired before; 0 if allowed
	sessions *Sessions
	known    []known // aligned with sessions
	anyFree  bool    // the last discovery showed a session without an owner
	touched  []int32 // sessions whose owner this instance changed during a discovery, whose answer may be older
	left     []left  // sessions that the last discovery shows free although their owner lives, ascending by session
	denied   []int32 // sessions that this instance holds and the last discovery shows as not its own

	hoped   []int32 // sessions that this instance wanted of others at the last discovery, ascending: they may be released to it
	asks    []ask   // to be decided on the next discovery
	missing int     // sessions to ask others for, at the last discovery
	asked   int     // discoveries in a row with the same missing
	askings tenth   // discoveries that asked others for sessions
	turned  tenth   // sessions that were placed again only to find this instance's turn

	hearings tenth // subscriptions to the channel

	dirty  bool    // target is outdated
	counts uint64  // version of the registry that target was computed for
	live   []int32 // instances that count, ascending by ID: index into registry.nodes
	place  []int32 // registry.nodes → index into live, or nobody
	owned  []int32 // aligned with registry.nodes: how many sessions each owns
	owners []int32 // aligned with sessions; index into live, or nobody
	target []int32 // aligned with sessions; index into live, or nobody if the owner keeps it
	quota  []int32 // aligned with live
	hashes []uint64
	waits  []int32
}

// known is what this instance knows of a session. Every instance handles a notice for each move of each session, so the fields it needs
// are in one struct: in a large fleet none of them is in the CPU cache.
type known struct {
	owner   int32 // index into registry.nodes, nobody if free
	free    bool  // the last discovery showed it free
	asked   bool  // it vanished under a living owner, who was asked; no discovery has shown an owner since
	entered bool  // this instance has an entry of its lease
	held    bool  // this instance holds it

	passed uint8  // discoveries in a row that were ignored for it because of notices
	talk   uint32 // number of the last discovery during which a notice about it arrived
}

const nobody = int32(-1)

// tenth counts events within a tenth of the discovery interval.
type tenth struct {
	from Time
	n    int
}

// add adds n and returns the count of the current tenth.
func (t *tenth) add(now Time, discovery int64, n int) int {
	if now-t.from >= Time(discovery/10) {
		*t = tenth{from: now}
	}
	t.n += n
	return t.n
}

func (f *fleet) outdated() bool { return f.dirty || f.counts != f.r.version }

func (f *fleet) placement() {
	if !f.outdated() {
		return
	}
	nodes := f.r.nodes
	f.dirty, f.counts = false, f.r.version
	f.live = f.live[:0]
	for i := range nodes {
		if nodes[i].counts() {
			f.live = append(f.live, int32(i))
		}
	}
	slices.SortFunc(f.live, func(a, b int32) int { return cmp.Compare(nodes[a].id, nodes[b].id) })
	f.place = resize(f.place, len(nodes))
	for i := range f.place {
		f.place[i] = nobody
	}
	f.hashes = f.hashes[:0]
	for k, i := range f.live {
		f.place[i] = int32(k)
		f.hashes = append(f.hashes, nodes[i].hash)
	}
	f.owned = resize(f.owned, len(nodes))
	clear(f.owned)
	f.owners = resize(f.owners, len(f.known))
	for i := range f.known {
		f.owners[i] = nobody
		if o := f.known[i].owner; o != nobody {
			f.owned[o]++
			f.owners[i] = f.place[o]
		}
	}
	target, quota := f.cfg.Placement.Place(f.sessions, f.hashes, f.owners)
	f.target, f.quota = append(f.target[:0], target...), append(f.quota[:0], quota...)
}

// targetOf returns the instance that should take session i, nobody if its owner keeps it.
func (f *fleet) targetOf(i int32) int32 {
	f.placement()
	return f.placedOn(i)
}

// placedOn is targetOf as of the last placement.
func (f *fleet) placedOn(i int32) int32 {
	if t := f.target[i]; t != nobody {
		return f.live[t]
	}
	return nobody
}

// heirOf returns the instance that should take session i after this instance, "" for any.
func (f *fleet) heirOf(i int32) string {
	if i == nobody {
		return ""
	}
	if t := f.targetOf(i); t > 0 {
		return f.r.nodes[t].id
	}
	return ""
}

// placedMax bounds the sessions that are placed again in a tenth of an interval only to find turns: about a hundred releases in a fleet
// of a thousand sessions. A client that may publish can send release notices without end, and a core that places sessions handles no
// answers.
const placedMax = 1 << 17

// placeTurn brings target up to date, unless placedMax is exceeded; then the older order has to do.
func (f *fleet) placeTurn() {
	if !f.outdated() {
		return
	}
	n := len(f.known)
	if f.turned.add(f.k.Now(), f.cfg.Discovery, n) <= max(n, placedMax) || len(f.target) != n {
		f.placement()
	}
}

// stagger returns how long this instance leaves session i to those before it. The target acquires at once; the others follow in order of
// how few sessions they own, then of rank. A dead target therefore costs milliseconds, not a TTL.
func (f *fleet) stagger(i int32) int64 {
	f.placeTurn()
	t := f.placedOn(i)
	if t == 0 {
		return 0
	}
	h := f.sessions.hashes[i]
	mine := rank(f.r.nodes[0].hash, h)
	k := 1 // the target comes first
	for _, j := range f.live {
		if k >= f.cfg.StaggerMax {
			break // all later ones share this turn
		}
		if j == 0 || j == t {
			continue
		}
		if f.owned[j] < f.owned[0] || f.owned[j] == f.owned[0] && rank(f.r.nodes[j].hash, h) > mine {
			k++
		}
	}
	return f.cfg.turn(k)
}

// heirNow returns the instance that session i should go to, which heir requested a while ago: heir if it is still below its quota, else
// the instance below its quota that ranks i highest, else heir all the same.
func (f *fleet) heirNow(i int32, heir string) string {
	f.placement()
	if k, ok := f.r.index[heir]; ok {
		if lacks, _ := f.lacks(k); lacks {
			return heir
		}
	}
	best := uint64(0)
	for _, k := range f.live {
		lacks, _ := f.lacks(k)
		if r := rank(f.r.nodes[k].hash, f.sessions.hashes[i]); k != 0 && lacks && r >= best {
			heir, best = f.r.nodes[k].id, r
		}
	}
	return heir
}

// lacks reports whether instance i is below its quota. known is false if no sessions are placed on i.
func (f *fleet) lacks(i int32) (lacks, known bool) {
	p := f.place[i]
	if p == nobody {
		return false, false
	}
	return f.owned[i] < f.quota[p], true
}
