package audit

import (
	"slices"
	"strings"
	"time"
)

// instance is one process, by its ID.
type instance struct {
	id    string
	clock hostClock
	run   int // of Redis' clock; 0: unknown
	epoch string

	joined  bool // the log has its start
	gone    bool // it said that it drained
	first   int64
	last    int64 // time of its last entry
	open    map[*lease]*term
	nextDue int64 // no term of it is overdue before

	renewals  int64 // entries of renewals
	renewedAt int64
	regular   int64 // its renewals have come regularly since
	trouble   int64 // time of its last entry of trouble; 0: none
	fleet     *instance
	since     int64                // of a fleet: its first entry
	active    int64                // of a fleet: the last time at which a lease was confirmed
	pending   map[string]*incident // by guarantee: an end of this instance whose leases are judged
}

// lease is what is known of a lease: its last terms.
type lease struct {
	name  string
	terms []*term // open ones, and those that have ended recently, in the order of the log
	top   *term   // the term with the highest fence
}

// term is one ownership.
type term struct {
	inst      *instance
	lease     *lease
	fence     int64
	ttl       int64
	redis     int64  // Redis' time of its grant; 0: unknown
	run       int    // of Redis' clock
	epoch     string // that its owner knew as it was confirmed last
	grantedIn string // epoch of its grant
	began     instant
	steps     int   // of its host's clock before that
	confirmed int64 // its host's time of the last entry that confirmed it
	until     int64 // end of the window of that entry; 0: not logged
	beliefs   []belief
	doubt     bool
	failed    int64   // time of the failure
	rivals    []*term // later terms whose overlap with it is judged
	unsaid    bool    // the log does not have its beginning
	late      int64   // host's time of the first entry after it was overdue; 0: none
	judged    bool    // it was overdue, and that is reported
	end       kind    // lost or released; other: it is open
	ended     instant
	why       string
	over      int64 // time at which it is forgotten; 0: open
}

// belief is a time in which the owner believes. Its end is between to and most.
type belief struct {
	from     instant
	to, most instant
	open     bool
	why      string // end
}

// window returns the bounds of the end of t's trust window by its host's clock. A renewal does not say when it was sent.
func (a *Auditor) window(t *term) span {
	if t.until != 0 {
		return span{t.until, t.until}
	}
	end := t.confirmed + t.ttl - a.margin
	return span{end - int64(a.p.RenewTimeout), end}
}

func (a *Auditor) trust(t *term) {
	t.doubt, t.late = false, 0
	if n := len(t.beliefs); n == 0 || !t.beliefs[n-1].open {
		t.beliefs = append(t.beliefs, belief{from: t.inst.instant(t.confirmed), open: true})
		if n := len(t.beliefs); n > beliefsMax {
			t.beliefs = slices.Delete(t.beliefs, 0, n-beliefsMax)
		}
	}
}

const beliefsMax = 16

// cease ends t's belief at its host's time at, or at the end of its window, which until says if it is not 0.
func (a *Auditor) cease(t *term, at, until int64, why string) {
	a.beyond(t, until)
	if n := len(t.beliefs); n > 0 && t.beliefs[n-1].open {
		w := a.window(t)
		if until != 0 {
			w = span{until, until}
		}
		b := &t.beliefs[n-1]
		b.to, b.most, b.open, b.why = t.inst.instant(min(at, w.lo)), t.inst.instant(min(at, w.hi)), false, why
	}
}

// ends returns the bounds of the end of the belief. An open one lasts until the window ends, or ended before if nobody says that it lasts.
func (a *Auditor) ends(t *term, b *belief) (least, most instant) {
	if !b.open {
		return b.to, b.most
	}
	w := a.window(t)
	return t.inst.instant(min(t.confirmed, w.lo)), t.inst.instant(w.hi)
}

func (a *Auditor) instance(id string) *instance {
	i := a.instances[id]
	if i == nil {
		i = &instance{
			id: id, open: map[*lease]*term{}, clock: hostClock{err: int64(a.ClockError)}, first: a.now, since: a.now, regular: a.now, nextDue: forever.hi,
			pending: map[string]*incident{},
		}
		i.fleet = i
		a.instances[id] = i
		delete(a.named, id)
	}
	return i
}

func (a *Auditor) lease(name string) *lease {
	l := a.leases[name]
	if l == nil {
		l = &lease{name: name}
		a.leases[name] = l
	}
	return l
}

// root returns the instance that stands for i's fleet.
func (i *instance) root() *instance {
	for i.fleet != i {
		i.fleet = i.fleet.fleet
		i = i.fleet
	}
	return i
}

