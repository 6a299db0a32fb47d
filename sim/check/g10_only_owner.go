package check

import (
	"fmt"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g10 judges that acquiring is atomic, and that only the owner of the current term renews or releases. It matches the changes in Redis to
// the owners' messages.
type g10 struct {
	hooks
	stores stores

	fences  bool
	without string         // first change of an owner's lease by a command that does not show its effect; "": none
	changes map[string]int // changes of leases, by the holder that Redis shows
}

// key is a lease as one Redis server holds it.
type key struct {
	session       *session
	store         *store
	known         bool
	stale         bool // the holder comes from a replica that took over: an assertion with a higher fence replaces it
	holder        string
	was           string // holder before the key last went; "": none, or unknown
	went          int64
	since         int64
	until         int64
	fenced        int64   // when its fence was last set
	fence         int64   // highest fence that Redis has shown
	reportedFence int64   // highest fence that an owner has reported
	pushed        int64   // last extension; 0: none since the grant
	said          []*said // one per instance that reported anything, for all servers
	effects       effects // kept with replicas only
	over          bool    // granted over another's lease; its fence shows whether that is allowed
	end           int64   // end as last shown, which may be earlier than until; 0: none
}

// said is the state of one instance's messages about a lease.
type said struct {
	inst     string
	at       int64
	released int64 // when it last released the lease
	over     int64 // when it last released or lost the lease
	asked    int64 // start of its last renewal; 0: it is answered
	sent     int64 // start of its last renewal
	waits    int64 // start of the first unanswered renewal
	before   int64 // start of the renewal before the last
	open     int64 // start of the last attempt that another one followed before its answer
	granted  int64 // when Redis last granted it the lease or let it adopt the lease
	unused   int   // renewals that it has started and Redis has not shown; below 0: Redis has shown more
	shown    int   // renewals that Redis has shown
}

func (g *g10) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.stores.init(w)
	g.changes = map[string]int{}
	if !w.Tap {
		g.untested = "what Redis granted was not recorded"
	}
}

func (g *g10) key() *key { return g.stores.of(g.w.subject) }

func (k *key) by(inst string) *said {
	root := &k.session.key
	for _, s := range slices.Backward(root.said) { // mostly the latest one
		if s.inst == inst {
			return s
		}
	}
	s := &said{inst: inst}
	root.said = append(root.said, s)
	return s
}

// aside applies the same rules to another server that may act as a master.
func (g *g10) aside(e *history.Event) { g.event(e) }

func (g *g10) event(e *history.Event) {
	if !g.w.Tap {
		return
	}
	g.stores.at(e)
	switch e.Kind {
	case history.RedisGranted:
		g.granted(g.key(), e)
	case history.RedisExtended:
		g.extended(g.key(), e)
	case history.RedisDeleted:
		g.deleted(g.key(), e)
	case history.RedisFence:
		g.fences = true
		g.fenced(g.key(), e)
	case history.RedisBeat:
		if i := g.w.instances[e.Instance]; i != nil && e.Reason != snapshotReason {
			g.beat(i)
		}
	case history.RedisFlushed, history.TapDown, history.TapUp, history.RedisAcked:
		g.stores.event(e)
	case history.AcquireFailed:
		g.refused(e)
	case history.Acquired, history.RenewStart, history.Renewed, history.Lost, history.Released:
		g.nodeEvent(g.key(), e)
	}
}

