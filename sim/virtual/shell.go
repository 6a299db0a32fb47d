package virtual

import (
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// told carries out a tell as the production shell does: first the trust table, then its dependents.
func (w *world) told(n *node, t *core.Tell) {
	w.log(n, t)
	w.carryOut(n, t)
	if n.program != nil {
		n.program.told(w, n, t)
	}
}

func (w *world) carryOut(n *node, t *core.Tell) {
	switch t.Kind {
	case core.TellAcquired:
		w.tellAcquired(n, t)
	case core.TellRefused:
		w.say(n, history.AcquireFailed, t.ID, t.Fence, reason(t))
	case core.TellRenewed:
		w.tellRenewed(n, t)
	case core.TellUncertain:
		w.tellUncertain(n, t)
	case core.TellLost, core.TellReleased:
		kind := history.Lost
		if t.Kind == core.TellReleased {
			kind = history.Released
		}
		w.say(n, kind, t.ID, t.Fence, reason(t))
		w.over(n, t.ID, reason(t))
		if s, ok := w.sessIdx[t.ID]; ok && w.cfg.Candidates && n.program == nil {
			w.q.Push(loop.Event{At: w.t + int64(w.cfg.Rest), Kind: evWant, Node: int32(n.slot - 1), Arg: s, Gen: n.gen})
		}
	case core.TellYield:
		if w.cfg.Intents == nil { // a worker releases its leases itself or lets them expire
			w.yield(n, t.ID)
		}
	case core.TellKept:
		if i, tm := n.term(t.ID); tm != nil {
			w.polling(n, i, tm.polls.Kept(), "")
		}
	case core.TellDrained:
		if n.program != nil && n.program.drained(w, n) {
			return
		}
		w.stopped(n)
	}
}

func (w *world) log(n *node, t *core.Tell) {
	level, message, ok := logentry.Head(t)
	if !ok || w.cfg.Log == nil {
		return
	}
	e := &w.entry
	e.Node, e.Wall, e.Level, e.Message = n.name, n.clock.WallAt(w.t), level, message
	said := *t
	if _, tm := n.term(t.ID); tm != nil && (t.Kind == core.TellLost || t.Kind == core.TellReleased) {
		said.Until = tm.until
	}
	if said.UntilWall = 0; said.Until != 0 {
		said.UntilWall = e.Wall + int64(said.Until-n.clock.MonoAt(w.t))
	}
	e.Fields = logentry.Fields(e.Fields[:0], n.instance, &said)
	w.cfg.Log(e)
}

func reason(t *core.Tell) string {
	short := *t
	short.Text = cutText(t.Text)
	return logentry.Reason(&short)
}

// term returns the held term of a lease, or nil.
func (n *node) term(id string) (int32, *term) {
	i, ok := n.held[id]
	if !ok {
		return -1, nil
	}
	return i, &n.terms[i]
}

func (w *world) tellAcquired(n *node, t *core.Tell) {
	if _, ok := w.sessIdx[t.ID]; !ok {
		w.first("%s acquired %q, which is no session", n.instance, t.ID)
		w.out.Falls++
		return
	}
	w.over(n, t.ID, "superseded by its own next term")
	w.sayUntil(n, history.Acquired, t)
	w.hold(n, t)
}

func (w *world) hold(n *node, t *core.Tell) {
	s := w.sessIdx[t.ID]
	i := slot(&n.terms, &n.vacant)
	w.gens++
	w.out.Acquires++
	n.terms[i] = term{
		gen: w.gens, session: s, fence: t.Fence, until: t.Until, belief: policy.Belief{}.After(t), poll: -1,
	}
	n.held[t.ID] = i
	w.begins(believer{int32(n.slot - 1), i, w.gens}, s, t.Fence)
	if w.cfg.Hold > 0 {
		w.q.Push(loop.Event{At: w.t + int64(w.cfg.Hold), Kind: evHeld, Node: int32(n.slot - 1), Arg: i, Gen: w.gens})
	}
	if w.cfg.Poll > 0 && w.cfg.Intents == nil {
		w.takeOver(n, i)
		w.polling(n, i, n.terms[i].polls.Acquired(n.clock.MonoAt(w.t)), "")
	}
}

func (w *world) tellUncertain(n *node, t *core.Tell) {
	w.say(n, history.RenewFailed, t.ID, t.Fence, reason(t))
	if i, tm := n.term(t.ID); tm != nil {
		tm.belief = tm.belief.After(t)
		w.polling(n, i, tm.polls.Uncertain(n.clock.MonoAt(w.t), &w.timings), reason(t))
	}
}

func (w *world) tellRenewed(n *node, t *core.Tell) {
	i, tm := n.term(t.ID)
	w.sayUntil(n, history.Renewed, t)
	if tm == nil || tm.fence != t.Fence {
		w.first("%s renewed %s with fence %d, which it does not hold", n.instance, t.ID, t.Fence)
		w.out.Falls++
		return
	}
	w.out.Renewals++
	tm.until, tm.belief = t.Until, tm.belief.After(t)
	w.suspect(tm.session)
	w.polling(n, i, tm.polls.Renewed(), "")
}

func (w *world) over(n *node, id, why string) {
	i, tm := n.term(id)
	if tm == nil {
		return
	}
	if tm.polls.Over(n.clock.MonoAt(w.t), &w.timings).Cancel && !w.cancel(n, tm.poll, why) {
		n.left = append(n.left, leftover{tm.session, tm.poll, tm.polls})
	}
	w.ends(believer{int32(n.slot - 1), i, tm.gen}, tm.session)
	delete(n.held, id)
	tm.gen = 0
	n.vacant = append(n.vacant, i)
}

func (w *world) sayUntil(n *node, k history.Kind, t *core.Tell) {
	w.emit(history.Event{
		Kind: k, Node: n.name, Instance: n.instance, Session: t.ID, Fence: t.Fence,
		Until: n.clock.WindowEnd(w.t, t.Until, t.UntilWall),
	})
}

func (w *world) renewing(n *node, op *core.Op) {
	if !policy.Renews(op.Kind) {
		return
	}
	for _, it := range op.Items {
		w.say(n, history.RenewStart, it.ID, it.Fence, "")
		if _, tm := n.term(it.ID); tm != nil {
			tm.belief = tm.belief.During(op)
		}
	}
}
