package virtual

import (
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/history"
)

// poll is one poll from its start in a process to the end of its request.
type poll struct {
	gen      uint32 // 0: vacant
	node     int32
	term     int32
	termGen  uint32
	session  int32
	fence    int64
	id       string // of the session
	instance string
	arrival  int64 // the target's number, 0: not arrived
	accepted bool
	refused  bool // by the target, because of its fence
	over     bool // the process has given it up or is gone
}

// pollTable keeps polls without allocating one for each.
type pollTable struct {
	polls  []poll
	vacant []int32
}

func (p *pollTable) add(v poll) int32 {
	if k := len(p.vacant); k > 0 {
		i := p.vacant[k-1]
		p.vacant = p.vacant[:k-1]
		p.polls[i] = v
		return i
	}
	p.polls = append(p.polls, v)
	return int32(len(p.polls) - 1)
}

// get returns the poll if it is still the one that the event meant.
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

// pollDue begins the next poll of a term, if the trust window has room for it; else the next renewal asks again.
func (w *world) pollDue(n *node, ti int32, gen uint32) {
	if !n.alive || int(ti) >= len(n.terms) {
		return
	}
	t := &n.terms[ti]
	if t.gen != gen || t.yield || t.poll >= 0 {
		return
	}
	if t.fenced {
		w.step(n, core.Event{Kind: core.EvDrop, ID: w.sess[t.session].id, Cause: core.CauseRequested})
		return
	}
	fits := n.clock.monoAt(w.t)+core.Time(w.cfg.PollTimeout) <= t.until || w.cfg.LongPolls
	if !fits || !n.trusts(t, w.t) {
		t.due = true
		return
	}
	w.gens++
	w.out.Polls++
	id := w.sess[t.session].id
	pi := w.polls.add(poll{
		gen: w.gens, node: int32(n.slot - 1), term: ti, termGen: gen,
		session: t.session, fence: t.fence, id: id, instance: n.instance,
	})
	t.poll = pi
	w.say(n, history.PollStart, id, t.fence, "")
	if len(n.pauses) > 0 {
		n.paused = n.pauses[0]
		n.pauses = n.pauses[1:]
		w.say(n, history.Paused, id, t.fence, "")
		n.witness = t.session
		w.freeze(n)
		n.inbox = append(n.inbox, event{kind: evPollSend, node: int32(n.slot - 1), arg: pi, gen: w.gens})
		return
	}
	w.pollSent(pi, w.gens)
}

func (w *world) pollSent(pi int32, gen uint32) {
	if p := w.polls.get(pi, gen); p != nil {
		w.q.push(event{at: w.t + w.hop(), kind: evPollArrive, arg: pi, gen: gen})
	}
}

// hop is how long a message between an instance and the target takes. That network has no faults: what a partitioned
// instance can still reach is the dangerous case.
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
	back := event{kind: evPollEnd, node: p.node, arg: pi, gen: gen}
	if p.fence != 0 && p.fence < s.fence {
		ev.Kind, ev.Reason = history.Rejected, "an older fence than the highest seen"
		p.refused = true
		w.emit(ev)
		back.at = w.t + w.hop()
		w.q.push(back)
		return
	}
	p.accepted = true
	s.fence = max(s.fence, p.fence)
	w.emit(ev)
	serve := int64(w.cfg.Serve)/2 + upTo(w.load, int64(w.cfg.Serve))
	serve = max(serve, int64(s.slow))
	if s.hang == 0 {
		w.q.push(event{at: w.t + serve, kind: evPollServed, arg: pi, gen: gen})
	}
	if s.hang > 0 || serve >= int64(w.cfg.PollTimeout) {
		back.kind, back.at = evPollTimeout, w.t+int64(w.cfg.PollTimeout)
		w.q.push(back)
	}
}

// pollServed is the target's side of an end: it answered, or it noticed that the client went away.
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
	w.q.push(event{at: w.t + w.hop(), kind: evPollEnd, node: p.node, arg: pi, gen: gen})
}

// pollReturned is the process's side: the answer is there, or its time-out.
func (w *world) pollReturned(n *node, e *event) {
	p := w.polls.get(e.arg, e.gen)
	if p == nil || p.over || !n.alive {
		return
	}
	ti := p.term // removing the poll clears it
	t := &n.terms[ti]
	if t.gen != p.termGen {
		return
	}
	refused := p.refused
	if e.kind == evPollTimeout {
		w.cancel(n, e.arg, "time-out")
	} else {
		w.say(n, history.PollEnd, p.id, p.fence, "")
		w.polls.remove(e.arg)
		t.poll = -1
	}
	t.fenced = refused
	w.pollNext(n, ti, t)
}

// pollNext plans the term's next poll, in phase, or gives the lease back if that was asked.
func (w *world) pollNext(n *node, ti int32, t *term) {
	if t.yield {
		w.step(n, core.Event{Kind: core.EvDrop, ID: w.sess[t.session].id, Cause: t.cause})
		return
	}
	t.next += int64(w.cfg.Poll)
	if t.next < w.t {
		t.next += (w.t - t.next + int64(w.cfg.Poll) - 1) / int64(w.cfg.Poll) * int64(w.cfg.Poll)
	}
	w.q.push(event{at: t.next, kind: evPoll, node: int32(n.slot - 1), arg: ti, gen: t.gen})
}

// cancel ends a running poll's context: the process is done with it at once, the target notices soon.
func (w *world) cancel(n *node, pi int32, why string) {
	p := &w.polls.polls[pi]
	w.say(n, history.PollCancelled, p.id, p.fence, why)
	w.say(n, history.PollEnd, p.id, p.fence, why)
	n.terms[p.term].poll = -1
	w.hangUp(pi)
}

// hangUp is a client that goes away.
func (w *world) hangUp(pi int32) {
	p := &w.polls.polls[pi]
	p.over = true
	if p.arrival == 0 {
		// Still to arrive, or never sent: pollArrives or nobody takes it from here.
		return
	}
	w.gens++
	p.gen = w.gens // whatever else was under way for it is void
	if !p.accepted {
		w.polls.remove(pi)
		return
	}
	w.q.push(event{at: w.t + w.hop(), kind: evPollServed, arg: pi, gen: p.gen})
}

// thawWitness ends check-send: the lease passed on, so the frozen process may send what it had checked.
func (w *world) thawWitness(s int32, owner string) {
	for _, n := range w.nodes {
		if n.witness == s && n.frozen > 0 && n.instance != owner {
			n.witness = -1
			w.q.push(event{at: w.t + int64(5*time.Millisecond), kind: evFaultEnd, arg: n.paused})
		}
	}
}
