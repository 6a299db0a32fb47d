package core

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/term"
)

// registry is this instance's view of the instances by their heartbeats: which live, and which are suspect. It does not depend on
// sessions and leases. Its errors make a takeover late or a share uneven, but never give a lease two owners: terms do not use it.
//
//   - nodes[0] is this instance. An index means the same instance until prune, which drops only dead instances that own nothing.
//   - An instance that is alive and not suspect counts; version changes with the set of those that count.
//   - A heartbeat has a timer while it lives, or is being read, so its end is noticed.
type registry struct {
	k    *term.Kernel // read only
	cfg  *Config
	wake func(i int32, gen uint32, at Time) // calls due(i) at at, unless gen is outdated by then

	nodes   []node
	index   map[string]int32 // instance ID → nodes; never ranged over
	vacant  []int32          // unused entries of nodes
	version uint64           // of the set of instances that count
	looks   uint64           // number of discoveries so far
	unread  []int32          // nodes whose heartbeats are to be read

	own membership
}

// membership is this instance's own part in the registry.
type membership struct {
	beat, leave bool // the heartbeat is to be set, or to be deleted
	leaving     bool // for good
	ends        Time // when every heartbeat that was sent has expired

	written     bool // a heartbeat was set since the last failed acquisition
	othersTake  bool // another instance was seen to take a lease since the last failed acquisition
	unable      int  // acquisitions in a row that failed although Redis answers and others acquire leases
	unableAt    Time // when the last of them failed
	withdrawals int  // in a row, because of failed acquisitions
	rejoin      Time // withdrawn until then
}

type node struct {
	id      string
	hash    uint64
	exp     Time   // when its heartbeat expires, as far as known
	seen    Time   // when it was last known to live: an older discovery cannot show that it is gone
	look    uint64 // number of the last discovery that showed it
	gen     uint32 // of its timer
	alive   bool   // its heartbeat lives
	suspect bool   // it seems dead although its heartbeat lives: not counted until the heartbeat is refreshed
	reading bool   // its heartbeat is being read
	checked bool   // its heartbeat was read shortly before it expires and was not refreshed
	since   Time   // suspect: the expiry its heartbeat had when it became suspect
}

// counts reports whether sessions are placed on n.
func (n *node) counts() bool { return n.alive && !n.suspect }

// know returns the index of an instance and adds the instance if it is new.
func (r *registry) know(id string) int32 {
	if i, ok := r.index[id]; ok {
		return i
	}
	n := node{id: id, hash: hashID(id), alive: id == r.cfg.Instance}
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
	return ok && i > 0 && r.nodes[i].alive && r.nodes[i].exp > r.k.Now()+Time(r.cfg.Lead)
}

func (r *registry) arm(i int32, at Time) {
	r.nodes[i].gen++
	r.wake(i, r.nodes[i].gen, at)
}

// shown records that instance i's heartbeat lives and expires at exp. It reports whether i was not counted before.
func (r *registry) shown(i int32, exp Time) (changed bool) {
	n := &r.nodes[i]
	changed = !n.alive
	n.alive = true
	if n.suspect && exp > n.since+Time(r.cfg.Renew/4) {
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
		r.arm(i, exp-Time(r.cfg.Lead))
	}
	return changed
}

func (r *registry) gone(i int32) {
	n := &r.nodes[i]
	n.gen++
	if !n.alive {
		return
	}
	n.alive, n.suspect, n.exp = false, false, 0
	r.version++
}

// left records a notice that an instance leaves. It reports whether that instance was known.
func (r *registry) left(id string) bool {
	i, ok := r.index[id]
	if ok {
		r.gone(i)
		r.nodes[i].seen = r.k.Now()
	}
	return ok
}

// accuse records that this instance won a lease of holder, which was to expire at exp. It reports whether holder became suspect, because
// it did not renew that lease although its heartbeat lives.
func (r *registry) accuse(holder string, exp Time) bool {
	i, ok := r.index[holder]
	if !ok || !r.nodes[i].counts() {
		return false
	}
	n := &r.nodes[i]
	switch {
	case exp > r.k.Now():
		return false // it cannot have expired, so it was given back
	case n.exp > exp+Time(r.cfg.Renew/4):
		return false // its heartbeat was set later: it lives, and lost a race
	}
	r.suspect(n)
	return true
}

func (r *registry) suspect(n *node) {
	n.suspect, n.since = true, n.exp
	r.version++
}

// due queues a read of instance i's heartbeat, which is about to expire or should have expired.
func (r *registry) due(i int32) {
	if !r.nodes[i].reading && !r.own.leaving {
		r.unread = append(r.unread, i)
	}
}

func (r *registry) dueAgain(items []Item) {
	for _, it := range items {
		if i, ok := r.index[it.ID]; ok {
			r.nodes[i].reading = false
			r.due(i)
		}
	}
}

// reads returns the heartbeats to be read now, including those that expire within about a renewal interval. Otherwise every instance of a
// large fleet would read every other's heartbeat in a call of its own.
func (r *registry) reads() (items []Item) {
	soon := r.k.Now() + Time(r.cfg.Lead+r.cfg.Renew)
	for i := 1; i < len(r.nodes); i++ {
		if n := &r.nodes[i]; n.alive && !n.reading && n.exp <= soon {
			r.unread = append(r.unread, int32(i))
		}
	}
	slices.Sort(r.unread)
	for _, i := range slices.Compact(r.unread) {
		if n := &r.nodes[i]; n.alive { // it may be gone or pruned since
			n.reading = true
			items = append(items, Item{ID: n.id})
		}
	}
	r.unread = r.unread[:0]
	return items
}

