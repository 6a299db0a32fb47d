package policy

import "github.com/leasestorm/leasestorm/internal/core"

// Polls are the timings of the polls of a session, in ns.
type Polls struct {
	Interval core.Time // between the planned starts of two polls
	Timeout  core.Time // of one poll, from its start
	Stuck    core.Time // after its context ended, until a poll that has not returned is stuck
	Long     bool      // polls may outlast the trust window as long as renewals succeed
}

// Poller decides about the polls of one session in one instance. Polls run one at a time, under a believed term. Without
// Polls.Long, no poll begins that could outlast the trust window. The term is released only after the running poll has returned
// (G2, G4, G8). The zero value has no term. Not safe for concurrent use.
type Poller struct {
	Next    core.Time // planned start of the next poll
	Ends    core.Time // latest end of the running poll's context
	planned core.Time // planned start of the running poll

	held     bool // there is a term
	yielding bool // no poll begins; the term is released once no poll runs
	fenced   bool // the target refused the term's fence: the term is dropped when the next poll would begin
	waiting  bool // a poll is due and waits for the next renewal
	running  bool // a poll has begun and not returned
	earlier  bool // the running poll belongs to a term that is over
	stuck    bool // the running poll did not return in time
}

// Step is what the shell must do now, in this order.
type Step struct {
	Cancel  bool // end the context of the running poll
	Begin   bool // begin a poll, whose context ends at Poller.Ends
	Recover bool // report that the abandoned work has returned
	Abandon bool // abandon the present term, whose work is stuck: neither renew nor release it
	Yield   bool // release the term, unless the yield was revoked
	Drop    bool // release the term
	Forget  bool // drop the session: it has neither a term nor a poll

	Wake core.Time // when to call Due, unless an earlier Wake is set; 0: the previous Wake remains
}

// Running reports whether a poll has begun and not returned.
func (p *Poller) Running() bool { return p.running }

// Held reports whether there is a term.
func (p *Poller) Held() bool { return p.held }

// Acquired begins a term at at.
func (p *Poller) Acquired(at core.Time) Step {
	p.held, p.yielding, p.fenced, p.waiting, p.Next = true, false, false, false, at
	p.earlier = p.running
	switch {
	case p.stuck:
		return Step{Abandon: true} // the poll of an earlier term
	case p.running:
		return Step{} // it returns soon
	}
	return Step{Wake: at}
}

// Renewed handles a renewal of the term.
func (p *Poller) Renewed() Step {
	if !p.waiting {
		return Step{}
	}
	p.waiting = false
	return Step{Wake: p.Next}
}

// Uncertain handles a failed renewal.
func (p *Poller) Uncertain(now core.Time, c *Polls) Step { return p.cancel(now, c) }

// Over handles the end of the term, which was lost or released.
func (p *Poller) Over(now core.Time, c *Polls) Step {
	p.held, p.waiting = false, false
	if !p.running {
		return Step{Forget: true}
	}
	p.earlier = true
	return p.cancel(now, c)
}

// Yield handles a request to release the term once its work has ended.
func (p *Poller) Yield() Step {
	p.yielding = true
	return Step{Yield: !p.running}
}

// Kept revokes a Yield. If no poll runs, the term was not released in time, and polling goes on.
func (p *Poller) Kept() Step {
	p.yielding = false
	if p.running {
		return Step{}
	}
	return Step{Wake: p.Next}
}

// Stop ends the running poll now.
func (p *Poller) Stop(now core.Time, c *Polls) Step { return p.cancel(now, c) }

func (p *Poller) cancel(now core.Time, c *Polls) Step {
	if !p.running {
		return Step{}
	}
	s := Step{Cancel: true}
	if now < p.Ends {
		p.Ends = now
		s.Wake = now + c.Stuck
	}
	return s
}

// Due handles a Wake. believed is whether the term is believed now; until is the end of its trust window.
func (p *Poller) Due(now, until core.Time, believed bool, c *Polls) Step {
	switch {
	case p.running:
		return p.watch(now, c)
	case !p.held || p.yielding:
	case now < p.Next:
		return Step{Wake: p.Next}
	case p.fenced:
		return Step{Drop: true}
	case !believed, !c.Long && now+c.Timeout > until:
		p.waiting = true
	default:
		return p.begin(now, c)
	}
	return Step{}
}

func (p *Poller) watch(now core.Time, c *Polls) Step {
	stuckAt := p.Ends + c.Stuck
	switch {
	case p.stuck:
		return Step{}
	case now < stuckAt:
		return Step{Wake: stuckAt}
	}
	p.stuck = true
	return Step{Abandon: true}
}

// begin begins a poll. It plans the next one by the planned start of this one, so that the phase stays the same. Missed polls are skipped.
func (p *Poller) begin(now core.Time, c *Polls) Step {
	p.planned = p.Next
	p.Next += (now-p.Next)/c.Interval*c.Interval + c.Interval
	p.Ends = now + c.Timeout
	p.running, p.earlier = true, false
	return Step{Begin: true, Wake: p.Ends + c.Stuck}
}

// Result is the result of a poll.
type Result uint8

// The results.
const (
	Polled  Result = iota // it ran, with or without success
	Unbegun               // it did not run, because its term was no longer believed at its turn
	Fenced                // the target refused its fence
)

// Turn reports whether a begun poll may still run when its goroutine runs: on a loaded machine, its term may have ended in between
// (G4).
func Turn(believed, cancelled bool) bool { return believed && !cancelled }

// Returned handles the end of a poll. After a refused fence it releases the term not at once but when the next poll would begin.
// Otherwise the instance could acquire the lease again at once, over and over, for as long as the target refuses.
func (p *Poller) Returned(r Result) Step {
	s := Step{Recover: p.stuck}
	same := p.held && !p.earlier
	p.running, p.stuck, p.earlier = false, false, false
	if r == Unbegun && same {
		p.Next = p.planned
	}
	switch {
	case !p.held:
		s.Forget = true
	case p.yielding:
		s.Yield = true
	default:
		p.fenced = r == Fenced && same
		s.Wake = p.Next
	}
	return s
}
