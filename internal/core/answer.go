package core

import (
	"github.com/leasestorm/leasestorm/internal/place"
	"github.com/leasestorm/leasestorm/internal/term"
)

// answer handles the answer to an op. These checks come first, in this order, whatever the op is:
//
//  1. the op is under way
//  2. the kernel believes the answer, and enough replicas acknowledged the op (judged)
//  3. the answer may end a silence (heard)
//  4. it may show another epoch, or a jump of Redis' clock (learn)
//  5. requests of its kind go on at full speed if the op had an effect (settled)
func (c *Core) answer(a *Answer) {
	op, ok := c.req.underWay.take(a.Seq)
	if !ok {
		return // the op timed out, and its leases are requested again or have expired
	}
	in, about := &op, a.about()
	if a = c.judged(in, a, about); a.Failure != FailNone {
		c.failed(in, a)
		return
	}
	c.req.took = int64(c.k.Now() - in.op.Sent)
	c.heard(in)
	c.learn(in, a, about)
	if c.paces.settled(in, a) && in.op.Kind == OpBeat { // without a heartbeat, the others may have released nothing to it
		c.table.CountedAgain()
	}
	for len(a.Results) < len(in.op.Items) {
		a.Results = append(a.Results, Result{})
	}
	switch in.op.Kind {
	case OpAcquire:
		c.keeper.acquireAnswered(in, a)
	case OpRenew, OpReassert:
		c.holder.renewAnswered(in, a)
	case OpRelease:
		c.keeper.releaseAnswered(in, a)
	case OpObserve:
		c.keeper.observeAnswered(in, a)
	case OpBeat:
		c.own.BeatAnswered(a.Stale)
	case OpNodes:
		c.heartbeats.answered(in, a)
	case OpLook:
		c.balancer.lookAnswered(in, a)
	case OpNews:
		c.balancer.newsAnswered(in, a)
	case OpLeave:
		if a.Stale {
			c.own.LeaveFailed()
		}
	case OpAsk, OpSupersede:
	}
}

// judged returns a if it is believed and counts, and otherwise a failed answer.
func (c *Core) judged(in *inflight, a *Answer, about *term.Answer) *Answer {
	if a.Failure != FailNone {
		return a
	}
	v := c.k.Judge(&in.op, about)
	if v.Cause != CauseNone && c.k.Reject(&in.op, about) {
		c.tells.tell(Tell{Kind: TellRejected, Cause: v.Cause, Text: a.Epoch, Wait: a.Group})
	}
	return a.worth(v)
}

// heard sends the requests that a silence has held back if the answer to in ends the silence.
func (c *Core) heard(in *inflight) {
	if c.silence.heard(in, c.nextRenew) {
		c.keeper.observeWanted()
		c.table.Discover(place.DiscoverHeard)
		c.holder.catchUp()
	}
}

// learn updates Redis' clock and epoch from an answer. If Redis lost its data, learn doubts all held terms and starts a discovery.
func (c *Core) learn(in *inflight, a *Answer, about *term.Answer) {
	news := c.k.Learn(&in.op, about)
	if news.Jump != 0 {
		c.tells.tell(Tell{Kind: TellClock, Cause: CauseFailed, Wait: news.Jump, Text: "redis"})
	}
	if news.Epoch == term.EpochSame {
		return
	}
	c.tells.tell(Tell{Kind: TellEpoch, Cause: news.Cause, Text: a.Epoch, Wait: a.Quarantine})
	if c.k.Outside() {
		c.tells.tell(Tell{Kind: TellOutside, Cause: CauseGroup, Wait: a.Group})
	}
	if news.Epoch == term.EpochFirst {
		return
	}
	c.holder.forgotten(a.Epoch)
	if news.Open {
		c.keeper.observeWanted() // the quarantine ended early, and waiters wait for its planned end
	}
	c.own.Refresh()
	c.table.Unread()
	c.table.Discover(place.DiscoverEpoch)
}

// failed handles an op without a result that counts.
func (c *Core) failed(in *inflight, a *Answer) {
	cause := CauseFailed
	switch a.Failure {
	case FailUnknown:
		cause = CauseNoAnswer
	case FailUncounted:
		cause = CauseUncounted
	}
	first := !c.silence.on
	c.paces.setback(in, a.Failure != FailRefused && a.Failure != FailUncounted)
	c.paces.refusedBy(in, a)
	if look := c.table.UnderWay(); c.silence.unanswered(in, a) && look != 0 {
		c.table.LookFailed(look) // its answer may come long after the fault; a new discovery follows the silence
	}
	for _, l := range in.leases {
		if c.k.Settles(&in.op, &l.Term) {
			c.keeper.failedFor(l, in, a, cause)
		}
	}
	switch in.op.Kind {
	case OpAcquire:
		if first && cause != CauseUncounted { // missing acknowledgements are not this instance's fault
			if pause := c.own.AcquisitionFailed(in.op.Sent); pause > 0 {
				c.tells.tell(Tell{Kind: TellWithdrawn, Wait: pause})
			}
		}
	case OpRenew:
		c.own.Unfit() // not only acquisitions fail
	case OpBeat:
		c.own.BeatFailed()
	case OpLook, OpNews:
		c.table.LookFailed(in.op.Seq)
	case OpNodes:
		c.members.DueAgain(in.op.Items)
	case OpLeave:
		c.own.LeaveFailed()
	}
}

// about returns the part of a that the safety kernel judges.
func (a *Answer) about() *term.Answer {
	return &term.Answer{
		Epoch: a.Epoch, After: a.After, Stale: a.Stale, Operator: a.Operator,
		Quarantine: a.Quarantine, Acked: a.Acked, Group: a.Group, RedisNow: a.RedisNow,
	}
}

// worth returns a if v believes it, and otherwise a failed answer.
func (a *Answer) worth(v term.Verdict) *Answer {
	if v.Failure == FailNone {
		return a
	}
	return &Answer{Seq: a.Seq, Failure: v.Failure, Text: v.Text, Epoch: a.Epoch}
}

// Counted returns a if op counts. If too few replicas have acknowledged op, or its epoch ended meanwhile, Counted returns a failed
// answer.
func (a *Answer) Counted(op *Op) *Answer {
	if a.Failure != FailNone {
		return a
	}
	return a.worth(term.Counted(op, a.about()))
}