func (g *g10) granted(k *key, e *history.Event) {
	if e.Instance == "" { // the holder is unknown, so no messages can contradict it
		g.changes[""]++
		g.unread(k, e)
		k.known, k.holder, k.since, k.until, k.end, k.pushed, k.stale = false, "", e.T, 0, 0, 0, false
		return
	}
	if g.fences && k.renews(e) {
		g.extended(k, e)
		return
	}
	k.by(e.Instance).granted = e.T
	if k.known && k.holder != "" && e.Reason != snapshotReason && !k.stale {
		g.changes[k.holder]++
		if k.holder != e.Instance && !g.w.twoOwners(k.session, e.T) && !g.asserted(k) && (k.until == 0 || k.until > e.T+expirySlack) {
			g.broke(k.session, "at %s Redis gave the lease of session %s to %s although %s held it until %s: the acquisition did not "+
				"look whether it was free", clock(e.T), k.session.id, g.who(e.Instance), g.who(k.holder), clock(k.until))
		}
	}
	k.stale = e.Reason == snapshotReason && !k.store.beside && g.w.failedOver(e.T)
	k.effect(e, e.Instance)
	k.known, k.holder, k.since, k.until, k.end = true, e.Instance, e.T, e.Until, e.Until
	k.pushed = 0
	if e.Reason != snapshotReason {
		g.reaches(k, e)
		g.unheard(k, e.Instance)
		g.fencing(k)
	}
}

// renews reports whether the holder's own name was set again in a living key, which extends it. The stream does not show the XX of that
// SET. With a fence just before, the SET is a grant.
func (k *key) renews(e *history.Event) bool {
	return k.known && k.holder == e.Instance && e.Reason != snapshotReason && !k.stale && k.lives(e.T) &&
		(k.fenced == 0 || k.fenced < e.T-int64(stampAllowance))
}

func (k *key) lives(at int64) bool { return k.end == 0 || k.end > at }

// fenced handles a new fence. A holder that gets one without a grant adopts its lease, which counts as a grant. A known fence that comes
// with a grant belongs to a renewal that asserts the term anew. A known fence without a grant keeps the fence's key alive.
func (g *g10) fenced(k *key, e *history.Event) {
	k.fenced = e.T
	if k.known && k.holder != "" {
		k.effect(e, k.holder)
		s := k.by(k.holder)
		s.granted = e.T
		switch adopted := k.pushed != 0 && e.T <= k.pushed+int64(stampAllowance); {
		case adopted:
			s.unused++ // no renewal extended it
		case s.unused > 0 && e.Fence <= k.fence && k.pushed == 0 && e.T <= k.since+int64(stampAllowance): // of a new term, G3 judges it
			s.unused--
		}
	}
	g.inQuarantine(k, e)
	g.above(k, e)
	k.fence = max(k.fence, e.Fence)
}

// fencing checks that a grant sets a fence. A command that makes a key without one should only have extended the key.
func (g *g10) fencing(k *key) {
	holder, since := k.holder, k.since
	g.w.at(since+eventAllowance, func() {
		if !g.fences || !k.store.tap || !k.known || k.since != since || k.holder != holder || k.fenced >= since-int64(stampAllowance) {
			return
		}
		g.broke(k.session, "at %s Redis made the lease of session %s anew for %s and set no fence: a renewal must not create what it "+
			"is to extend", clock(since), k.session.id, g.who(holder))
	})
}

// unread records a command that does not show its effect on a lease. It may not have compared the owner, so G10 cannot pass.
func (g *g10) unread(k *key, e *history.Event) {
	if g.without == "" && g.w.shows() && k.known && k.holder != "" && !g.nobody(k.holder) && k.lives(e.T) {
		g.without = fmt.Sprintf("at %s the lease of session %s, which %s held, was changed by a command that does not show what it did to "+
			"it: it is not known who may do that", clock(e.T), k.session.id, g.who(k.holder))
	}
}

func (g *g10) who(inst string) string { return g.w.instance(inst).who() }

// extended handles an extension: it must belong to one attempt of the holder, and reach no further than a TTL.
func (g *g10) extended(k *key, e *history.Event) {
	if !k.known || k.holder == "" {
		return
	}
	g.reaches(k, e)
	k.effect(e, k.holder)
	if k.until, k.end, k.pushed = max(k.until, e.Until), e.Until, e.T; e.Until == 0 {
		k.until = 0
	}
	g.changes[k.holder]++
	g.unheard(k, k.holder)
	g.used(k, e.T)
}

