package lease

import (
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// loop passes events to the core and carries out the results. One goroutine runs it.
type loop struct {
	*instance
	table     *table
	diagnosis *diagnosis
	announcer *announcer
	callers   *callers
	requests  *requests
	asks      *asks

	core     *core.Core
	todo     []core.Event  // events for the core that the tells of a step cause
	holds    []*Lease      // carry's scratch space
	changing int           // requests in flight that change leases
	allGiven bool          // the core holds nothing any more
	drained  chan struct{} // closed at the end of a drain
}

// run is the only goroutine that touches the core.
func (l *loop) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var batch []message
	var due core.Time
	for {
		var tick bool
		select {
		case <-l.inbox.wake:
		case <-timer.C:
			tick = true
		}
		l.diagnosis.stalled(due)
		turn := l.log.Calls.Begin("the loop of this instance", l.late()) // allowed longer than the functions that it calls
		if tick {
			l.step(core.Event{Kind: core.EvTick})
		}
		var missed, closed bool
		batch, missed, closed = l.inbox.take(batch)
		l.handle(batch)
		clear(batch)
		if missed {
			l.step(core.Event{Kind: core.EvSubscribed})
		}
		if closed {
			turn.End()
			return
		}
		l.report()
		due = l.arm(timer)
		turn.End()
	}
}

// handle processes the inbox in order. It passes consecutive releases to the core as one. A requested release keeps its cause.
func (l *loop) handle(batch []message) {
	for i := range batch {
		m := &batch[i]
		if m.drop != nil {
			if l.table.get(m.drop.name) == m.drop && (m.yield == 0 || m.yield == m.drop.yielding.Load()) {
				l.later(core.Event{Kind: core.EvDrop, ID: m.drop.name, Cause: core.CauseRequested})
			}
			continue
		}
		l.settleTodo()
		switch {
		case m.run != nil:
			m.run()
		case m.release != nil:
			l.callers.awaitRelease(m.release)
		case m.ev.Notice.Kind == redisstore.NoticeGive:
			l.asks.noticed(&m.ev.Notice)
		case m.op != nil:
			l.diagnosis.noted(m.op, &m.ev.Answer)
			l.step(m.ev)
			l.settled(m.op, &m.ev.Answer)
		default:
			l.step(m.ev)
		}
	}
	l.settleTodo()
}

// arm sets the timer for the core's next wake-up, and returns when it fires, 0 for never.
func (l *loop) arm(timer *time.Timer) core.Time {
	next := l.core.Next()
	if next == 0 {
		timer.Stop()
		return 0
	}
	now := l.now().Mono
	timer.Reset(time.Duration(max(0, next-now)))
	return max(next, now)
}

// step passes one event to the core and carries out the results. Tells come before requests, so that nobody believes in a finished term
// when the next request leaves.
func (l *loop) step(ev core.Event) {
	l.act(ev)
	l.settleTodo()
}

// later queues an event for the core until the current step is over.
func (l *loop) later(ev core.Event) { l.todo = append(l.todo, ev) }

// settleTodo passes the queued events to the core and carries out the results.
func (l *loop) settleTodo() {
	for len(l.todo) > 0 {
		n := policy.MergeDrops(l.todo)
		ev := l.todo[0]
		l.todo = l.todo[n:]
		l.act(ev)
	}
	l.todo = nil
	l.drainedYet()
}

func (l *loop) act(ev core.Event) {
	ev.Now = l.now()
	eff := l.core.Step(ev)
	d := l.diagnosis
	d.learn(func() {
		d.blocked, d.blockedBy = l.core.Blocked()
		d.disbelieved = l.core.Disbelieved()
	})
	l.carry(eff.Tells)
	l.dispatch(eff.Ops)
}

// dispatch sends requests on their lanes. Before any listener runs, it updates the trust table for all these requests.
func (l *loop) dispatch(ops []core.Op) {
	for i := range ops {
		if policy.Renews(ops[i].Kind) {
			l.table.attempting(&ops[i])
		}
	}
	for i := range ops {
		op := ops[i]
		l.announcer.attempt(&op)
		if laneOf(op.Kind) == laneChange {
			l.changing++
		}
		l.requests.put(&op)
	}
}

// settled records that a request has ended, with or without an answer.
func (l *loop) settled(op *core.Op, a *core.Answer) {
	if laneOf(op.Kind) != laneChange {
		return
	}
	l.changing--
	l.callers.confirmReleases(op, a)
	l.drainedYet()
}

// drainedYet ends a drain once nothing is held and no request is in flight. Before the connections close, an acquisition that was
// answered late is released and the heartbeat is gone (G13).
func (l *loop) drainedYet() {
	if l.allGiven && l.changing == 0 {
		l.allGiven = false
		close(l.drained)
	}
}

func (l *loop) report() {
	if l.draining {
		return
	}
	st := stateBalancing
	switch {
	case l.core.Settled() && !l.diagnosis.useless():
		st = stateSettled
	case state(l.state.Load()) == stateStarting:
		st = stateStarting
	}
	l.state.Store(int32(st))
}