// meets records that the instance knows an epoch: instances that know the same one are one fleet.
func (a *Auditor) meets(i *instance, epoch string) {
	if epoch == "" {
		return
	}
	i.epoch = epoch
	server, _, _ := strings.Cut(epoch, " ")
	server, _, _ = strings.Cut(server, ":")
	if a.runs[server] == 0 {
		a.runs[server] = len(a.runs) + 1
	}
	i.run = a.runs[server]
	if o := a.epochs[epoch]; o != nil {
		from, to := i.root(), o.root()
		from.fleet, to.active, to.since = to, max(from.active, to.active), min(from.since, to.since)
		return
	}
	a.epochs[epoch] = i
}

// apart reports whether two instances may be of two fleets: they have known no epoch in common, and both fleets had leases at once.
func (a *Auditor) apart(i, o *instance) bool {
	known := i.epoch != "" && o.epoch != ""
	i, o = i.root(), o.root()
	return known && i != o && i.active > o.since+int64(a.p.RenewTimeout)
}

func (a *Auditor) take(e *entry) {
	a.now = max(a.now, e.at)
	if a.now > a.pruned+memoryTTLs*int64(a.p.TTL) && a.p.TTL != 0 {
		a.prune()
	}
	a.judgeDue(e.at)
	i := a.instance(e.instance)
	i.last = e.at
	if e.owner != "" && a.instances[e.owner] == nil && len(a.named) < namedMax {
		a.named[e.owner] = true
	}
	if e.at > i.nextDue {
		a.overdue(i, e.at)
	}
	switch e.kind {
	case epoch:
		a.rests(e.at)
		i.joined = i.joined || i.first == e.at
		if i.epoch != "" || a.epochs[e.epoch] == nil { // else the instance has just started
			i.trouble = e.at
		}
		a.meets(i, e.epoch)
	case clockStep:
		i.trouble = e.at
		a.stepped(i, e)
	case drained:
		a.rests(e.at)
		a.drained(i, e)
	case poll:
		a.polls(i, e)
	case alive:
	case logDropped:
		a.counts.Dropped++
	case trouble:
		i.trouble = e.at
		for _, t := range i.open {
			t.late = 0
		}
	default:
		if e.lease != "" {
			a.ofLease(i, a.lease(e.lease), e)
		}
	}
	a.balanced(e.at)
}

// memoryTTLs is how many TTLs an instance without an entry is remembered.
const memoryTTLs = 10

// prune forgets instances that have ended.
func (a *Auditor) prune() {
	a.pruned = a.now
	for id, i := range a.instances {
		if i.last > a.now-memoryTTLs*int64(a.p.TTL) || len(i.pending) > 0 {
			continue
		}
		for _, t := range i.terms() {
			a.finish(t, other, i.last, "")
		}
		delete(a.instances, id)
		a.seen.Instances++
	}
}

// namedMax bounds the memory of names.
const namedMax = 1 << 16

// stepped widens the error of a clock that stepped: the times of the log may follow the step or not.
func (a *Auditor) stepped(i *instance, e *entry) {
	if e.step { // Redis' clock: nothing that was known of it holds
		clear(a.runs)
		for _, o := range a.instances {
			o.run, o.clock.run = 0, 0
		}
		return
	}
	i.clock.err += e.wait
	i.clock.off = span{i.clock.off.lo - e.wait, i.clock.off.hi + e.wait}
	i.clock.steps++
	for _, t := range i.open {
		t.late = 0
	}
}

func (a *Auditor) ofLease(i *instance, l *lease, e *entry) {
	if e.kind == acquired {
		a.rests(e.at)
		a.acquired(i, l, e)
		return
	}
	t := i.open[l]
	if t != nil && e.fence != 0 && t.fence != e.fence {
		t = nil
	}
	switch e.kind {
	case renewed:
		a.told.exercised++
		if e.at-i.renewedAt > int64(a.p.Renew)+regularSlack {
			i.regular = e.at
		}
		i.renewedAt = e.at
		i.renewals++
		if t == nil {
			t = a.unsaid(i, l, e)
		}
		a.confirm(t, e.at, e.until)
		a.rivals(t)
	case renewFailed:
		i.trouble = e.at
		a.failed(t, e)
	case lost, released:
		a.rests(e.at)
		if e.kind == lost {
			i.trouble = e.at
		}
		a.ended(i, l, t, e)
	case releaseFailed:
		i.trouble = e.at
	case acquireFailed:
		if e.reason != "held" {
			i.trouble = e.at
		}
	case yield:
		a.shares = a.shares || e.reason == "rebalance"
	}
}

// regularSlack is how much later than an interval after the one before a renewal may be answered that nothing disturbed.
const regularSlack = int64(100 * time.Millisecond)

