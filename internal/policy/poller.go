package policy

import "github.com/leasestorm/leasestorm/internal/core"

// Polls are the timings of the polls of a session, in ns.
type Polls struct {
	Interval core.Time // between the planned begins of two polls
	Timeout  core.Time // of one poll, from its begin
	Stuck    core.Time // a poll that has not returned that long after its context ended is stuck
	Long     bool      // polls may outlast the trust window as long as renewals succeed
}

// Poller decides over the polls of one session in one instance: one at a time, under a term that is believed, and none that would
// outlast the trust window. The term goes when the poll that runs has returned (G2, G4, G8). The zero value has no term.
type Poller struct {
	Next    core.Time // the next poll is planned for then
	Ends    core.Time // the context of the poll that runs ends then at the latest
	planned core.Time // what Next was before the poll that runs

	held     bool // there is a term
	yielding bool // nothing new begins; the term is given back once no poll runs
	fenced   bool // the target refused the term's fence: the term is dropped when the next poll would begin
	waiting  bool // a poll is due and waits for the next renewal
	running  bool // a poll has begun and not returned
	earlier  bool // it runs under a term that is over
	stuck    bool // it did not return in time
}

// Step is what is to be done now, in this order.
type Step struct {
	Cancel  bool // end the context of the poll that runs
	Begin   bool // begin a poll, whose context ends at Poller.Ends
	Recover bool // the work that was abandoned has returned
	Abandon bool // the work under the present term is stuck: it is neither renewed nor released
	Yield   bool // give the term back, as was asked: while that stands
	Drop    bool // give the term back
	Forget  bool // nothing is left of the session here

	Wake core.Time // call Due then, or when an earlier Wake has come; 0: the Wake before stands
}

// Running reports whether a poll has begun and not returned.
func (p *Poller) Running() bool { return p.running }

// Held reports whether there is a term.
func (p *Poller) Held() bool { return p.held }

// Acquired begins a term at that time.
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

// Renewed says that the term was renewed.
func (p *Poller) Renewed() Step {
	if !p.waiting {
		return Step{}
	}
	p.waiting = false
	return Step{Wake: p.Next}
}

// Uncertain says that a renewal failed.
func (p *Poller) Uncertain(now core.Time, c *Polls) Step { return p.cancel(now, c) }

// Over says that the term was lost or released.
func (p *Poller) Over(now core.Time, c *Polls) Step {
	p.held, p.waiting = false, false
	if !p.running {
		return Step{Forget: true}
	}
	p.earlier = true
	return p.cancel(now, c)
}

// Yield says that the term is to be given back once its work has ended.
func (p *Poller) Yield() Step {
	p.yielding = true
	return Step{Yield: !p.running}
}

// Kept takes a Yield back. Where no poll runs the term was given back too late to count.
func (p *Poller) Kept() Step {
	p.yielding = false
	if p.running {
		return Step{}
	}
	return Step{Wake: p.Next}
}

// Stop says that the poll that runs has had all the time it gets.
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

// Due is called when a Wake has come. believed says whether the term is believed now, and until is the end of its trust window.
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

// watch gives up the term of a poll that does not return.
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

// begin plans the poll after the one that begins from when that was planned, so that the phase stays. What was missed is not made
// up for.
func (p *Poller) begin(now core.Time, c *Polls) Step {
	p.planned = p.Next
	p.Next += (now-p.Next)/c.Interval*c.Interval + c.Interval
	p.Ends = now + c.Timeout
	p.running, p.earlier = true, false
	return Step{Begin: true, Wake: p.Ends + c.Stuck}
}

// Result is how a poll returned.
type Result uint8

// The results.
const (
	Polled  Result = iota // it was carried out, whatever came of it
	Unbegun               // when its turn came its term was not believed any more, so nothing was sent
	Fenced                // the target refused its fence
)

// Turn reports whether a poll that has begun may be sent now that its turn has come: on a loaded machine its term may be gone by
// then (G4).
func Turn(believed, cancelled bool) bool { return believed && !cancelled }

// Returned says that the poll has returned. Who gave a term back at once because its fence was refused could have it again at once,
// for as long as the target refuses.
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
