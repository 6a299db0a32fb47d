package core

import "slices"

// registry is what this instance knows of the instances by their heartbeats: who lives, and who seems dead although its heartbeat
// lives. It knows nothing of sessions and leases. What it gets wrong makes a takeover late or a share uneven, never a lease owned
// twice: terms do not ask it.
//
//   - nodes[0] is this instance. An index means the same instance until prune, which drops only the dead that own nothing.
//   - An instance that is alive and not suspect counts; version changes with the set of those that count.
//   - A heartbeat has a timer while it lives, or is being read, so its end is noticed.
type registry struct {
	k    *terms                             // read, never changed
	wake func(i int32, gen uint32, at Time) // has due called at at, if gen is still the node's own

	nodes   []node
	index   map[string]int32 // instance ID → nodes; never ranged over
	vacant  []int32          // entries of nodes that nobody uses
	version uint64           // of the set of instances that count
	looks   uint64           // at all heartbeats, so far
	unread  []int32          // nodes whose heartbeats are to be read

	own membership
}

// membership is this instance's own part in the registry.
type membership struct {
	beat, leave bool // a heartbeat is to be set, or to be deleted
	leaving     bool // for good
	ends        Time // when every heartbeat that was sent has expired

	written     bool // a heartbeat was set since the last acquisition that failed
	othersTake  bool // another instance was seen to take a lease since then
	unable      int  // acquisitions in a row that failed though Redis is heard, and others took what they wanted
	unableAt    Time // when the last of them did
	withdrawals int  // in a row, because of that
	rejoin      Time // withdrawn until then
}

// node is an instance, as its heartbeat and its leases show it.
type node struct {
	id      string
	hash    uint64
	exp     Time   // when its heartbeat expires, as far as known
	seen    Time   // when it was last known to live: an older look does not say that it is gone
	look    uint64 // the last that showed it
	gen     uint32 // of its timer
	alive   bool   // its heartbeat lives
	suspect bool   // a lease of it expired while its heartbeat lived: not counted until the heartbeat is refreshed
	reading bool   // its heartbeat is being read
	checked bool   // its heartbeat was read shortly before it expires and was not refreshed
	since   Time   // suspect: the expiry its heartbeat had then
}

// counts reports whether sessions are placed on n.
func (n *node) counts() bool { return n.alive && !n.suspect }

