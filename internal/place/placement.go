package place

import (
	"cmp"
	"slices"

	"github.com/leasestorm/leasestorm/internal/member"
	"github.com/leasestorm/leasestorm/internal/pause"
	"github.com/leasestorm/leasestorm/internal/term"
)

// placement is which instance should own each session, and the order in which instances take a free one.
//
// target, live, place, owned and quota belong to one placement. While they are outdated, only Place and Order read them.
type placement struct {
	k   *term.Kernel // read only
	cfg *pause.Config
	r   *member.Registry
	of  *view
	by  Placement

	dirty  bool    // target is outdated
	counts uint64  // version of the registry that target was computed for
	live   []int32 // instances that count, ascending by ID: index into the registry
	place  []int32 // registry → index into live, or Nobody
	owned  []int32 // aligned with the registry: how many sessions each owns
	target []int32 // aligned with sessions; index into live, or Nobody if the owner keeps it
	quota  []int32 // aligned with live
	hashes []uint64
}

func (p *placement) outdated() bool { return p.dirty || p.counts != p.r.Version() }

// Place brings the placement up to date.
func (p *placement) Place() {
	if !p.outdated() {
		return
	}
	p.dirty, p.counts = false, p.r.Version()
	p.live = p.live[:0]
	for i := range int32(p.r.Len()) {
		if p.r.Counts(i) {
			p.live = append(p.live, i)
		}
	}
	slices.SortFunc(p.live, func(a, b int32) int { return cmp.Compare(p.r.ID(a), p.r.ID(b)) })
	p.place = resize(p.place, p.r.Len())
	for i := range p.place {
		p.place[i] = Nobody
	}
	p.hashes = p.hashes[:0]
	for k, i := range p.live {
		p.place[i] = int32(k)
		p.hashes = append(p.hashes, p.r.Hash(i))
	}
	p.owned = resize(p.owned, p.r.Len())
	clear(p.owned)
	owners := resize(p.target, len(p.of.known))
	for i := range p.of.known {
		owners[i] = Nobody
		if o := p.of.known[i].owner; o != Nobody {
			p.owned[o]++
			owners[i] = p.place[o]
		}
	}
	target, quota := p.by.Place(p.of.sessions, p.hashes, owners)
	p.target, p.quota = append(owners[:0], target...), append(p.quota[:0], quota...)
}

// targetOf returns the instance that should take session i, Nobody if its owner keeps it.
func (p *placement) targetOf(i int32) int32 {
	p.Place()
	if t := p.target[i]; t != Nobody {
		return p.live[t]
	}
	return Nobody
}

// HeirOf returns the instance that should take session i after this instance, "" for any.
func (p *placement) HeirOf(i int32) string {
	if i == Nobody {
		return ""
	}
	if t := p.targetOf(i); t > 0 {
		return p.r.ID(t)
	}
	return ""
}

// Order returns this instance's place in the order in which the instances acquire session i. The target comes first; the others follow in
// order of how few sessions they own, then of rank. A dead target therefore costs milliseconds, not a TTL. From StaggerMax on, all have
// the same place.
func (p *placement) Order(i int32) (k int) {
	t := p.targetOf(i)
	if t == 0 {
		return 0
	}
	h := p.of.sessions.hashes[i]
	mine := rank(p.r.Hash(0), h)
	k = 1
	for _, j := range p.live {
		if k >= p.cfg.StaggerMax {
			break
		}
		if j == 0 || j == t {
			continue
		}
		if p.owned[j] < p.owned[0] || p.owned[j] == p.owned[0] && rank(p.r.Hash(j), h) > mine {
			k++
		}
	}
	return k
}

// Early reports whether this instance is among the first to acquire session i, as all are in a fleet of up to 20. In a larger fleet, the
// others leave it to them for a while, so that not all try at once.
func (p *placement) Early(i int32) bool { return p.Order(i) < p.cfg.StaggerMax || len(p.live) <= 20 }

// Follows returns this instance's place among those that follow if the heir of session i does not take it. It counts no further than just
// beyond StaggerMax. It uses the last placement: a new one for each notice would cost too much.
func (p *placement) Follows(i int32) (k int) {
	h := p.of.sessions.hashes[i]
	mine := rank(p.r.Hash(0), h)
	for n := 0; n < len(p.live) && k <= p.cfg.StaggerMax; n++ {
		if rank(p.r.Hash(p.live[n]), h) > mine {
			k++
		}
	}
	return k
}

// HeirNow returns the instance that session i should go to, which heir requested a while ago. It is heir if heir is still below its
// quota; otherwise the instance below its quota that ranks i highest; if there is none, heir.
func (p *placement) HeirNow(i int32, heir string) string {
	p.Place()
	if k, ok := p.r.Find(heir); ok {
		if lacks, _ := p.lacks(k); lacks {
			return heir
		}
	}
	best := uint64(0)
	for _, k := range p.live {
		lacks, _ := p.lacks(k)
		if r := rank(p.r.Hash(k), p.of.sessions.hashes[i]); k != 0 && lacks && r >= best {
			heir, best = p.r.ID(k), r
		}
	}
	return heir
}

// lacks reports whether instance i is below its quota. placed is false if no sessions are placed on i.
func (p *placement) lacks(i int32) (lacks, placed bool) {
	at := p.place[i]
	if at == Nobody {
		return false, false
	}
	return p.owned[i] < p.quota[at], true
}

// Excess returns how many of its held placed leases this instance has above its quota. ok is false if no sessions are placed on it.
func (p *placement) Excess(held int) (n int, ok bool) {
	p.Place()
	me := p.place[0]
	if me == Nobody {
		return 0, false
	}
	return held - int(p.quota[me]), true
}

// Owns returns how many sessions each instance owns, aligned with the registry.
func (p *placement) Owns() []int32 {
	p.Place()
	return p.owned
}

// PreferredOwner returns the instance that should own session id: its target, or its owner if that keeps it. For an unknown session, it
// is the live instance that ranks the session highest; "" if no instance is live.
func (p *placement) PreferredOwner(id string) string {
	p.Place()
	if i := p.of.Find(id); i >= 0 {
		if t := p.targetOf(i); t != Nobody {
			return p.r.ID(t)
		}
		if o := p.of.known[i].owner; o != Nobody {
			return p.r.ID(o)
		}
	}
	best, owner, h := uint64(0), "", member.Hash(id)
	for _, i := range p.live {
		if r := rank(p.r.Hash(i), h); owner == "" || r > best {
			best, owner = r, p.r.ID(i)
		}
	}
	return owner
}

// Live returns the IDs of the instances that count, in ascending order.
func (p *placement) Live() []string {
	p.Place()
	ids := make([]string, 0, len(p.live))
	for _, i := range p.live {
		ids = append(ids, p.r.ID(i))
	}
	return ids
}

// Balanced reports whether every session has a live owner, and none has another target.
func (p *placement) Balanced() bool {
	if p.outdated() && slices.ContainsFunc(p.of.known, func(k known) bool { return k.owner == Nobody || !p.r.Counts(k.owner) }) {
		return false // no placement for each lease that moves
	}
	p.Place()
	return !slices.ContainsFunc(p.target, func(t int32) bool { return t != Nobody })
}
