package core

import "slices"

// Ranks remembers which instances each session ranks highest, among all that were ever placed on, and the last placement.
// Cores of one process that share it do not each compute instances × sessions ranks to come to the same, nor keep the memory
// that this takes: in virtual time a thousand of them start at once. It changes no placement, takes some 200 bytes a session,
// and is not safe for concurrent use.
type Ranks struct {
	last      placed
	number    map[uint64]int32 // of an instance, by its hash; never ranged over
	instances []uint64         // by number
	rows      map[uint64]*favourites
	work      work
}

// placed is a placement and what it was made of.
type placed struct {
	sessions      *Sessions
	instances     []uint64
	owner         []int32
	target, quota []int32
}

// recall gives p the last placement if it was made of the same: instances that hear of one change all make it.
func (r *Ranks) recall(p *Placer, s *Sessions, instances []uint64, owner []int32) bool {
	if r == nil || r.last.sessions != s || !slices.Equal(r.last.instances, instances) || !slices.Equal(r.last.owner, owner) {
		return false
	}
	copy(p.target, r.last.target)
	copy(p.quota, r.last.quota)
	return true
}

// remember keeps p's placement for the next.
func (r *Ranks) remember(p *Placer, s *Sessions, instances []uint64, owner []int32) {
	if r == nil {
		return
	}
	l := &r.last
	l.sessions = s
	l.instances = append(l.instances[:0], instances...)
	l.owner = append(l.owner[:0], owner...)
	l.target = append(l.target[:0], p.target...)
	l.quota = append(l.quota[:0], p.quota...)
}

// favouritesMax: with a tenth of the instances having room, three sessions in four find one among so many.
const favouritesMax = 12

// favourites are a session's, the highest rank first, among the first seen instances.
type favourites struct {
	seen, n int32
	top     [favouritesMax]ranked // of instances, by number
}

// NewRanks returns ranks that nothing was asked of yet.
func NewRanks() *Ranks {
	return &Ranks{number: map[uint64]int32{}, rows: map[uint64]*favourites{}}
}

// numbers fills at, by number, with the places of instances, nobody for those that are not among them.
func (r *Ranks) numbers(instances []uint64, at []int32) []int32 {
	for _, h := range instances {
		if _, ok := r.number[h]; !ok {
			r.number[h] = int32(len(r.instances))
			r.instances = append(r.instances, h)
		}
	}
	at = resize(at, len(r.instances))
	for i := range at {
		at[i] = nobody
	}
	for i, h := range instances {
		at[r.number[h]] = int32(i)
	}
	return at
}

// of returns the favourites of the session with that hash.
func (r *Ranks) of(session uint64) []ranked {
	f := r.rows[session]
	if f == nil {
		f = &favourites{}
		r.rows[session] = f
	}
	for ; int(f.seen) < len(r.instances); f.seen++ {
		x := ranked{rank(r.instances[f.seen], session), f.seen}
		i := f.n
		if i == favouritesMax {
			if i--; !f.top[i].less(x) {
				continue
			}
		} else {
			f.n++
		}
		for ; i > 0 && f.top[i-1].less(x); i-- {
			f.top[i] = f.top[i-1]
		}
		f.top[i] = x
	}
	return f.top[:f.n]
}