// carry applies the core's tells, first to the trust table and then to all listeners. So before any listener runs, nobody believes
// in a finished term.
func (l *loop) carry(tells []core.Tell) {
	if len(tells) == 0 {
		return
	}
	l.holds = l.table.apply(tells, l.holds[:0])
	l.announcer.listened = l.announcer.whoListens()
	over := l.now().Mono // the belief ended a moment ago in the table, not when the step began
	settled := 0
	for i := range tells {
		ends := false
		switch tells[i].Kind {
		case core.TellUncertain, core.TellLost, core.TellReleased:
			tells[i].At, ends = over, true
		case core.TellYield:
			ends = true
		}
		l.announcer.announce(&tells[i], l.holds[i])
		if !ends && i < len(tells)-1 { // a context that ends does not wait until a listener has received later events
			continue
		}
		l.announcer.publish()
		for ; settled <= i; settled++ {
			l.settle(&tells[settled], l.holds[settled])
		}
	}
	clear(l.holds) // do not keep terms alive
}

// settle answers the callers that wait for a tell.
func (l *loop) settle(t *core.Tell, h *Lease) {
	d := l.diagnosis
	switch t.Kind {
	case core.TellAcquired:
		l.callers.acquired(h)
	case core.TellRefused:
		l.callers.refused(t)
	case core.TellYield:
		l.yield(h, t)
	case core.TellLost:
		if h != nil && t.Cause == core.CauseExpired {
			h.finish(d.expired(h, logentry.Reason(t)))
		} else if h != nil {
			h.finish(h.lostError(logentry.Reason(t)))
		}
		l.callers.resolveRelease(t.ID, nil)
		l.callers.wantAgain(t.ID)
	case core.TellReleased:
		if h != nil {
			h.finish(h.lostError("released"))
		}
		l.callers.wantAgain(t.ID)
	case core.TellReleaseFailed:
		l.callers.resolveRelease(t.ID, d.failure(core.OpRelease).noResult(core.OpRelease, "release", t.ID, t.Text))
	case core.TellSilent:
		d.learn(func() { d.silentSince = t.At })
	case core.TellHeard:
		d.learn(func() { d.silentSince = 0 })
	case core.TellEpoch:
		d.learn(func() {
			if d.met {
				d.doubt = ""
			}
			d.met, d.began = true, t.Cause
		})
	case core.TellOutside:
		d.learn(func() { d.agreed = t.Wait })
	case core.TellWithdrawn:
		d.learn(func() { d.withdrawn = t.At + core.Time(t.Wait) })
	case core.TellDrained:
		l.allGiven = true
	}
}

// yield requests the end of the work. If no caller or listener is to release the lease, yield releases the lease at once, because
// IsOwned is false already.
func (l *loop) yield(h *Lease, t *core.Tell) {
	if h == nil {
		return
	}
	switch {
	case !h.given:
	case t.Cause == core.CauseDrain:
		h.finish(ErrStopped)
	case t.Cause == core.CauseRequested:
		h.finish(h.lostError("asked back by " + t.Owner))
	}
	if !h.given && l.cfg.Notify == nil {
		l.later(core.Event{Kind: core.EvDrop, ID: h.name, Cause: t.Cause})
	}
}

// giveBack ends the work under a term that an operator requests. It names no heir: any instance may acquire the lease once its
// owner has released it.
func (l *loop) giveBack(h *Lease, from string) {
	l.carry([]core.Tell{{Kind: core.TellYield, Cause: core.CauseRequested, ID: h.name, Fence: h.fence, At: l.now().Mono, Owner: from}})
	l.settleTodo()
}

// drain begins the stop. It runs in the loop.
func (l *loop) drain() {
	l.draining = true
	l.state.Store(int32(stateDraining))
	l.callers.close()
	l.step(core.Event{Kind: core.EvDrain})
}

// unconfirmedReleases is the result of finish when all work has ended.
const unconfirmedReleases = "releases that Redis has not confirmed"

// finish gives up the remaining leases and pending releases, and returns their names, "" for none. It ignores an undeleted
// heartbeat, which blocks nobody. It runs last in the loop.
func (l *loop) finish() string {
	select {
	case <-l.drained:
		return ""
	default:
	}
	left := ""
	if l.core.Unreleased() {
		left = unconfirmedReleases
	}
	if holds := l.table.holds(); len(holds) > 0 {
		left = fmt.Sprintf("work that has not ended under %d leases, %q first", len(holds), holds[0].name)
		for _, h := range holds {
			l.step(h.stuck(core.EvAbandon))
		}
	}
	for _, name := range l.callers.releases.Left() {
		l.callers.resolveRelease(name, l.diagnosis.failure(core.OpRelease).noResult(core.OpRelease, "release", name, "the instance has stopped"))
	}
	return left
}
