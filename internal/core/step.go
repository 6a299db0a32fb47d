package core

import "github.com/leasestorm/leasestorm/internal/place"

// stepped is called after each step, if a test has set it.
var stepped func(*Core)

// Step takes one event and returns its effects, which are valid until the next Step. An event that is older than the previous one
// counts as if it happened at the same instant as that.
func (c *Core) Step(ev Event) Effects {
	c.tells.all = c.tells.all[:0]
	c.req.sent = c.req.sent[:0]
	c.advance(ev.Now)
	if c.next != 0 && c.k.Now()-c.next > Time(c.cfg.OpTimeout) {
		c.table.Discover(place.DiscoverSlept)
	}
	c.runTimers()
	switch ev.Kind {
	case EvStart:
		c.start()
	case EvAnswer:
		c.answer(&ev.Answer)
	case EvNotice:
		c.notice(&ev.Notice)
	case EvSubscribed:
		c.subscribed()
	case EvDoubt:
		c.req.probe = c.req.probe || !c.silence.on // a silence has probes of its own
	case EvRenew:
		c.renewNow(ev.ID)
	case EvWant:
		c.want(ev.ID, ev.Wait, ev.TTL)
	case EvDrop:
		c.drop(ev.ID, ev.Cause)
		for _, id := range ev.IDs {
			c.drop(id, ev.Cause)
		}
	case EvAbandon:
		c.abandon(ev.ID, ev.Fence)
	case EvRecovered:
		c.recovered(ev.ID, ev.Fence)
	case EvDrain:
		c.drain()
	case EvTick:
	}
	c.flush()
	c.drainedYet()
	c.next = c.earliest()
	if stepped != nil {
		stepped(c)
	}
	return Effects{Tells: c.tells.all, Ops: c.req.sent}
}

func (c *Core) start() {
	if !c.own.Start() {
		return
	}
	c.nextRenew = c.k.Now() + Time(c.cfg.Renew)
	if !c.cfg.NoHeartbeat && !c.own.Leaving() {
		c.table.Start()
	}
	c.req.probe = true // most requests need the epoch, which is not known yet
}

func (c *Core) drain() {
	if !c.own.Leave() { // before heirs are chosen, so that one placement without this instance balances them
		return
	}
	c.table.Stop()
	for _, l := range c.held {
		if !l.yielding {
			c.yield(l, "", CauseDrain)
		}
	}
}

// Unreleased reports whether a lease is, or may be, in this instance's name at Redis.
func (c *Core) Unreleased() bool { return len(c.held) > 0 || c.releasing > 0 || c.acquiring > 0 }

// drainedYet reports the end of a drain once nothing of this instance is left in Redis, as far as it can know.
func (c *Core) drainedYet() {
	if !c.own.Leaving() || c.drained || c.Unreleased() || c.own.LeaveDue() || c.req.underWay.any(OpBeat, OpLeave) {
		return
	}
	c.drained = true
	c.nextRenew, c.nextProbe = 0, 0
	c.tells.tell(Tell{Kind: TellDrained})
}

// runIntervals starts the periodic work that is due. The next renewal counts from the planned time, not from now: otherwise the
// interval would drift and lose leases on a loaded machine.
func (c *Core) runIntervals() {
	if c.due(c.nextRenew) {
		c.nextRenew = advanceBy(c.nextRenew, c.cfg.Renew, c.k.Now())
		c.renewAll()
	}
	if c.due(c.table.Next()) {
		c.table.IntervalOver()
	}
	if c.due(c.own.Rejoin()) {
		c.own.Rejoins()
		c.table.Discover(place.DiscoverRejoined)
	}
	if c.due(c.nextProbe) {
		c.nextProbe = 0
		c.req.probe = true
	}
	if c.due(c.nextHeard) {
		c.observeWanted()
	}
}

// advanceBy returns the first t + k × step, k ≥ 1, that is after now.
func advanceBy(t Time, step int64, now Time) Time {
	return t + Time(step*(int64(now-t)/step+1))
}

// flush turns the queued requests into ops. In a silence it sends nothing that extends: that could lengthen leases which this instance
// can no longer use (G5).
func (c *Core) flush() {
	if !c.own.Started() {
		return
	}
	switch {
	case c.silence.on:
		c.holdBack()
	case c.k.Epoch() == "": // the queues wait for the first answer, which contains the epoch
	default:
		c.req.batch(OpReassert)
		c.req.batch(OpRenew)
		if c.k.Outside() {
			c.refuseQueued(CauseGroup)
		}
		c.req.batch(OpAcquire) // see Blocked
		c.beat()
	}
	if c.own.LeaveDue() && !c.paces.paced(OpLeave) {
		c.own.LeaveSent()
		c.req.send(OpLeave, nil, nil)
	}
	if c.k.Epoch() != "" {
		c.req.batch(OpRelease)
	}
	if c.req.probe {
		c.req.probe = false
		c.probe()
	}
	c.req.supersede()
	if c.silence.on {
		return
	}
	c.seek()
	c.req.batch(OpObserve)
	c.readHeartbeats()
	if c.table.Due() && c.table.UnderWay() == 0 && c.k.Epoch() != "" && !c.paces.paced(OpLook) {
		c.table.LookSent(c.req.send(OpLook, nil, nil))
	}
}

// holdBack empties the queues of requests that extend, in a silence: terms become uncertain, acquisitions are refused.
func (c *Core) holdBack() {
	for _, kind := range []OpKind{OpRenew, OpReassert} {
		for _, l := range c.req.queued[kind] {
			if c.k.StillFor(kind, &l.Term) {
				l.Cancel()
				c.doubt(l, CauseNoAnswer, c.silence.text)
			}
		}
		c.req.empty(kind)
	}
	c.refuseQueued(CauseNoAnswer)
}

