package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// e5 judges that a leader that cannot renew reports its loss before another instance can own its lease. When the key expires or goes to
// another instance, the holder's last event must not be that it leads. That the former leader writes nothing more is judged as G4.
type e5 struct {
	g4
	keys       map[string]*grant
	claims     map[owning]int64 // since when an instance reports that it leads; absent: it does not
	silent     int              // leaderships that ended without a release
	unreported int
}

// owning is one instance's view of one session.
type owning struct {
	inst    *instance
	session string
}

func (g *e5) attach(w *world, v Verdict) {
	g.hooks.attach(w, v)
	g.keys, g.claims = map[string]*grant{}, map[owning]int64{}
}

func (g *e5) event(e *history.Event) {
	g.g4.event(e)
	if g.w.replicated() && e.Kind.OfRedis() {
		return
	}
	key := owning{g.w.instance(e.Instance), e.Session}
	switch e.Kind {
	case history.Acquired, history.Renewed:
		g.claims[key] = e.T
	case history.RenewFailed, history.Lost, history.Released:
		delete(g.claims, key)
	case history.RedisGranted:
		if e.Instance == "" {
			delete(g.keys, e.Session)
			return
		}
		if l := g.keys[e.Session]; l != nil && l.holder != e.Instance && e.Reason != snapshotReason {
			g.passed(l.holder, e, "went to "+g.w.instance(e.Instance).who())
		}
		g.keys[e.Session] = &grant{holder: e.Instance, until: e.Until}
	case history.RedisExtended:
		if l := g.keys[e.Session]; l != nil {
			l.until = max(l.until, e.Until)
		}
	case history.RedisDeleted:
		l := g.keys[e.Session]
		if l != nil && l.until != 0 && e.T >= l.until-expirySlack && !g.w.quarantined(e.T) {
			g.passed(l.holder, e, "expired")
		}
		if l != nil && e.T < l.until-expirySlack {
			return // deleted: whose it was is not forgotten before it is another's
		}
		delete(g.keys, e.Session)
	case history.RedisFlushed, history.TapDown:
		clear(g.keys)
	}
}

// passed judges the messages of the former holder of a lease. Events are stamped a moment after the fact.
func (g *e5) passed(holder string, e *history.Event, what string) {
	inst := g.w.instance(holder)
	key, at := owning{inst, e.Session}, e.T
	s := g.w.session(e.Session)
	if inst.gone || inst.node == nil || s.deletedWithin(at-int64(g.w.TTL), at) {
		return
	}
	g.silent++
	g.exercised++
	since, claims := g.claims[key]
	if !claims {
		return
	}
	g.w.at(at+int64(stampAllowance)+g.w.stall(at-eventAllowance, at), func() {
		if still, ok := g.claims[key]; !ok || still != since || inst.gone || inst.node.frozenWithin(at-thawGrace) {
			return
		}
		g.unreported++
		g.broke(s, "at %s the leader key %s %s, and %s, who held it, had last said at %s that it leads, and nothing since", clock(at),
			s.id, what, inst.who(), clock(since))
	})
}

func (g *e5) verdict() Verdict {
	v := g.g4.verdict()
	v.Value = int64(g.breaks)
	switch {
	case g.w.replicated():
		v.Detail = join(v.Detail, "whether leaders say in time that they lead no more is not judged: what one server shows need not count")
	case !g.w.shows():
		v.Detail = join(v.Detail, "whether leaders say in time that they lead no more is not judged: what Redis granted was not recorded")
	default:
		v.Detail = join(v.Detail, fmt.Sprintf("%d leaderships passed without a release, %d of them unreported", g.silent, g.unreported))
	}
	return v
}
