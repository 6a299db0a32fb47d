package virtual

import (
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// target serves the polls. It refuses a poll whose fence is older than another of its session.
type target struct {
	*timeline
	app     *application
	polls   []poll
	unused  []int32 // indexes of polls
	arrived int64   // number of polls that arrived
}

// poll is a poll from its start in a process to the end of its request.
type poll struct {
	gen      uint32 // 0: vacant
	node     int32
	term     int32
	termGen  uint32
	session  int32
	fence    int64
	id       string // of the session
	instance string
	ends     int64 // true time of its timeout; 0: set at the send
	arrival  int64 // number at the target; 0: not arrived
	accepted bool
	refused  bool // the target refused its fence
	ended    bool
	over     bool // the process has given it up or ended
}

func (tg *target) add(p poll) int32 {
	i := slot(&tg.polls, &tg.unused)
	tg.polls[i] = p
	return i
}

func (tg *target) get(i int32, gen uint32) *poll {
	if v := &tg.polls[i]; v.gen == gen {
		return v
	}
	return nil
}

func (tg *target) remove(i int32) {
	tg.polls[i] = poll{}
	tg.unused = append(tg.unused, i)
}

func (tg *target) send(pi int32, gen uint32) {
	if p := tg.get(pi, gen); p != nil {
		if p.ends == 0 {
			p.ends = tg.t + int64(tg.cfg.PollTimeout)
		}
		tg.q.Push(loop.Event{At: tg.t + tg.hop(), Kind: evPollArrive, Arg: pi, Gen: gen})
	}
}

func (tg *target) arrives(pi int32, gen uint32) {
	p := tg.get(pi, gen)
	if p == nil {
		return
	}
	if p.over {
		tg.remove(pi) // withdrawn before it arrived
		return
	}
	s := &tg.app.sessions[p.session]
	tg.arrived++
	p.arrival = tg.arrived
	ev := history.Event{
		Kind: history.Arrived, Session: p.id, Instance: p.instance, Fence: p.fence, N: p.arrival,
	}
	back := loop.Event{Kind: evPollEnd, Node: p.node, Arg: pi, Gen: gen}
	if p.fence != 0 && p.fence < s.fence {
		ev.Kind, ev.Reason = history.Rejected, "an older fence than the highest seen"
		p.refused = true
		tg.emit(ev)
		back.At = tg.t + tg.hop()
		tg.q.Push(back)
		return
	}
	p.accepted = true
	s.fence = max(s.fence, p.fence)
	tg.emit(ev)
	serve := int64(tg.cfg.Serve)/2 + upTo(tg.load, int64(tg.cfg.Serve))
	serve = max(serve, int64(s.slow))
	if s.hang == 0 {
		tg.q.Push(loop.Event{At: tg.t + serve, Kind: evPollServed, Arg: pi, Gen: gen})
	}
	if s.hang > 0 || tg.t+serve+int64(tg.cfg.Net.Delay+tg.cfg.Net.Jitter) >= p.ends {
		back.Kind, back.At = evPollTimeout, max(tg.t, p.ends)
		tg.q.Push(back)
	}
}

// serves ends a poll: the target answers, or notices that the client has gone.
func (tg *target) serves(pi int32, gen uint32) {
	p := tg.get(pi, gen)
	if p == nil {
		return
	}
	ev := history.Event{Kind: history.Served, Session: p.id, Instance: p.instance, N: p.arrival}
	if p.over {
		ev.Kind = history.Aborted
		tg.emit(ev)
		tg.remove(pi)
		return
	}
	p.accepted = false // served: nothing is left to abort
	tg.emit(ev)
	tg.q.Push(loop.Event{At: tg.t + tg.hop(), Kind: evPollEnd, Node: p.node, Arg: pi, Gen: gen})
}

func (tg *target) hangUp(pi int32) {
	p := &tg.polls[pi]
	p.over = true
	if p.arrival == 0 {
		return // arrives removes it, if it was sent
	}
	tg.gens++
	p.gen = tg.gens // invalidates its other events
	if !p.accepted {
		tg.remove(pi)
		return
	}
	tg.q.Push(loop.Event{At: tg.t + tg.hop(), Kind: evPollServed, Arg: pi, Gen: p.gen})
}