func (a *Auditor) confirm(t *term, at, until int64) {
	t.confirmed, t.until, t.epoch, t.steps = at, until, t.inst.epoch, t.inst.clock.steps
	t.inst.root().active = at
	a.trust(t)
	t.inst.nextDue = min(t.inst.nextDue, a.due(t))
}

func (a *Auditor) acquired(i *instance, l *lease, e *entry) {
	a.setTTL(e.ttl)
	ttl := e.ttl
	if ttl == 0 {
		ttl = int64(a.p.TTL)
	}
	if e.redis != 0 && e.until != 0 && i.run != 0 && !i.clock.grant(e.redis, e.until-ttl+a.margin, e.at, i.run) {
		a.counts.Clocks++
	}
	if old := i.open[l]; old != nil {
		a.cease(old, e.at, 0, "")
		a.finish(old, lost, e.at, "")
		a.told.fail(a.breach(l, e.at, e.at, old), true, 1, "%s began a new term of %s, and never logged that the one before (fence %d) was over", i.id, l.name,
			old.fence)
	}
	t := &term{inst: i, lease: l, fence: e.fence, ttl: ttl, redis: e.redis, run: i.run}
	a.confirm(t, e.at, e.until)
	t.grantedIn = i.epoch
	t.began = i.instant(e.at)
	if t.redis != 0 && t.run != 0 {
		t.began.run, t.began.redis.lo = t.run, max(t.began.redis.lo, t.redis)
	}
	t.beliefs[0].from = t.began
	a.beyond(t, e.until)
	a.told.exercised++
	a.fences(l, t)
	a.takenOver(l, t)
	a.begin(l, t)
}

// unsaid begins a term of which the log does not have the beginning.
func (a *Auditor) unsaid(i *instance, l *lease, e *entry) *term {
	if i.joined {
		a.told.fail(a.breach(l, e.at, e.at, nil), true, 1, "%s renewed %s (fence %d), and logged no beginning of that term", i.id, l.name, e.fence)
	} else {
		a.told.doubt("terms began before the log does")
	}
	if old := i.open[l]; old != nil {
		a.finish(old, lost, e.at, "")
	}
	t := &term{inst: i, lease: l, fence: e.fence, ttl: int64(a.p.TTL), unsaid: true, confirmed: e.at}
	t.began = i.instant(e.at)
	a.begin(l, t)
	return t
}

func (a *Auditor) begin(l *lease, t *term) {
	t.inst.open[l] = t
	l.terms = slices.DeleteFunc(l.terms, func(o *term) bool { return o.over != 0 && o.over < a.now })
	l.terms = append(l.terms, t)
	if l.top == nil || t.fence > l.top.fence {
		l.top = t
	}
	a.rivals(t)
}

func (a *Auditor) failed(t *term, e *entry) {
	a.closed.exercised++
	if t == nil {
		return
	}
	a.cease(t, e.at, e.until, e.reason)
	t.doubt, t.late, t.failed = true, 0, e.at
	a.rivals(t)
}

func (a *Auditor) ended(i *instance, l *lease, t *term, e *entry) {
	if t == nil {
		if i.joined {
			a.told.fail(a.breach(l, e.at, e.at, nil), true, 1, "%s logged the end of a term of %s (fence %d) that had not begun, or was over", i.id,
				l.name, e.fence)
		} else {
			a.told.doubt("terms began before the log does")
		}
		return
	}
	a.cease(t, e.at, e.until, e.reason)
	a.finish(t, e.kind, e.at, e.reason)
	a.rivals(t)
}

// finish ends a term.
func (a *Auditor) finish(t *term, how kind, at int64, why string) {
	t.end, t.ended, t.why = how, t.inst.instant(at), why
	t.over = a.now + 2*int64(a.p.TTL)
	delete(t.inst.open, t.lease)
}

// drained judges an instance that says that all is released.
func (a *Auditor) drained(i *instance, e *entry) {
	i.gone = true
	for _, t := range i.terms() {
		a.stop.exercised++
		a.stop.fail(a.breach(t.lease, t.confirmed, e.at, t), true, 1, "%s said that everything is released, and did not release %s (fence %d)", i.id,
			t.lease.name, t.fence)
		a.cease(t, e.at, 0, "")
		a.finish(t, lost, e.at, "")
	}
}

// terms returns the open terms in the order of their beginnings.
func (i *instance) terms() (all []*term) {
	for _, t := range i.open {
		all = append(all, t)
	}
	slices.SortFunc(all, func(s, t *term) int {
		if s.fence != t.fence {
			return int(min(max(s.fence-t.fence, -1), 1))
		}
		return 0
	})
	return all
}
