package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// g10 judges that acquiring is atomic, and that only the owner of the current term renews or releases. It matches the changes in Redis to
// the owners' messages.
type g10 struct {
	hooks
	stores map[string]*store   // by name; "" is the master that the sentinels know
	said   map[[2]string]*said // by session and instance
	fences bool                // Redis shows fences
}

// key is a lease as one Redis server holds it.
type key struct {
	session *session
	store   *store
	known   bool
	stale   bool   // the holder comes from a replica that took over: an assertion with a higher fence replaces it
	asserts bool   // granted over another's lease in a quarantine; its fence shows whether that is allowed
	token   bool   // it has held no instance's ID, as a foreign program's may
	holder  string // "": nobody
	since   int64
	until   int64 // 0: it has no end
	pushed  int64 // last extension; 0: none since the grant
	spent   int64 // attempt to which that was matched
	fenced  int64 // when its fence was last set
	fence   int64 // its last fence; 0: none shown
}

func (g *g10) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.stores, g.said = map[string]*store{"": newStore(&w.servers.epoch)}, map[[2]string]*said{}
	if !w.Tap {
		g.untested = "what Redis granted was not recorded"
	}
}

// aside applies the same rules to another server that may act as a master.
func (g *g10) aside(e *history.Event) { g.event(e) }

func (g *g10) event(e *history.Event) {
	if !g.w.Tap {
		return
	}
	switch e.Kind {
	case history.RedisGranted:
		g.granted(g.key(e), e)
	case history.RedisExtended:
		g.extended(g.key(e), e)
	case history.RedisDeleted:
		g.deleted(g.key(e), e)
	case history.RedisFence:
		g.fenced(g.key(e), e)
	case history.RedisBeat:
		if e.Reason != snapshotReason {
			g.unheard(g.store(e), e.Instance)
		}
	case history.RedisFlushed, history.TapDown:
		g.interrupted(e)
	case history.RedisAcked:
		s := g.store(e)
		s.acked = max(s.acked, e.Until)
	case history.AcquireFailed:
		g.refused(e)
	case history.Acquired, history.RenewStart, history.Renewed, history.Released:
		g.reports(g.key(e), e)
	}
}

func (k *key) set(known bool, holder string, since, until int64) {
	k.known, k.holder, k.since, k.until = known, holder, since, until
	k.pushed, k.stale, k.asserts = 0, false, false
}

func (k *key) held() bool { return k.known && k.holder != "" }

// granted handles a grant. One over another's lease may be an assertion in a quarantine, of a lease that too few replicas acknowledged.
func (g *g10) granted(k *key, e *history.Event) {
	snapshot := e.Reason == snapshotReason
	switch {
	case e.Instance == "": // a command that does not show its effect
		g.unread(k, e)
		return
	case g.fences && !snapshot && k.renews(e):
		g.extended(k, e)
		return
	}
	asserts := false
	if k.held() && !snapshot && !k.stale {
		g.changed(k.holder)
		over := k.holder != e.Instance && k.lives(e.T+expirySlack) && !g.w.faults.twoOwners(k.session, e.T)
		_, last := k.store.epoch.quarantine()
		asserts = over && g.w.replicated() && k.store.epoch.since != 0 && e.T <= last
		if over && !asserts {
			g.broke(k.session, "at %s Redis gave the lease of session %s to %s although %s held it until %s: the acquisition did not look "+
				"whether it was free", clock(e.T), k.session.id, g.who(e.Instance), g.who(k.holder), clock(k.until))
		}
	}
	k.set(true, e.Instance, e.T, e.Until)
	k.stale = g.w.allows(replicaCopies) && snapshot && g.w.shows() && slices.ContainsFunc(g.w.faults.quarantines(e.T), (*injection).failsOver)
	k.asserts = asserts
	k.token = k.token || g.w.Foreign && g.nobody(e.Instance)
	g.did(k, e.T)
	if !snapshot {
		g.served(k, e, true)
	}
}

// unread handles a command that does not show its effect on a lease. It may not have compared the owner, so G10 cannot pass. The holder is
// unknown from then on, so no messages can contradict it.
func (g *g10) unread(k *key, e *history.Event) {
	if g.untested == "" && g.w.shows() && k.held() && !g.nobody(k.holder) && k.lives(e.T) {
		g.untested = fmt.Sprintf("at %s the lease of session %s, which %s held, was changed by a command that does not show what it did to "+
			"it: it is not known who may do that", clock(e.T), k.session.id, g.who(k.holder))
	}
	k.set(false, "", e.T, 0)
}

// renews reports whether the holder's own name was set again in a living key, which extends it. The stream does not show the XX of that
// SET. With a fence just before, the SET is a grant.
func (k *key) renews(e *history.Event) bool {
	return k.known && k.holder == e.Instance && !k.stale && k.lives(e.T) && (k.fenced == 0 || k.fenced < e.T-int64(stampAllowance))
}

