package core

import (
	"cmp"
	"slices"
)

// fleet is what this instance knows of the sessions and their owners: the last look, corrected by what notices and its own acts told
// since; and who should have what by that. It reads the registry, and knows nothing of what this instance does about its leases. What
// it gets wrong moves a lease in vain or late, never to two owners: terms do not ask it.
//
//   - known, owners and target are aligned with sessions; a session is named by its index until the next set of sessions.
//   - target, live, place, owned and quota are of one placement; while they are outdated only placement reads them, and stagger.
//   - A session that is free of an owner is never held, and one that is held is entered.
type fleet struct {
	k *terms // read, never changed
	r *registry

	on       bool   // it looks
	next     Time   // look
	due      bool   // a look is to be sent
	look     uint64 // the look under way, 0 none
	lookedAt Time   // when the last look was sent
	blocked  Time   // nothing may be acquired before, as of the last look; 0 if it may
	sessions *Sessions
	known    []known // aligned with sessions
	anyFree  bool    // the last look showed a session that nobody owns
	touched  []int32 // sessions that changed owner by what this instance did while a look was under way: it may be older than that
	left     []left  // what the last look shows free although its owner lives, ascending by session
	denied   []int32 // what it shows as not this instance's, which believes to own it

	hoped   []int32 // sessions that this instance wanted of others at the last look, ascending: they may be released to it
	asks    []ask   // to be decided on what the next look shows
	missing int     // sessions that the last look asked others for
	asked   int     // looks in a row that asked for as many
	askings tenth   // looks that asked
	turned  tenth   // sessions that were placed anew only to tell a turn

	hearings tenth // times that the channel came to be heard

	dirty  bool    // target is out of date
	counts uint64  // version of the registry that it was computed for
	live   []int32 // instances that count, ascending by ID: index into registry.nodes
	place  []int32 // registry.nodes → index into live, or nobody
	owned  []int32 // aligned with registry.nodes: how many sessions each owns
	owners []int32 // aligned with sessions; index into live, or nobody
	target []int32 // aligned with sessions; index into live, or nobody where the owner keeps it
	quota  []int32 // aligned with live
	hashes []uint64
	waits  []int32
}

// known is what this instance knows of a session. Each move of each session is told to every instance: what that asks for
// lies together, because in a large fleet none of it is in the cache.
type known struct {
	owner   int32 // index into registry.nodes, nobody if free
	free    bool  // found free at the last look already
	asked   bool  // it vanished under a living owner, who was asked: no look has shown an owner since
	entered bool  // this instance has an entry of its lease
	held    bool  // and holds it

	passed uint8  // looks in a row that were passed over for what others said
	talk   uint32 // the last look, by its number, while which something was said of it
}

const nobody = int32(-1)

// tenth counts what comes in a tenth of an interval.
type tenth struct {
	from Time
	n    int
}

// add counts n more, and returns how many that are in this tenth.
func (t *tenth) add(k *terms, n int) int {
	if k.now.Mono-t.from >= Time(k.cfg.Discovery/10) {
		*t = tenth{from: k.now.Mono}
	}
	t.n += n
	return t.n
}

// outdated reports whether sessions or instances changed so that target says nothing.
func (f *fleet) outdated() bool { return f.dirty || f.counts != f.r.version }

// placement brings target up to date.
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
	target, quota := f.k.cfg.Placement.Place(f.sessions, f.hashes, f.owners)
	f.target, f.quota = append(f.target[:0], target...), append(f.quota[:0], quota...)
}

// targetOf returns the instance that should take session i, nobody where its owner keeps it.
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

// heirOf returns who should take session i when this instance is gone, "" for nobody in particular.
func (f *fleet) heirOf(i int32) string {
	if i == nobody {
		return ""
	}
	if t := f.targetOf(i); t > 0 {
		return f.r.nodes[t].id
	}
	return ""
}

// placedMax bounds the sessions that are placed anew in a tenth of an interval only to tell turns, as a hundred releases of leases of a
// thousand sessions ask for. Whoever may publish can tell of releases without end, and while sessions are placed no answer is heard.
const placedMax = 1 << 17

// placeTurn brings target up to date, unless that was done so often of late that the order as of then has to do.
func (f *fleet) placeTurn() {
	if !f.outdated() {
		return
	}
	n := len(f.known)
	if f.turned.add(f.k, n) <= max(n, placedMax) || len(f.target) != n {
		f.placement()
	}
}

// stagger is how long this instance leaves session i to those before it: the target acquires at once, the others in order, by how
// little they own and then by rank. A dead successor so costs milliseconds, not a TTL.
func (f *fleet) stagger(i int32) int64 {
	f.placeTurn()
	t := f.placedOn(i)
	if t == 0 {
		return 0
	}
	h := f.sessions.hashes[i]
	mine := rank(f.r.nodes[0].hash, h)
	k := 1 // the target is before
	for _, j := range f.live {
		if k >= f.k.cfg.StaggerMax {
			break // whoever comes later comes then
		}
		if j == 0 || j == t {
			continue
		}
		if f.owned[j] < f.owned[0] || f.owned[j] == f.owned[0] && rank(f.r.nodes[j].hash, h) > mine {
			k++
		}
	}
	return int64(min(k, f.k.cfg.StaggerMax)) * f.k.cfg.Stagger
}

// heirNow returns who is to have session i, which heir asked for a while ago: who asked may have had its share from others since, and
// another lacks one.
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

// lacks reports whether instance i owns less than its share. known is false for who is not placed on.
func (f *fleet) lacks(i int32) (lacks, known bool) {
	p := f.place[i]
	if p == nobody {
		return false, false
	}
	return f.owned[i] < f.quota[p], true
}
