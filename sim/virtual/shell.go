package virtual

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// shell is the part of a process that carries out what its core tells: the terms, their trust and their polls.
type shell struct {
	*fleet
	n      *node
	terms  []term
	vacant []int32
	held   map[string]int32 // lease → index in terms; never ranged over
	left   []leftover
}

type term struct {
	gen     uint32 // 0: vacant
	session int32
	fence   int64
	until   core.Time // end of the trust window
	belief  policy.Belief
	polls   policy.Poller
	poll    int32 // running poll; -1: none
}

// leftover is a poll that outlasts its term. The session's next term in this process takes over the poll.
type leftover struct {
	session int32
	poll    int32
	polls   policy.Poller
}

// told carries out a tell as the production shell does: first the trust table, then its dependents.
func (sh *shell) told(t *core.Tell) {
	sh.log(t)
	sh.carryOut(t)
	if sh.n.program != nil {
		sh.n.program.told(t)
	}
}

func (sh *shell) carryOut(t *core.Tell) {
	switch t.Kind {
	case core.TellAcquired:
		sh.tellAcquired(t)
	case core.TellRefused:
		sh.n.say(history.AcquireFailed, t.ID, t.Fence, reason(t))
	case core.TellRenewed:
		sh.tellRenewed(t)
	case core.TellUncertain:
		sh.tellUncertain(t)
	case core.TellLost, core.TellReleased:
		kind := history.Lost
		if t.Kind == core.TellReleased {
			kind = history.Released
		}
		sh.n.say(kind, t.ID, t.Fence, reason(t))
		sh.over(t.ID, reason(t))
		if s, ok := sh.app.index[t.ID]; ok && sh.cfg.Candidates && sh.n.program == nil {
			sh.n.inProcess(int64(sh.cfg.Rest), func() { sh.n.want(sh.app.sessions[s].id) })
		}
	case core.TellYield:
		if sh.cfg.Intents == nil { // a worker releases its leases itself or lets them expire
			sh.yield(t.ID)
		}
	case core.TellKept:
		if i, tm := sh.term(t.ID); tm != nil {
			sh.polling(i, tm.polls.Kept(), "")
		}
	case core.TellDrained:
		if sh.n.program != nil && sh.n.program.drained() {
			return
		}
		sh.n.stopped()
	}
}

func (sh *shell) log(t *core.Tell) {
	level, message, ok := logentry.Head(t)
	if !ok || sh.cfg.Log == nil {
		return
	}
	e := &sh.entry
	e.Node, e.Wall, e.Level, e.Message = sh.n.name, sh.n.clock.WallAt(sh.t), level, message
	said := *t
	if _, tm := sh.term(t.ID); tm != nil && (t.Kind == core.TellLost || t.Kind == core.TellReleased) {
		said.Until = tm.until
	}
	if said.UntilWall = 0; said.Until != 0 {
		said.UntilWall = e.Wall + int64(said.Until-sh.n.mono())
	}
	e.Fields = logentry.Fields(e.Fields[:0], sh.n.instance, &said)
	sh.cfg.Log(e)
}

func reason(t *core.Tell) string {
	short := *t
	short.Text = cutText(t.Text)
	return logentry.Reason(&short)
}

// term returns the held term of a lease, or nil.
func (sh *shell) term(id string) (int32, *term) {
	i, ok := sh.held[id]
	if !ok {
		return -1, nil
	}
	return i, &sh.terms[i]
}

func (sh *shell) tellAcquired(t *core.Tell) {
	if _, ok := sh.app.index[t.ID]; !ok {
		sh.oracle.first("%s acquired %q, which is no session", sh.n.instance, t.ID)
		sh.out.Falls++
		return
	}
	sh.over(t.ID, "superseded by its own next term")
	sh.sayUntil(history.Acquired, t)
	sh.hold(t)
}