// know returns the index of an instance, which it makes known if it was not.
func (r *registry) know(id string) int32 {
	if i, ok := r.index[id]; ok {
		return i
	}
	n := node{id: id, hash: hashID(id), alive: id == r.k.self}
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

// fresh reports whether owner's leases need no watching of their own, because its heartbeat is fresh and is watched.
func (r *registry) fresh(owner string) bool {
	i, ok := r.index[owner]
	return ok && i > 0 && r.nodes[i].alive && r.nodes[i].exp > r.k.now.Mono+Time(r.k.cfg.Lead)
}

// arm has the heartbeat of instance i looked at at at, instead of whenever it would have been.
func (r *registry) arm(i int32, at Time) {
	r.nodes[i].gen++
	r.wake(i, r.nodes[i].gen, at)
}

// shown takes note that instance i's heartbeat expires at exp. It reports whether i counts since.
func (r *registry) shown(i int32, exp Time) (changed bool) {
	n := &r.nodes[i]
	changed = !n.alive
	n.alive = true
	if n.suspect && exp > n.since+Time(r.k.cfg.Renew/4) {
		n.suspect = false
		changed = true
	}
	if changed {
		r.version++
	}
	n.seen = r.k.now.Mono
	if exp > n.exp {
		n.exp = exp
		n.checked = false
		r.arm(i, exp-Time(r.k.cfg.Lead))
	}
	return changed
}

// gone takes note that instance i shows no heartbeat.
func (r *registry) gone(i int32) {
	n := &r.nodes[i]
	n.gen++
	if !n.alive {
		return
	}
	n.alive, n.suspect, n.exp = false, false, 0
	r.version++
}

// left takes note that an instance says that it leaves. It reports whether that one was known.
func (r *registry) left(id string) bool {
	i, ok := r.index[id]
	if ok {
		r.gone(i)
		r.nodes[i].seen = r.k.now.Mono
	}
	return ok
}

// accuse takes note that a lease of holder, which was to end at exp, was won under its living heartbeat. It reports whether holder is
// suspect since.
func (r *registry) accuse(holder string, exp Time) bool {
	i, ok := r.index[holder]
	if !ok || !r.nodes[i].counts() {
		return false
	}
	n := &r.nodes[i]
	switch {
	case exp > r.k.now.Mono:
		return false // it has not come to its end: it was given back, which is yet to be heard or was while this was asked for
	case n.exp > exp+Time(r.k.cfg.Renew/4):
		return false // its heartbeat was set since: it lives, and lost a race
	}
	r.suspect(n)
	return true
}

func (r *registry) suspect(n *node) {
	n.suspect, n.since = true, n.exp
	r.version++
}

// due has the heartbeat of instance i read: it is about to expire, or should have.
func (r *registry) due(i int32) {
	if !r.nodes[i].reading && !r.own.leaving { // else the answer sets the next time, or nobody asks
		r.unread = append(r.unread, i)
	}
}

// dueAgain takes note that a read of heartbeats failed.
func (r *registry) dueAgain(items []Item) {
	for _, it := range items {
		if i, ok := r.index[it.ID]; ok {
			r.nodes[i].reading = false
			r.due(i)
		}
	}
}

// reads returns the heartbeats to be read now. What would be due within a renewal interval is read along: one by one, every instance
// of a large fleet would read every other's heartbeat with a call of its own.
func (r *registry) reads() (items []Item) {
	soon := r.k.now.Mono + Time(r.k.cfg.Lead+r.k.cfg.Renew)
	for i := 1; i < len(r.nodes); i++ {
		if n := &r.nodes[i]; n.alive && !n.reading && n.exp <= soon {
			r.unread = append(r.unread, int32(i))
		}
	}
	slices.Sort(r.unread)
	for _, i := range slices.Compact(r.unread) {
		if n := &r.nodes[i]; n.alive { // neither gone nor forgotten since
			n.reading = true
			items = append(items, Item{ID: n.id})
		}
	}
	r.unread = r.unread[:0]
	return items
}

// heartbeat is what a read of one says.
type heartbeat uint8

const (
	heartbeatLives   heartbeat = iota // or nothing is known
	heartbeatOverdue                  // it was not refreshed when it should long have been: its instance is not counted any more
	heartbeatGone
)

// read takes what op showed of the heartbeat of instance id.
func (r *registry) read(op *Op, id string, res *Result) (int32, heartbeat) {
	i := r.know(id)
	n := &r.nodes[i]
	n.reading = false
	switch {
	case i == 0:
		return i, heartbeatLives
	case res.Outcome == OutUnknown:
		r.arm(i, r.k.now.Mono+Time(r.k.cfg.MaxProbe))
		return i, heartbeatLives
	case res.Outcome == OutGone && n.seen > op.Sent:
		if n.alive { // seen so since this was sent: which came first is not known
			r.rearm(i)
		}
		return i, heartbeatLives
	case res.Outcome == OutGone:
		r.gone(i)
		return i, heartbeatGone
	}
	r.shown(i, r.k.expiry(op, res.PTTL))
	if n.exp-r.k.now.Mono > 2*Time(r.k.cfg.Lead) {
		return i, heartbeatLives
	}
	// It is about to expire. The leases of its owner expire at about the same time; that it is not counted settles the order in which
	// the others come for them before that.
	said := heartbeatLives
	if !n.checked {
		n.checked = true
		r.suspect(n)
		said = heartbeatOverdue
	}
	r.arm(i, max(n.exp, r.k.now.Mono)+Time(Millisecond))
	return i, said
}

// rearm has instance i's heartbeat read shortly before it expires, or, if that is past, when it should have.
func (r *registry) rearm(i int32) {
	exp := r.nodes[i].exp
	if lead := exp - Time(r.k.cfg.Lead); lead > r.k.now.Mono {
		r.arm(i, lead)
		return
	}
	r.arm(i, max(exp, r.k.now.Mono)+Time(Millisecond))
}

// see takes over the heartbeats that a look showed. It reports whether the set of instances that count changed.
func (r *registry) see(op *Op, seen []Seen) (changed bool) {
	r.looks++
	for _, s := range seen {
		i := r.know(s.ID)
		if i == 0 {
			continue
		}
		if r.shown(i, r.k.expiry(op, s.PTTL)) {
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

// prune forgets the dead that own nothing, so that a fleet whose instances come and go for years costs no memory. owns is aligned
// with nodes.
func (r *registry) prune(owns []int32) {
	for i := 1; i < len(r.nodes); i++ {
		n := &r.nodes[i]
		if n.id != "" && !n.alive && owns[i] == 0 {
			delete(r.index, n.id)
			*n = node{gen: n.gen + 1}
			r.vacant = append(r.vacant, int32(i))
		}
	}
}

// leaves takes this instance out for good: whoever is still to stop is not an heir.
func (r *registry) leaves(started bool) {
	r.own.leaving, r.own.rejoin = true, 0
	r.own.leave = started && !r.k.cfg.NoHeartbeat
	r.countSelf(false)
}

// beatFailed has the heartbeat set again.
func (m *membership) beatFailed() {
	m.unable = 0 // it is not only acquisitions that fail
	m.beat = true
	m.beatEnded()
}

// beatEnded takes note that no heartbeat is under way any more: one that was when the instance left may have been set after it was
// deleted.
func (m *membership) beatEnded() { m.leave = m.leave || m.leaving }

// sent takes note of a heartbeat that has expired by then. One that is refused leaves the one before.
func (m *membership) sent(ends Time) { m.ends = max(m.ends, ends) }

// leaveFailed has the heartbeat deleted by another attempt, unless it has expired by itself. A withdrawal is told once: it ends by a
// heartbeat.
func (m *membership) leaveFailed(now Time) { m.leave = m.leave || m.leaving && now < m.ends }

// countSelf takes note whether this instance may be counted on.
func (r *registry) countSelf(counts bool) {
	r.nodes[0].alive = counts
	r.version++
}

// able takes note that acquisitions have an effect again. It reports whether that is news.
func (m *membership) able() bool {
	news := m.doubtful()
	m.unable, m.withdrawals = 0, 0
	return news
}

// doubtful reports whether this instance has yet to show that it can take what it is given.
func (m *membership) doubtful() bool { return m.unable > 0 || m.withdrawals > 0 }

// acquisitionFailed counts acquisitions that fail, by when they were sent. An instance that can be heard and yet wins nothing it is
// given would keep asking for its share and have it released for nothing: it leaves the registry, for longer each time. It returns for
// how long, 0 where it does not leave.
func (r *registry) acquisitionFailed(sent Time) (pause int64) {
	m := &r.own
	m.beat = m.beat || !r.k.cfg.NoHeartbeat // which shows, before the next attempt, who it is that cannot
	if !m.written || !m.othersTake {
		return 0 // not even a heartbeat can be written, or nobody takes anything: it is Redis, not this instance
	}
	if sent < m.unableAt {
		return 0 // it was under way when the last one failed, and says nothing new
	}
	m.written, m.othersTake, m.unableAt = false, false, r.k.now.Mono
	if m.unable++; m.unable < 3 || r.k.cfg.NoHeartbeat || m.rejoin != 0 || m.leaving {
		return 0
	}
	pause = r.k.cfg.TTL << min(m.withdrawals, 4)
	m.withdrawals++
	m.rejoin = r.k.now.Mono + Time(pause)
	m.leave = true
	r.countSelf(false)
	return pause
}

// rejoins ends a withdrawal.
func (r *registry) rejoins() {
	r.own.rejoin, r.own.unable = 0, 0
	r.own.beat = true
	r.countSelf(true)
}
