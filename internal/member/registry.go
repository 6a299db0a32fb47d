// Package member keeps which instances live, by their heartbeats.
package member

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/pause"
	"github.com/leasestorm/leasestorm/internal/term"
)

// Registry is this instance's view of the instances by their heartbeats: which live, and which are suspect. It does not depend on
// sessions and leases. Its errors make a takeover late or a share uneven, but never give a lease two owners: package term does not use it.
//
//   - nodes[0] is this instance. An index means the same instance until prune, which drops only dead instances that own nothing.
//   - An instance that is alive and not suspect counts; version changes with the set of those that count.
//   - A heartbeat has a timer while it lives, or is being read, so its end is noticed.
type Registry struct {
	k    *term.Kernel // read only
	cfg  *pause.Config
	wake func(i int32, gen uint32, at term.Time) // calls due(i) at at, unless gen is outdated by then

	nodes   []node
	index   map[string]int32 // instance ID → nodes; never ranged over
	vacant  []int32          // unused entries of nodes
	version uint64           // of the set of instances that count
	looks   uint64           // number of discoveries so far
	unread  []int32          // nodes whose heartbeats are to be read
	joined  []string         // IDs of instances to be read, which a notice named
	closed  bool             // no more are read
}

type node struct {
	id      string
	hash    uint64
	exp     term.Time // when its heartbeat expires, as far as known
	seen    term.Time // when it was last known to live: an older discovery cannot show that it is gone
	look    uint64    // number of the last discovery that showed it
	gen     uint32    // of its timer
	alive   bool      // its heartbeat lives
	suspect bool      // it seems dead although its heartbeat lives: not counted until the heartbeat is refreshed
	reading bool      // its heartbeat is being read
	checked bool      // its heartbeat was read shortly before it expires and was not refreshed
	since   term.Time // suspect: the expiry its heartbeat had when it became suspect
}

// Seen is a heartbeat.
type Seen struct {
	ID   string
	PTTL int64 // ns
}

// NewRegistry returns the registry of the instance self. wake must call Due(i) at at,
// unless Armed(i, gen) is false by then.
func NewRegistry(k *term.Kernel, cfg *pause.Config, self string, wake func(i int32, gen uint32, at term.Time)) *Registry {
	r := &Registry{k: k, cfg: cfg, wake: wake, index: map[string]int32{}}
	r.Know(self)
	return r
}

// Len returns the number of indices in use.
func (r *Registry) Len() int { return len(r.nodes) }

// ID returns the ID of instance i.
func (r *Registry) ID(i int32) string { return r.nodes[i].id }

// Hash returns the Hash of the ID of instance i.
func (r *Registry) Hash(i int32) uint64 { return r.nodes[i].hash }

// Alive reports whether the heartbeat of instance i lives.
func (r *Registry) Alive(i int32) bool { return r.nodes[i].alive }

// LongGone reports whether the heartbeat of instance i, which is not alive, expired an interval ago.
func (r *Registry) LongGone(i int32) bool {
	return r.nodes[i].exp+term.Time(r.cfg.Discovery) <= r.k.Now()
}

// Counts reports whether sessions are placed on instance i.
func (r *Registry) Counts(i int32) bool { return r.nodes[i].counts() }

// Armed reports whether gen is the present timer of instance i.
func (r *Registry) Armed(i int32, gen uint32) bool { return r.nodes[i].gen == gen }

// Find returns the index of an instance that is known.
func (r *Registry) Find(id string) (i int32, ok bool) {
	i, ok = r.index[id]
	return i, ok
}

// Version changes with the set of instances that count.
func (r *Registry) Version() uint64 { return r.version }

// Looked reports whether a discovery was answered.
func (r *Registry) Looked() bool { return r.looks > 0 }

// Reading reports whether heartbeats are to be read. During a read, instances that join wait for its end: if a fleet starts at once, each
// instance would otherwise read each heartbeat in a call of its own.
func (r *Registry) Reading(underWay func(...term.OpKind) bool) bool {
	return len(r.unread) > 0 || len(r.joined) > 0 && !underWay(term.OpNodes)
}