func (c *Core) refuseQueued(cause Cause) {
	for _, l := range c.req.queued[OpAcquire] {
		if c.k.StillFor(OpAcquire, &l.Term) {
			c.refuse(l, refused{cause: cause, wait: c.cfg.MaxProbe, text: c.silence.text})
		}
	}
	c.req.empty(OpAcquire)
}

func (c *Core) timeout(seq uint64) {
	c.answer(&Answer{Seq: seq, Failure: FailUnknown, Text: "no answer in time"})
}

func (c *Core) answer(a *Answer) {
	in := c.req.underWay.take(a.Seq)
	if in == nil {
		return // the op timed out, and its leases are requested again or have expired
	}
	defer c.req.underWay.recycle(in)
	if a = c.judged(in, a); a.Failure != FailNone {
		c.failed(in, a)
		return
	}
	c.heard(in)
	c.learn(in, a)
	switch {
	case a.Stale || in.op.Kind == OpSupersede: // or two reachable masters would be superseded in turn at network speed
		c.paces.setback(in, false)
	case in.op.Kind != OpAcquire && !in.probes(): // an acquisition has an effect only if it is granted
		if c.paces.effective(in.op.Kind) && in.op.Kind == OpBeat { // without a heartbeat, the others may have released nothing to it
			c.table.CountedAgain()
		}
	}
	switch in.op.Kind {
	case OpAcquire:
		c.acquireAnswered(in, a)
	case OpRenew, OpReassert:
		c.renewAnswered(in, a)
	case OpRelease:
		c.releaseAnswered(in, a)
	case OpObserve:
		c.observeAnswered(in, a)
	case OpBeat:
		c.own.BeatAnswered(a.Stale)
	case OpNodes:
		c.nodesAnswered(in, a)
	case OpLook:
		c.lookAnswered(in, a)
	case OpLeave:
		if a.Stale {
			c.own.LeaveFailed()
		}
	case OpAsk, OpSupersede:
	}
}

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
	c.fellSilent(in, a)
	for _, l := range in.leases {
		if c.k.Settles(&in.op, &l.Term) {
			c.failedFor(l, in, a, cause)
		}
	}
	switch in.op.Kind {
	case OpAcquire:
		if first && cause != CauseUncounted { // missing acknowledgements are not this instance's fault
			c.acquisitionsFail(in)
		}
	case OpRenew:
		c.own.Unfit() // not only acquisitions fail
	case OpBeat:
		c.own.BeatFailed()
	case OpLook:
		c.table.LookFailed(in.op.Seq)
	case OpNodes:
		c.members.DueAgain(in.op.Items)
	case OpLeave:
		c.own.LeaveFailed()
	}
}

func (c *Core) failedFor(l *lease, in *inflight, a *Answer, cause Cause) {
	switch in.op.Kind {
	case OpAcquire:
		l.unanswered = true
		if a.Failure == FailUnknown || a.Failure == FailUncounted {
			c.k.Trace(l.ID(), in.op.TTL)
		}
		c.refuse(l, refused{
			cause: cause, text: a.Text, wait: max(c.pause.Retry(c.paces.of[OpAcquire].failed), c.cfg.MaxProbe),
		})
	case OpRenew, OpReassert:
		c.doubt(l, cause, a.Text)
		if !c.silence.on {
			c.requestRenew(l)
		}
	case OpRelease:
		c.releaseFailed(l, cause, a.Text)
		c.requestRelease(l)
	case OpObserve:
		c.observe(l)
	}
}

func (c *Core) live(t *timer) bool {
	switch t.kind {
	case timerLease:
		return t.l.gen == t.gen
	case timerNode:
		return c.members.Armed(int32(t.n), t.gen)
	default:
		return c.req.underWay.find(t.n) != nil
	}
}

// runTimers handles all due timers. A step calls it before handling its event: an answer that arrives at the end of a window finds the
// window closed.
func (c *Core) runTimers() {
	for len(c.timers.a) > 0 && c.timers.a[0].at <= c.k.Now() {
		t := c.timers.pop()
		if !c.live(&t) {
			continue
		}
		switch t.kind {
		case timerLease:
			c.wakeLease(t.l, t.at)
		case timerNode:
			c.members.Due(int32(t.n))
		case timerOp:
			c.timeout(t.n)
		}
	}
	c.runIntervals()
}

// Next returns when the core needs an EvTick; zero: never.
func (c *Core) Next() Time { return c.next }

func (c *Core) earliest() Time {
	for len(c.timers.a) > 0 && !c.live(&c.timers.a[0]) {
		c.timers.pop()
	}
	var next Time
	earlier := func(t Time) {
		if t != 0 && (next == 0 || t < next) {
			next = t
		}
	}
	if len(c.timers.a) > 0 {
		earlier(c.timers.a[0].at)
	}
	earlier(c.nextRenew)
	earlier(c.table.Next())
	earlier(c.nextProbe)
	earlier(c.nextHeard)
	earlier(c.own.Rejoin())
	if c.paces.slowed > c.k.Now() {
		for k := range c.paces.of {
			if c.paces.paced(OpKind(k)) && c.queued(OpKind(k)) {
				earlier(c.paces.of[k].until)
			}
		}
	}
	return next
}

func (c *Core) queued(kind OpKind) bool {
	switch kind {
	case OpBeat:
		return c.own.BeatDue()
	case OpLeave:
		return c.own.LeaveDue()
	case OpLook:
		return c.table.Due()
	case OpNodes:
		return c.members.Reading()
	case OpSupersede:
		return c.k.Supersedes()
	default:
		return len(c.req.queued[kind]) > 0
	}
}