func (sh *shell) hold(t *core.Tell) {
	s := sh.app.index[t.ID]
	i := slot(&sh.terms, &sh.vacant)
	sh.gens++
	sh.out.Acquires++
	sh.terms[i] = term{
		gen: sh.gens, session: s, fence: t.Fence, until: t.Until, belief: policy.Belief{}.After(t), poll: -1,
	}
	sh.held[t.ID] = i
	sh.oracle.begins(believer{int32(sh.n.slot - 1), i, sh.gens}, s, t.Fence)
	if sh.cfg.Hold > 0 {
		id, gen := t.ID, sh.gens
		sh.n.inProcess(int64(sh.cfg.Hold), func() {
			if sh.terms[i].gen == gen {
				sh.n.drop(id)
			}
		})
	}
	if sh.cfg.Poll > 0 && sh.cfg.Intents == nil {
		sh.takeOver(i)
		sh.polling(i, sh.terms[i].polls.Acquired(sh.n.mono()), "")
	}
}

func (sh *shell) tellUncertain(t *core.Tell) {
	sh.n.say(history.RenewFailed, t.ID, t.Fence, reason(t))
	if i, tm := sh.term(t.ID); tm != nil {
		tm.belief = tm.belief.After(t)
		sh.polling(i, tm.polls.Uncertain(sh.n.mono(), &sh.timings), reason(t))
	}
}

func (sh *shell) tellRenewed(t *core.Tell) {
	i, tm := sh.term(t.ID)
	sh.sayUntil(history.Renewed, t)
	if tm == nil || tm.fence != t.Fence {
		sh.oracle.first("%s renewed %s with fence %d, which it does not hold", sh.n.instance, t.ID, t.Fence)
		sh.out.Falls++
		return
	}
	sh.out.Renewals++
	tm.until, tm.belief = t.Until, tm.belief.After(t)
	sh.oracle.suspect(tm.session)
	sh.polling(i, tm.polls.Renewed(), "")
}

func (sh *shell) over(id, why string) {
	i, tm := sh.term(id)
	if tm == nil {
		return
	}
	if tm.polls.Over(sh.n.mono(), &sh.timings).Cancel && !sh.cancel(tm.poll, why) {
		sh.left = append(sh.left, leftover{tm.session, tm.poll, tm.polls})
	}
	sh.oracle.ends(believer{int32(sh.n.slot - 1), i, tm.gen}, tm.session)
	delete(sh.held, id)
	tm.gen = 0
	sh.vacant = append(sh.vacant, i)
}

func (sh *shell) sayUntil(k history.Kind, t *core.Tell) {
	sh.emit(history.Event{
		Kind: k, Node: sh.n.name, Instance: sh.n.instance, Session: t.ID, Fence: t.Fence,
		Until: sh.n.clock.WindowEnd(sh.t, t.Until, t.UntilWall),
	})
}

func (sh *shell) renewing(op *core.Op) {
	if !policy.Renews(op.Kind) {
		return
	}
	for _, it := range op.Items {
		sh.n.say(history.RenewStart, it.ID, it.Fence, "")
		if _, tm := sh.term(it.ID); tm != nil {
			tm.belief = tm.belief.During(op)
		}
	}
}

// trusts mirrors the library's IsOwned.
func (sh *shell) trusts(t *term, at int64) bool {
	return t.gen != 0 && t.belief.Holds(sh.n.clock.Now(at))
}

// yield lets the running poll end, then releases the lease.
func (sh *shell) yield(id string) {
	if i, tm := sh.term(id); tm != nil {
		sh.polling(i, tm.polls.Yield(), "")
		return
	}
	sh.n.drop(id)
}

// die ends all terms and polls with the process.
func (sh *shell) die() {
	for i := range sh.terms {
		t := &sh.terms[i]
		if t.gen == 0 {
			continue
		}
		if t.poll >= 0 {
			sh.target.hangUp(t.poll)
		}
		sh.oracle.ends(believer{int32(sh.n.slot - 1), int32(i), t.gen}, t.session)
		t.gen = 0
	}
	for i := range sh.left {
		sh.target.hangUp(sh.left[i].poll)
	}
}

