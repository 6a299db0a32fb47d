package core

import "github.com/leasestorm/leasestorm/internal/place"

// stepped is called after each step, if a test has set it.
var stepped func(*Core)

// Step takes one event and returns its effects, which are valid until the next Step. If an event has an earlier time than the
// previous event, Step uses the time of the previous event.
func (c *Core) Step(ev Event) Effects {
	c.tells.all = c.tells.all[:0]
	c.req.sent = c.req.sent[:0]
	step := c.k.Advance(ev.Now)
	if c.tells.at = c.k.Now(); step != 0 {
		c.tells.tell(Tell{Kind: TellClock, Cause: CauseClock, Wait: step})
		c.holder.stepped(step)
	}
	c.runTimers()
	switch ev.Kind {
	case EvStart:
		c.start()
	case EvAnswer:
		c.answer(&ev.Answer)
	case EvNotice:
		c.balancer.notice(&ev.Notice)
	case EvSubscribed:
		c.keeper.observeWanted()
		c.table.Subscribed()
	case EvDoubt:
		c.silence.probing = c.silence.probing || !c.silence.on // a silence has probes of its own
	case EvRenew:
		c.holder.renewNow(ev.ID)
	case EvWant:
		c.keeper.want(ev.ID, ev.Wait, ev.TTL)
	case EvDrop:
		c.keeper.drop(ev.ID, ev.Cause)
		for _, id := range ev.IDs {
			c.keeper.drop(id, ev.Cause)
		}
	case EvAbandon:
		c.keeper.abandon(ev.ID, ev.Fence)
	case EvRecovered:
		c.keeper.recovered(ev.ID, ev.Fence)
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
	c.silence.probing = true // most requests need the epoch, which is not known yet
}

func (c *Core) drain() {
	if !c.own.Leave() { // before heirs are chosen, so that one placement without this instance balances them
		return
	}
	c.table.Stop()
	for _, l := range c.entries.held {
		if !l.yielding {
			c.holder.yield(l, "", CauseDrain)
		}
	}
}

// drainedYet reports the end of a drain once nothing of this instance is left in Redis, as far as it can know.
func (c *Core) drainedYet() {
	if !c.own.Leaving() || c.drained || c.Unreleased() || c.own.LeaveDue() || c.req.underWay.any(OpBeat, OpLeave) {
		return
	}
	c.drained = true
	c.nextRenew, c.silence.next = 0, 0
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
	if c.due(c.silence.next) {
		c.silence.next = 0
		c.silence.probing = true
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
		c.keeper.holdBack()
	case c.k.Epoch() == "": // the queues wait for the first answer, which contains the epoch
	default:
		c.req.batch(OpReassert)
		c.req.batch(OpRenew)
		if c.k.Outside() {
			c.keeper.refuseQueued(CauseGroup)
		}
		c.req.batch(OpAcquire) // see Blocked
		c.heartbeats.beat()
	}
	if c.own.LeaveDue() && !c.paces.paced(OpLeave) {
		c.own.LeaveSent()
		c.req.send(OpLeave, nil, nil)
	}
	if c.k.Epoch() != "" {
		c.req.batch(OpRelease)
	}
	c.silence.probe()
	c.req.supersede()
	if c.silence.on {
		return
	}
	if len(c.entries.held) > 0 {
		c.silence.seek()
	}
	c.req.batch(OpObserve)
	c.heartbeats.read()
	if c.table.Due() && c.table.UnderWay() == 0 && c.k.Epoch() != "" && !c.paces.paced(OpLook) && !c.paces.paced(OpNews) {
		c.balancer.discover()
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
	for c.timers.Len() > 0 && c.timers.Timers[0].At <= c.k.Now() {
		due := c.timers.Take()
		switch t := &due.Of; {
		case !c.live(t):
		case t.kind == timerLease:
			c.keeper.wakeLease(t.l, due.At)
		case t.kind == timerNode:
			c.members.Due(int32(t.n))
		case t.kind == timerOp:
			c.answer(&Answer{Seq: t.n, Failure: FailUnknown, Text: "no answer in time"})
		}
	}
	c.runIntervals()
}

func (c *Core) earliest() Time {
	for c.timers.Len() > 0 && !c.live(&c.timers.Timers[0].Of) {
		c.timers.Take()
	}
	var next Time
	earlier := func(t Time) {
		if t != 0 && (next == 0 || t < next) {
			next = t
		}
	}
	if c.timers.Len() > 0 {
		earlier(c.timers.Timers[0].At)
	}
	earlier(c.nextRenew)
	earlier(c.table.Next())
	earlier(c.silence.next)
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
	case OpLook, OpNews:
		return c.table.Due()
	case OpNodes:
		return c.members.Reading(c.req.underWay.any)
	case OpSupersede:
		return c.k.Supersedes()
	default:
		return len(c.req.queued[kind]) > 0
	}
}

// askIdle reads the epoch once a renewal interval, if an instance without a heartbeat holds no lease and either wants none or may
// not acquire yet. Such an instance sends no other requests. Without this read, the instance would notice a loss of data, or a jump
// of Redis' clock, only when it wants a lease, and would be blocked for a TTL from that moment on (G9, I3, I5).
func (c *Core) askIdle() {
	if !c.cfg.NoHeartbeat || len(c.entries.held) > 0 || c.silence.on || c.own.Leaving() {
		return
	}
	if until, _ := c.keeper.blocked(); until != 0 || len(c.entries.leases) == 0 {
		c.silence.probing = true
	}
}

// renewAll is the renewal tick. It renews all held leases and then the heartbeat, so that they expire together if the instance dies.
func (c *Core) renewAll() {
	c.silence.report()
	c.k.AgeTraces()
	c.own.Refresh()
	for _, l := range c.entries.held {
		c.holder.renew(l)
	}
	c.askIdle()
}