// deleted handles a deletion: before the lease's end only the holder may delete it, and must report that.
func (g *g10) deleted(k *key, e *history.Event) {
	holder, since, until, at := k.holder, k.since, k.until, e.T
	known := k.known
	k.was, k.went = holder, at
	k.known, k.holder, k.until, k.since, k.pushed = k.store.tap, "", 0, at, 0
	if !known || holder == "" {
		return
	}
	g.changes[holder]++
	if until != 0 && at >= until-expirySlack || k.session.deletedWithin(at-eventAllowance, at+eventAllowance) {
		return
	}
	gave := func() bool { s := k.by(holder); return s.released != 0 && s.released >= since-eventAllowance }
	if gave() {
		return
	}
	before := k.others(holder)
	g.w.at(at+eventAllowance+int64(g.w.RenewTimeout)+g.w.stall(at-eventAllowance, at), func() {
		if gave() || g.faulty(holder, at) || k.session.deletedWithin(at-eventAllowance, at+eventAllowance) {
			return
		}
		g.broke(k.session, "at %s the lease of session %s was deleted, %d ms before its end, while %s held it and had not released "+
			"it%s", clock(at), k.session.id, ms(until-at), g.who(holder), g.deleter(append(before, k.others(holder)...), at))
	})
}

// nodeEvent handles a node's message. If Redis contradicts the message, the node does not compare owners.
func (g *g10) nodeEvent(k *key, e *history.Event) {
	s := k.by(e.Instance)
	sent := s.asked
	s.at = e.T
	k.reportedFence = max(k.reportedFence, e.Fence)
	switch e.Kind {
	case history.RenewStart:
		s.unused++
		g.w.reporter.sends = true
		if s.asked == 0 {
			s.waits = e.T
		}
		s.open, s.before = max(s.open, s.asked), s.sent
		s.sent = e.T
		s.asked = e.T
		return
	case history.Lost: // a lost lease need not have been deleted
		s.over = e.T
		return
	case history.Released:
		s.released, s.over = e.T, e.T
		return
	case history.Acquired:
		s.open, s.asked = max(s.open, s.asked), 0
		if g.w.replicated() {
			g.counts(s, e, e.T-int64(g.w.TTL))
		} else {
			g.claimed(k, e)
		}
		return
	}
	g.answered(k, s, sent)
	s.asked = 0
	gone := sent != 0 && k.since < s.waits-expirySlack // the answer may belong to any of several attempts
	if sent == 0 {
		sent = e.T - int64(g.w.RenewTimeout) - eventAllowance
	}
	switch {
	case g.w.replicated():
		g.counts(s, e, min(sent, max(s.waits, 1))-expirySlack)
	case !k.known || !k.store.tap || k.holder == e.Instance || g.w.Foreign && k.holder != "" && g.nobody(k.holder):
	case k.holder == "" && gone:
		g.nothing(k, e)
	case k.holder != "" && k.since < sent-expirySlack && k.until > e.T:
		g.anothers(k, e)
	}
}

// finish counts the changes that could be matched. A holder that is no node's ID has sent no messages.
func (g *g10) finish() {
	nobodys := 0
	for holder, n := range g.changes {
		if g.nobody(holder) {
			nobodys += n
		} else {
			g.exercised += n
		}
	}
	if g.without != "" && g.untested == "" {
		g.untested = g.without
	}
	switch {
	case nobodys == 0:
	case g.exercised == 0 && g.untested == "":
		g.untested = fmt.Sprintf("none of %d changes of leases in Redis could be matched: what the keys hold is the ID of no instance",
			nobodys)
	default:
		g.note("%d changes of leases whose keys hold the ID of no instance were matched to nobody", nobodys)
	}
}

// nobody reports whether the holder that Redis shows is no node's ID.
func (g *g10) nobody(holder string) bool {
	i := g.w.instances[holder]
	return i == nil || i.node == nil
}

func (g *g10) verdict() Verdict {
	v := g.hooks.verdict()
	if v.Verdict == Pass {
		v.Detail = join(fmt.Sprintf("%d changes of leases in Redis matched to their owners' events", g.exercised), v.Detail)
	}
	return v
}