func (sh *shell) pollDue(ti int32, gen uint32) {
	if !sh.n.alive || int(ti) >= len(sh.terms) {
		return
	}
	t := &sh.terms[ti]
	if t.gen == gen && !t.polls.Running() {
		sh.polling(ti, t.polls.Due(sh.n.mono(), t.until, sh.trusts(t, sh.t), &sh.timings), "")
	}
}

// polling carries out a poller's decision. In this engine, every poll returns by its timeout, so no poll is stuck.
func (sh *shell) polling(ti int32, s policy.Step, why string) {
	t := &sh.terms[ti]
	switch {
	case s.Cancel:
		if sh.cancel(t.poll, why) {
			t.poll = -1
			sh.polling(ti, t.polls.Returned(policy.Polled), "")
		}
	case s.Begin:
		sh.beginPoll(ti)
	case s.Yield, s.Drop:
		sh.n.drop(sh.app.sessions[t.session].id)
	case s.Wake != 0:
		sh.q.Push(loop.Event{At: sh.n.clock.When(sh.t, s.Wake), Kind: evPoll, Node: int32(sh.n.slot - 1), Arg: ti, Gen: t.gen})
	}
}

func (sh *shell) beginPoll(ti int32) {
	t := &sh.terms[ti]
	sh.gens++
	sh.out.Polls++
	id := sh.app.sessions[t.session].id
	pi := sh.target.add(poll{
		gen: sh.gens, node: int32(sh.n.slot - 1), term: ti, termGen: t.gen, ends: sh.n.clock.When(sh.t, t.polls.Ends),
		session: t.session, fence: t.fence, id: id, instance: sh.n.instance,
	})
	t.poll = pi
	sh.n.say(history.PollStart, id, t.fence, "")
	if sh.n.freezes(id, t.fence, t.session) {
		sh.target.polls[pi].ends = 0
		sh.n.inbox = append(sh.n.inbox, loop.Event{Kind: evPollSend, Node: int32(sh.n.slot - 1), Arg: pi, Gen: sh.gens})
		return
	}
	sh.target.send(pi, sh.gens)
}

func (sh *shell) pollReturned(e *loop.Event) {
	if g, ok := sh.n.program.(*guestNode); ok {
		g.polled(e)
		return
	}
	p := sh.target.get(e.Arg, e.Gen)
	if p == nil || p.over || !sh.n.alive {
		return
	}
	result := policy.Polled
	if p.refused {
		result = policy.Fenced
	}
	was := *p // removing the poll clears it
	if e.Kind == evPollTimeout {
		sh.cancel(e.Arg, timedOut)
	} else {
		sh.n.say(history.PollEnd, p.id, p.fence, "")
		sh.target.remove(e.Arg)
	}
	if t := &sh.terms[was.term]; t.gen == was.termGen {
		t.poll = -1
		sh.polling(was.term, t.polls.Returned(result), "")
		return
	}
	sh.left = slices.DeleteFunc(sh.left, func(l leftover) bool { return l.poll == e.Arg })
}

func (sh *shell) takeOver(ti int32) {
	t := &sh.terms[ti]
	i := slices.IndexFunc(sh.left, func(l leftover) bool { return l.session == t.session })
	if i < 0 {
		return
	}
	t.poll, t.polls = sh.left[i].poll, sh.left[i].polls
	p := &sh.target.polls[t.poll]
	p.term, p.termGen = ti, t.gen
	sh.left = slices.Delete(sh.left, i, i+1)
}

const timedOut = "time-out"

// cancel ends a running poll's context and reports whether the poll returned. A heedless poll continues until its end or timeout.
func (sh *shell) cancel(pi int32, why string) (returned bool) {
	p := &sh.target.polls[pi]
	if !p.ended {
		p.ended = true
		sh.n.say(history.PollCancelled, p.id, p.fence, why)
	}
	if sh.app.sessions[p.session].heedless && why != timedOut {
		return false
	}
	sh.n.say(history.PollEnd, p.id, p.fence, why)
	sh.target.hangUp(pi)
	return true
}
