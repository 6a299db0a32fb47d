package virtual

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

func (p *pollTable) get(i int32, gen uint32) *poll {
	if v := &p.polls[i]; v.gen == gen {
		return v
	}
	return nil
}

func (p *pollTable) remove(i int32) {
	p.polls[i] = poll{}
	p.vacant = append(p.vacant, i)
}

func (w *world) pollDue(n *node, ti int32, gen uint32) {
	if !n.alive || int(ti) >= len(n.terms) {
		return
	}
	t := &n.terms[ti]
	if t.gen == gen && !t.polls.Running() {
		w.polling(n, ti, t.polls.Due(n.clock.MonoAt(w.t), t.until, n.trusts(t, w.t), &w.timings), "")
	}
}

// polling carries out a poller's decision. Polls here return by their timeout, so none is stuck.
func (w *world) polling(n *node, ti int32, s policy.Step, why string) {
	t := &n.terms[ti]
	switch {
	case s.Cancel:
		if w.cancel(n, t.poll, why) {
			t.poll = -1
			w.polling(n, ti, t.polls.Returned(policy.Polled), "")
		}
	case s.Begin:
		w.beginPoll(n, ti)
	case s.Yield, s.Drop:
		w.drop(n, w.sess[t.session].id)
	case s.Wake != 0:
		w.q.Push(loop.Event{At: n.clock.When(w.t, s.Wake), Kind: evPoll, Node: int32(n.slot - 1), Arg: ti, Gen: t.gen})
	}
}

func (w *world) beginPoll(n *node, ti int32) {
	t := &n.terms[ti]
	w.gens++
	w.out.Polls++
	id := w.sess[t.session].id
	pi := slot(&w.polls.polls, &w.polls.vacant)
	w.polls.polls[pi] = poll{
		gen: w.gens, node: int32(n.slot - 1), term: ti, termGen: t.gen, ends: n.clock.When(w.t, t.polls.Ends),
		session: t.session, fence: t.fence, id: id, instance: n.instance,
	}
	t.poll = pi
	w.say(n, history.PollStart, id, t.fence, "")
	if len(n.pauses) > 0 {
		n.paused = n.pauses[0]
		n.pauses = n.pauses[1:]
		w.say(n, history.Paused, id, t.fence, "")
		n.witness = t.session
		w.polls.polls[pi].ends = 0
		n.frozen++
		n.inbox = append(n.inbox, loop.Event{Kind: evPollSend, Node: int32(n.slot - 1), Arg: pi, Gen: w.gens})
		return
	}
	w.pollSent(pi, w.gens)
}

func (w *world) pollSent(pi int32, gen uint32) {
	if p := w.polls.get(pi, gen); p != nil {
		if p.ends == 0 {
			p.ends = w.t + int64(w.cfg.PollTimeout)
		}
		w.q.Push(loop.Event{At: w.t + w.hop(), Kind: evPollArrive, Arg: pi, Gen: gen})
	}
}

// hop is the delay to the target. This network has no faults, because a cut-off instance that reaches its target is the dangerous case.
func (w *world) hop() int64 {
	return int64(w.cfg.Net.Delay) + upTo(w.load, int64(w.cfg.Net.Jitter))
}

func (w *world) pollArrives(pi int32, gen uint32) {
	p := w.polls.get(pi, gen)
	if p == nil {
		return
	}
	if p.over {
		w.polls.remove(pi) // withdrawn before it arrived
		return
	}
	s := &w.sess[p.session]
	w.arrived++
	p.arrival = w.arrived
	ev := history.Event{
		Kind: history.Arrived, Session: p.id, Instance: p.instance, Fence: p.fence, N: p.arrival,
	}
	back := loop.Event{Kind: evPollEnd, Node: p.node, Arg: pi, Gen: gen}
	if p.fence != 0 && p.fence < s.fence {
		ev.Kind, ev.Reason = history.Rejected, "an older fence than the highest seen"
		p.refused = true
		w.emit(ev)
		back.At = w.t + w.hop()
		w.q.Push(back)
		return
	}
	p.accepted = true
	s.fence = max(s.fence, p.fence)
	w.emit(ev)
	serve := int64(w.cfg.Serve)/2 + upTo(w.load, int64(w.cfg.Serve))
	serve = max(serve, int64(s.slow))
	if s.hang == 0 {
		w.q.Push(loop.Event{At: w.t + serve, Kind: evPollServed, Arg: pi, Gen: gen})
	}
	if s.hang > 0 || w.t+serve+int64(w.cfg.Net.Delay+w.cfg.Net.Jitter) >= p.ends {
		back.Kind, back.At = evPollTimeout, max(w.t, p.ends)
		w.q.Push(back)
	}
}

