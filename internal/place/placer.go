// Package place keeps which instance owns each session and which should: quotas, ranks, and the table of discoveries.
package place

import (
	"cmp"
	"slices"
)

// Placement decides which instance should own which session. For each session it returns the instance that should take it, or -1 if
// the owner keeps it; for each instance it returns the quota.
//
// instances holds the hashes of the live instances' IDs, ascending by ID. owner holds an index into it for each session, or -1 if the
// session is free or its owner is not live. Every instance computes the placement for itself, so equal arguments must give equal
// results. The results are valid until the next call.
type Placement interface {
	Place(s *Sessions, instances []uint64, owner []int32) (target, quota []int32)
}

// Placer is the Placement of all instances. It keeps its working memory between calls; the zero value is ready. Not safe for concurrent
// use.
//
// Rendezvous ranks choose the target, quotas bound the shares, and an instance keeps the sessions within its quota. Every share is
// therefore within one of the ideal, and a join or a leave moves as few sessions as possible (G6, G7).
type Placer struct {
	quota  []int32  // per instance
	target []int32  // per session
	owned  []int32  // per instance
	order  []int32  // instances in the order in which they get quotas
	pool   []int32  // sessions to be placed
	room   []int32  // instances below their quota
	start  []int32  // per instance: index of its sessions in ranks
	ranks  []ranked // sessions of the instances above their quota
}

type ranked struct {
	rank uint64
	s    int32
}

// Place implements Placement.
func (p *Placer) Place(s *Sessions, instances []uint64, owner []int32) (target, quota []int32) {
	n, m := len(instances), len(s.IDs)
	p.target = resize(p.target, m)
	p.owned = resize(p.owned, n)
	p.quota = resize(p.quota, n)
	clear(p.owned)
	for i := range p.target {
		p.target[i] = Nobody
	}
	if n == 0 {
		return p.target, p.quota
	}
	p.pool = p.pool[:0]
	for i, o := range owner {
		if o < 0 {
			p.pool = append(p.pool, int32(i))
		} else {
			p.owned[o]++
		}
	}
	p.quotas(instances, m)
	p.shed(s, instances, owner)
	p.fill(s, instances)
	return p.target, p.quota
}

// quotas sets the quota of each instance to q or q+1. Instances that own more than q get q+1 first, so that no session moves only
// because of the remainder. For the other instances, the number of owned sessions must not matter: otherwise the quotas would
// change with every lease that moves, and a discovery during a rebalance would lead to another outcome.
func (p *Placer) quotas(instances []uint64, m int) {
	n := len(instances)
	q, r := int32(m/n), m%n
	p.order = p.order[:0]
	for i := range instances {
		p.order = append(p.order, int32(i))
	}
	slices.SortFunc(p.order, func(a, b int32) int {
		return cmp.Or(
			-cmp.Compare(clip(p.owned[a], q), clip(p.owned[b], q)),
			cmp.Compare(instances[a], instances[b]),
			cmp.Compare(a, b))
	})
	for k, i := range p.order {
		p.quota[i] = q
		if k < r {
			p.quota[i]++
		}
	}
}

func clip(owned, q int32) int32 { return min(max(owned, q), q+1) }

// shed moves the sessions above each instance's quota into the pool. It takes the sessions that the instance ranks lowest. One pass
// puts the sessions of those instances into buckets, which are then sorted.
func (p *Placer) shed(s *Sessions, instances []uint64, owner []int32) {
	p.start = resize(p.start, len(instances))
	total := int32(0)
	for i := range instances {
		p.start[i] = total
		if p.owned[i] > p.quota[i] {
			total += p.owned[i]
		}
	}
	if total == 0 {
		return
	}
	p.ranks = slices.Grow(p.ranks[:0], int(total))[:total]
	for j, o := range owner {
		if o >= 0 && p.owned[o] > p.quota[o] {
			p.ranks[p.start[o]] = ranked{rank(instances[o], s.hashes[j]), int32(j)}
			p.start[o]++
		}
	}
	for i := range instances {
		if excess := p.owned[i] - p.quota[i]; excess > 0 {
			mine := p.ranks[p.start[i]-p.owned[i] : p.start[i]]
			slices.SortFunc(mine, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
			for _, x := range mine[:excess] {
				p.pool = append(p.pool, x.s)
			}
			p.owned[i] = p.quota[i]
		}
	}
	slices.Sort(p.pool)
}

// fill goes through the pool in the order of the IDs. It gives each session to the instance with room that ranks it highest.
func (p *Placer) fill(s *Sessions, instances []uint64) {
	p.room = p.room[:0]
	for i := range instances {
		if p.owned[i] < p.quota[i] {
			p.room = append(p.room, int32(i))
		}
	}
	for _, j := range p.pool {
		if len(p.room) == 0 {
			return // cannot happen: the quotas sum to the number of sessions
		}
		at := p.highest(instances, s.hashes[j])
		i := p.room[at]
		p.target[j] = i
		if p.owned[i]++; p.owned[i] == p.quota[i] {
			p.room = slices.Delete(p.room, at, at+1) // keeps the order, so that every instance breaks a tie alike
		}
	}
}

func (p *Placer) highest(instances []uint64, session uint64) (at int) {
	best := uint64(0)
	for k, i := range p.room {
		if r := rank(instances[i], session); r > best {
			best, at = r, k
		}
	}
	return at
}

// resize returns a with length n, its contents undefined.
func resize(a []int32, n int) []int32 {
	return slices.Grow(a[:0], n)[:n]
}

// rank returns the weight of a session at an instance: the session prefers the instance with the highest rank. FNV-1a avalanches badly,
// and concatenated IDs are ambiguous, so each ID is hashed once and a finalizer mixes the pair.
func rank(instance, session uint64) uint64 {
	x := instance ^ session
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
