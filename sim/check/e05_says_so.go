package check

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// e5 judges that a leader that cannot renew reports its loss before another instance can own its lease. When the key expires or goes to
// another instance, the holder's last event must not be that it leads. That the former leader writes nothing more is judged as G4.
type e5 struct {
	g4
	silent     int // leaderships that ended without a release
	unreported int
}

func (g *e5) event(e *history.Event) {
	g.g4.event(e)
	if g.w.replicated() && e.Kind.OfRedis() {
		return
	}
	switch s := g.w.subject; e.Kind {
	case history.RedisGranted:
		if k := s.before; k != nil && k.holder != e.Instance && e.Instance != "" && e.Reason != snapshotReason {
			g.passed(k, e, "went to "+g.w.instance(e.Instance).who())
		}
		s.forget()
	case history.RedisDeleted: // whose it was before its end is not forgotten before it is another's
		switch k := s.before; {
		case k == nil || e.T < k.until-expirySlack:
		case k.until != 0 && len(g.w.quarantines(e.T)) == 0:
			g.passed(k, e, "expired")
			fallthrough
		default:
			s.forget()
		}
	case history.RedisFlushed, history.TapDown:
		for _, s := range g.w.sessions.all {
			s.forget()
		}
	}
}

// forget drops the last holder.
func (s *session) forget() {
	if s.before != nil {
		s.before.passed = true
	}
}

// passed judges the messages of the former holder of a lease. Events are stamped a moment after the fact.
func (g *e5) passed(k *grant, e *history.Event, what string) {
	s, inst, at := g.w.subject, g.w.instance(k.holder), e.T
	if k.passed || inst.gone || inst.node == nil || s.deletedWithin(at-int64(g.w.TTL), at) {
		return
	}
	g.silent++
	g.exercised++
	t := s.heldBy(inst)
	if t == nil || t.doubt {
		return
	}
	since := t.confirmedAt
	g.w.at(at+int64(stampAllowance)+g.w.stall(at-eventAllowance, at), func() {
		if t.over || t.doubt || t.confirmedAt != since || inst.gone || inst.node.frozenWithin(at-thawGrace) {
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