// pollServed ends a poll at the target: it answers, or notices that the client has gone.
func (w *world) pollServed(pi int32, gen uint32) {
	p := w.polls.get(pi, gen)
	if p == nil {
		return
	}
	ev := history.Event{Kind: history.Served, Session: p.id, Instance: p.instance, N: p.arrival}
	if p.over {
		ev.Kind = history.Aborted
		w.emit(ev)
		w.polls.remove(pi)
		return
	}
	p.accepted = false // served: nothing is left to abort
	w.emit(ev)
	w.q.Push(loop.Event{At: w.t + w.hop(), Kind: evPollEnd, Node: p.node, Arg: pi, Gen: gen})
}

func (w *world) pollReturned(n *node, e *loop.Event) {
	p := w.polls.get(e.Arg, e.Gen)
	if p == nil || p.over || !n.alive {
		return
	}
	result := policy.Polled
	if p.refused {
		result = policy.Fenced
	}
	was := *p // removing the poll clears it
	if e.Kind == evPollTimeout {
		w.cancel(n, e.Arg, timedOut)
	} else {
		w.say(n, history.PollEnd, p.id, p.fence, "")
		w.polls.remove(e.Arg)
	}
	if t := &n.terms[was.term]; t.gen == was.termGen {
		t.poll = -1
		w.polling(n, was.term, t.polls.Returned(result), "")
		return
	}
	n.left = slices.DeleteFunc(n.left, func(l leftover) bool { return l.poll == e.Arg })
}

func (w *world) takeOver(n *node, ti int32) {
	t := &n.terms[ti]
	i := slices.IndexFunc(n.left, func(l leftover) bool { return l.session == t.session })
	if i < 0 {
		return
	}
	t.poll, t.polls = n.left[i].poll, n.left[i].polls
	p := &w.polls.polls[t.poll]
	p.term, p.termGen = ti, t.gen
	n.left = slices.Delete(n.left, i, i+1)
}

const timedOut = "time-out"

// cancel ends a running poll's context and reports whether the poll returned. A heedless poll continues until its end or timeout.
func (w *world) cancel(n *node, pi int32, why string) (returned bool) {
	p := &w.polls.polls[pi]
	if !p.ended {
		p.ended = true
		w.say(n, history.PollCancelled, p.id, p.fence, why)
	}
	if w.sess[p.session].heedless && why != timedOut {
		return false
	}
	w.say(n, history.PollEnd, p.id, p.fence, why)
	w.hangUp(pi)
	return true
}

func (w *world) hangUp(pi int32) {
	p := &w.polls.polls[pi]
	p.over = true
	if p.arrival == 0 {
		return // pollArrives removes it, if it was sent
	}
	w.gens++
	p.gen = w.gens // invalidates its other events
	if !p.accepted {
		w.polls.remove(pi)
		return
	}
	w.q.Push(loop.Event{At: w.t + w.hop(), Kind: evPollServed, Arg: pi, Gen: p.gen})
}

// thawWitness ends check-send: once the lease has another owner, the frozen process resumes and sends its poll.
func (w *world) thawWitness(s int32, owner string) {
	for _, n := range w.nodes {
		if n.witness == s && n.frozen > 0 && n.instance != owner {
			n.witness = -1
			w.q.Push(loop.Event{At: w.t + int64(5*time.Millisecond), Kind: evFaultEnd, Arg: n.paused})
		}
	}
}