// Joined queues a read of the heartbeat of instance id, which a notice said to have joined.
func (r *Registry) Joined(id string) {
	if i, known := r.index[id]; known && r.nodes[i].alive {
		r.nodes[i].seen = r.k.Now() // a discovery under way may be older
	} else if !r.closed && !slices.Contains(r.joined, id) {
		r.joined = append(r.joined, id)
	}
}

// counts reports whether sessions are placed on n.
func (n *node) counts() bool { return n.alive && !n.suspect }

// Know returns the index of an instance and adds the instance if it is new.
func (r *Registry) Know(id string) int32 {
	if i, ok := r.index[id]; ok {
		return i
	}
	n := node{id: id, hash: Hash(id), alive: len(r.nodes) == 0}
	var i int32
	if k := len(r.vacant); k > 0 {
		i = r.vacant[k-1]
		r.vacant = r.vacant[:k-1]
		n.gen = r.nodes[i].gen
		r.nodes[i] = n
	} else {
		i = int32(len(r.nodes))
		r.nodes = append(r.nodes, n)
	}
	r.index[id] = i
	r.version++
	return i
}

// Fresh reports whether this instance need not watch owner's leases, because it watches owner's heartbeat, and that heartbeat is
// fresh.
func (r *Registry) Fresh(owner string) bool {
	i, ok := r.index[owner]
	return ok && i > 0 && r.nodes[i].alive && r.nodes[i].exp > r.k.Now()+term.Time(r.cfg.Lead)
}

func (r *Registry) arm(i int32, at term.Time) {
	r.nodes[i].gen++
	r.wake(i, r.nodes[i].gen, at)
}

// shown records that op found instance i's heartbeat. It reports whether i was not counted before.
func (r *Registry) shown(i int32, op *term.Op, pttl int64) (changed bool) {
	n, exp := &r.nodes[i], r.k.Expiry(op, pttl)
	if !n.alive && n.seen > op.Sent {
		return false // it left since
	}
	changed = !n.alive
	n.alive = true
	if n.suspect && exp > n.since+term.Time(r.cfg.Renew/4) {
		n.suspect = false
		changed = true
	}
	if changed {
		r.version++
	}
	n.seen = r.k.Now()
	if exp > n.exp {
		n.exp = exp
		n.checked = false
		r.arm(i, exp-term.Time(r.cfg.Lead))
	}
	return changed
}

func (r *Registry) gone(i int32) {
	n := &r.nodes[i]
	n.gen++
	if !n.alive {
		return
	}
	n.alive, n.suspect, n.exp = false, false, 0
	r.version++
}

// Left records a notice that an instance leaves. It reports whether that instance was known.
func (r *Registry) Left(id string) bool {
	i, ok := r.index[id]
	if ok {
		r.gone(i)
		r.nodes[i].seen = r.k.Now()
	}
	return ok
}

// Accuse records that this instance acquired a lease of holder after its expiry at exp. It reports whether holder became suspect,
// because holder did not renew that lease although its heartbeat lives.
func (r *Registry) Accuse(holder string, exp term.Time) bool {
	i, ok := r.index[holder]
	if !ok || !r.nodes[i].counts() {
		return false
	}
	n := &r.nodes[i]
	switch {
	case exp > r.k.Now():
		return false // it cannot have expired, so it was given back
	case n.exp > exp+term.Time(r.cfg.Renew/4):
		return false // its heartbeat was set later: it lives, and lost a race
	}
	r.suspect(n)
	return true
}

func (r *Registry) suspect(n *node) {
	n.suspect, n.since = true, n.exp
	r.version++
}

// Due queues a read of instance i's heartbeat, which is about to expire or should have expired.
func (r *Registry) Due(i int32) {
	if !r.nodes[i].reading && !r.closed {
		r.unread = append(r.unread, i)
	}
}

// DueAgain queues the instances of items for another read, because the last read got no answer.
func (r *Registry) DueAgain(items []term.Item) {
	for _, it := range items {
		if i, ok := r.index[it.ID]; ok && r.nodes[i].alive {
			r.nodes[i].reading = false
			r.Due(i)
		} else {
			r.Joined(it.ID)
		}
	}
}