func (k *key) lives(at int64) bool { return k.until == 0 || k.until > at }

// served judges a grant or an extension, which lasts no more than a TTL, by a clock that may be off by the margin. The next command
// may set the lease's end or its fence. An endless lease outlives its owner. A command that made the key without a fence should only
// have extended it.
func (g *g10) served(k *key, e *history.Event, made bool) {
	at, since := e.T, k.since
	g.unheard(k.store, k.holder, k.session.id)
	if beyond := e.Until - at - int64(g.w.TTL); beyond > g.w.margin()+clockStep {
		g.broke(k.session, "at %s the lease of session %s was made to last until %s, %d ms more than a TTL", clock(at), k.session.id,
			clock(e.Until), ms(beyond))
	}
	if e.Until != 0 && !made {
		return
	}
	g.w.at(g.w.host.recordedBy(at), func() {
		if !k.held() || k.since != since {
			return
		}
		if k.until == 0 {
			g.broke(k.session, "at %s the lease of session %s was made to last for ever: it has no end", clock(at), k.session.id)
		}
		if made && g.fences && k.fenced < since-int64(stampAllowance) {
			g.broke(k.session, "at %s Redis made the lease of session %s anew for %s and set no fence: a renewal must not create what it "+
				"is to extend", clock(since), k.session.id, g.who(k.holder))
		}
	})
}

// extended handles an extension, which must belong to one attempt of the holder.
func (g *g10) extended(k *key, e *history.Event) {
	if !k.held() {
		return
	}
	k.until, k.pushed = e.Until, e.T
	g.changed(k.holder)
	g.did(k, e.T)
	g.served(k, e, false)
	g.used(k, e.T)
}

// fenced handles a fence. A new one begins a term, and none may begin in a quarantine. A known one belongs to a term asserted anew. A
// holder that gets one without a grant adopts its lease, which counts as a grant.
func (g *g10) fenced(k *key, e *history.Event) {
	g.fences = true
	first, _ := k.store.epoch.quarantine()
	if first > 0 && k.held() {
		g.changed(k.holder)
	}
	if e.Fence > max(k.fence, g.by(k.session, k.holder).fence) && e.T < first {
		g.broke(k.session, "at %s Redis began a term of session %s for %s (fence %d), although the epoch of its data began at %s or later: "+
			"nothing is granted within a TTL of that, because what it forgot may still be believed", clock(e.T), k.session.id,
			g.who(k.holder), e.Fence, clock(k.store.epoch.since))
	}
	if k.asserts && e.Fence < k.fence {
		g.broke(k.session, "at %s Redis let %s assert its lease of session %s under fence %d over one with %d", clock(e.T), g.who(k.holder),
			k.session.id, e.Fence, k.fence)
	}
	k.asserts, k.fenced, k.fence = false, e.T, e.Fence
	if k.held() {
		s := g.did(k, e.T)
		if k.pushed != 0 && e.T <= k.pushed+int64(stampAllowance) { // no renewal extended it
			s.open = s.explains(s.open, k.spent)
		}
	}
}

// deleted handles a deletion. Before the lease's end, only the holder may delete it, and the holder must report the release.
func (g *g10) deleted(k *key, e *history.Event) {
	held, holder, since, until, at := k.held(), k.holder, k.since, k.until, e.T
	k.set(true, "", at, 0)
	if !held {
		return
	}
	g.changed(holder)
	if until != 0 && at >= until-expirySlack || g.nobody(holder) {
		return
	}
	s, i := g.by(k.session, holder), g.w.fleet.instances[holder]
	g.w.at(g.w.host.recordedBy(at)+int64(g.w.RenewTimeout), func() {
		reported := s.released != 0 && s.released >= since-eventAllowance
		silenced := i.gone && i.killed || g.w.faults.hindered(i.node, at-int64(g.w.TTL), at+eventAllowance, nil) != nil
		if reported || silenced || k.session.deletedWithin(at-eventAllowance, at+eventAllowance) {
			return
		}
		g.broke(k.session, "at %s the lease of session %s was deleted, %d ms before its end, while %s held it and had not released it",
			clock(at), k.session.id, ms(until-at), i.who())
	})
}

func (g *g10) who(inst string) string { return g.w.fleet.who(cmp.Or(inst, "nobody")) }

// nobody reports whether the holder that Redis shows is no node's ID. Such a holder has sent no messages.
func (g *g10) nobody(holder string) bool {
	i := g.w.fleet.instances[holder]
	return i == nil || i.node == nil
}

// changed counts a change of an instance's lease.
func (g *g10) changed(holder string) {
	if !g.nobody(holder) {
		g.exercise("")
	}
}