type heartbeat uint8

const (
	heartbeatLives   heartbeat = iota // or unknown
	heartbeatOverdue                  // long due for a refresh, for the first time: its instance is suspect now
	heartbeatGone
)

// read records what op showed of the heartbeat of instance id. It returns the index of that instance.
func (r *registry) read(op *Op, id string, res *Result) (int32, heartbeat) {
	i := r.know(id)
	n := &r.nodes[i]
	n.reading = false
	switch {
	case i == 0:
		return i, heartbeatLives
	case res.Outcome == OutUnknown:
		r.arm(i, r.k.Now()+Time(r.cfg.MaxProbe))
		return i, heartbeatLives
	case res.Outcome == OutGone && n.seen > op.Sent:
		if n.alive { // it was seen alive after op was sent, so the order is unknown
			r.rearm(i)
		}
		return i, heartbeatLives
	case res.Outcome == OutGone:
		r.gone(i)
		return i, heartbeatGone
	}
	r.shown(i, r.k.Expiry(op, res.PTTL))
	if n.exp-r.k.Now() > 2*Time(r.cfg.Lead) {
		return i, heartbeatLives
	}
	// The heartbeat is about to expire, and its instance's leases at about the same time. The instance stops counting now, so that the
	// others agree on the order in which they acquire those leases.
	said := heartbeatLives
	if !n.checked {
		n.checked = true
		r.suspect(n)
		said = heartbeatOverdue
	}
	r.arm(i, max(n.exp, r.k.Now())+Time(Millisecond))
	return i, said
}

// rearm has instance i's heartbeat read shortly before it expires, or at its expiry if that moment has passed.
func (r *registry) rearm(i int32) {
	exp := r.nodes[i].exp
	if lead := exp - Time(r.cfg.Lead); lead > r.k.Now() {
		r.arm(i, lead)
		return
	}
	r.arm(i, max(exp, r.k.Now())+Time(Millisecond))
}

// see records the heartbeats of a discovery. It reports whether the set of instances that count changed.
func (r *registry) see(op *Op, seen []Seen) (changed bool) {
	r.looks++
	for _, s := range seen {
		i := r.know(s.ID)
		if i == 0 {
			continue
		}
		if r.shown(i, r.k.Expiry(op, s.PTTL)) {
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

// prune drops dead instances that own nothing, so that memory does not grow as instances come and go. owns is aligned with nodes.
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

// leaves removes this instance for good, so that its placement gives it nothing more.
func (r *registry) leaves(started bool) {
	r.own.leaving, r.own.rejoin = true, 0
	r.own.leave = started && !r.cfg.NoHeartbeat
	r.countSelf(false)
}

func (m *membership) beatFailed() {
	m.unable = 0 // not only acquisitions fail
	m.beat = true
	m.beatEnded()
}

// beatEnded records that no heartbeat is under way any more. A leaving instance deletes its heartbeat again, because the one under way may
// have been set after the deletion.
func (m *membership) beatEnded() { m.leave = m.leave || m.leaving }

// sent records a heartbeat that will have expired at ends. The earlier ones remain in place if it is refused.
func (m *membership) sent(ends Time) { m.ends = max(m.ends, ends) }

// leaveFailed retries to delete the heartbeat, unless it has expired by itself or this instance is only withdrawn.
func (m *membership) leaveFailed(now Time) { m.leave = m.leave || m.leaving && now < m.ends }

func (r *registry) countSelf(counts bool) {
	r.nodes[0].alive = counts
	r.version++
}

// able records that an acquisition was answered. It reports whether this instance was doubtful before.
func (m *membership) able() bool {
	news := m.doubtful()
	m.unable, m.withdrawals = 0, 0
	return news
}

// doubtful reports whether acquisitions of this instance failed and none has been answered since.
func (m *membership) doubtful() bool { return m.unable > 0 || m.withdrawals > 0 }

// acquisitionFailed counts failed acquisitions. An instance that beats but can acquire nothing would keep asking for its share, and the
// others would release leases in vain. It therefore leaves the registry after three failures, for longer each time. pause is for how
// long, 0 if it does not leave. sent is when the failed request was sent.
func (r *registry) acquisitionFailed(sent Time) (pause int64) {
	m := &r.own
	m.beat = m.beat || !r.cfg.NoHeartbeat // shows before the next attempt whether this instance can write at all
	if !m.written || !m.othersTake {
		return 0 // Redis may be the reason: not even heartbeats succeed, or no instance takes anything
	}
	if sent < m.unableAt {
		return 0 // it was under way when the last one failed, so it is no new failure
	}
	m.written, m.othersTake, m.unableAt = false, false, r.k.Now()
	if m.unable++; m.unable < 3 || r.cfg.NoHeartbeat || m.rejoin != 0 || m.leaving {
		return 0
	}
	pause = r.cfg.rejoinPause(m.withdrawals)
	m.withdrawals++
	m.rejoin = r.k.Now() + Time(pause)
	m.leave = true
	r.countSelf(false)
	return pause
}

func (r *registry) rejoins() {
	r.own.rejoin, r.own.unable = 0, 0
	r.own.beat = true
	r.countSelf(true)
}