// Reads returns the heartbeats to be read now, including those that expire within about a renewal interval. Otherwise every instance of a
// large fleet would read every other's heartbeat in a call of its own.
func (r *Registry) Reads() (items []term.Item) {
	soon := r.k.Now() + term.Time(r.cfg.Lead+r.cfg.Renew)
	for i := 1; i < len(r.nodes); i++ {
		if n := &r.nodes[i]; n.alive && !n.reading && n.exp <= soon {
			r.unread = append(r.unread, int32(i))
		}
	}
	slices.Sort(r.unread)
	for _, i := range slices.Compact(r.unread) {
		if n := &r.nodes[i]; n.alive { // it may be gone or pruned since
			n.reading = true
			items = append(items, term.Item{ID: n.id})
		}
	}
	for _, id := range r.joined {
		items = append(items, term.Item{ID: id})
	}
	r.unread, r.joined = r.unread[:0], r.joined[:0]
	return items
}

// heard returns the index and the entry of instance id, whose heartbeat was read.
func (r *Registry) heard(id string) (int32, *node) {
	i := r.Know(id)
	r.nodes[i].reading = false
	return i, &r.nodes[i]
}

// Unread queues another read of the heartbeat of instance id, because a read had no result.
func (r *Registry) Unread(id string) {
	if i, _ := r.heard(id); i != 0 {
		r.arm(i, r.k.Now()+term.Time(r.cfg.MaxProbe))
	}
}

// Absent records that op found no heartbeat of instance id. It reports whether the instance is gone.
func (r *Registry) Absent(op *term.Op, id string) (i int32, gone bool) {
	i, n := r.heard(id)
	switch {
	case i == 0:
		return i, false
	case n.seen > op.Sent:
		if n.alive { // it was seen alive after op was sent, so the order is unknown
			r.rearm(i)
		}
		return i, false
	}
	r.gone(i)
	return i, true
}

// Present records that op found the heartbeat of instance id. counted reports whether the instance counts now, and did not. overdue
// reports whether the heartbeat has become overdue: it was not refreshed for long, so its instance is suspect now.
func (r *Registry) Present(op *term.Op, id string, pttl int64) (i int32, counted, overdue bool) {
	i, n := r.heard(id)
	if i == 0 {
		return i, false, false
	}
	counted = r.shown(i, op, pttl)
	if !n.alive || n.exp-r.k.Now() > 2*term.Time(r.cfg.Lead) {
		return i, counted, false
	}
	// The heartbeat is about to expire, and its instance's leases at about the same time. The instance stops counting now, so that the
	// others agree on the order in which they acquire those leases.
	if !n.checked {
		n.checked = true
		r.suspect(n)
		overdue = true
	}
	r.arm(i, max(n.exp, r.k.Now())+term.Time(term.Millisecond))
	return i, counted && !overdue, overdue
}

// rearm plans a read of instance i's heartbeat shortly before it expires, or at its expiry if that moment has passed.
func (r *Registry) rearm(i int32) {
	exp := r.nodes[i].exp
	if lead := exp - term.Time(r.cfg.Lead); lead > r.k.Now() {
		r.arm(i, lead)
		return
	}
	r.arm(i, max(exp, r.k.Now())+term.Time(term.Millisecond))
}

// See records the heartbeats of a discovery. It reports whether the set of instances that count changed.
func (r *Registry) See(op *term.Op, seen []Seen) (changed bool) {
	r.looks++
	for _, s := range seen {
		i := r.Know(s.ID)
		if i == 0 {
			continue
		}
		if r.shown(i, op, s.PTTL) {
			changed = true
		}
		r.nodes[i].look = r.looks
	}
	for i := 1; i < len(r.nodes); i++ {
		n := &r.nodes[i]
		if n.alive && n.look != r.looks && n.seen <= op.Sent {
			r.gone(int32(i))
			changed = true
		}
	}
	return changed
}

// Prune drops dead instances that own nothing, so that memory does not grow as instances come and go. owns is aligned with nodes.
func (r *Registry) Prune(owns []int32) {
	for i := 1; i < len(r.nodes); i++ {
		n := &r.nodes[i]
		if n.id != "" && !n.alive && owns[i] == 0 {
			delete(r.index, n.id)
			*n = node{gen: n.gen + 1}
			r.vacant = append(r.vacant, int32(i))
		}
	}
}

// Hash returns the 64-bit FNV-1a hash of an ID. Placement mixes that of an instance with that of a session.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
