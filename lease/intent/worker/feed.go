package worker

import (
	"cmp"
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/callback"
	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/lease"
)

func (w *Worker) newMember() *membership.Member {
	me := membership.WhoAmI(w.cfg.Name)
	me.Life = w.cfg.life().Milliseconds()
	return &membership.Member{
		Registry: membership.Registry{
			Me: me, Instance: w.cfg.InstanceID, SingleWriter: w.cfg.SingleWriter, Life: w.cfg.life(), Bus: w.bus, Logger: w.log.Logger,
			Evict: inner.OfKeeper(w.keeper).Evict, FateOf: me.FateOf, Pause: w.pause, Tried: w.registry.Note,
			Deliver: func(entries []intentbus.Entry) { w.inbox.put(message{f: func() { w.deliver(entries) }}) },
			Quit:    func() bool { return w.ctx.Err() != nil },
		},
		Renew: cmp.Or(w.cfg.Store.Leases.RenewInterval, w.cfg.life()/3),
		Tell:  w.post, Query: w.query, AwaitCapacity: w.awaitCapacity, Kick: w.sweepNow, Fetched: w.fetched(),
	}
}

// fetched returns the observer of fetches. A worker whose fetches Redis denies
// keeps beating, but does no work.
func (w *Worker) fetched() func(error) {
	w.fetches.Life = w.cfg.life()
	bus := w.outage("bus")
	return func(err error) {
		w.fetches.Note(err)
		bus.note(err)
	}
}

func (w *Worker) heard(e lease.Event) {
	callback.Tell(w.log.Calls, "Config.Notify", w.cfg.Notify, e)
	switch e.Kind {
	case lease.EventRenewed:
		w.post(core.Event{Kind: core.EvRenewed, Lease: e.Name, Fence: e.Fence, Until: w.at(e.Until)})
	case lease.EventLost:
		w.post(core.Event{Kind: core.EvLost, Lease: e.Name, Fence: e.Fence})
	}
}

// hinted handles a message that requests the stop of a session of this worker.
// It waits for the loop, so that no flood fills the inbox.
func (w *Worker) hinted(session string) {
	has := false
	if w.query(func(m *core.Machine) { has = m.Has(session) }) && has {
		w.tasks.Go(func() { w.member.CheckStop(w.ctx, session) })
	}
}

func (w *Worker) sweepNow() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

func (w *Worker) awaitCapacity() bool {
	select {
	case <-w.capacity:
		return true
	case <-w.ctx.Done():
		return false
	}
}

func (w *Worker) pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(max(d, 10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-w.ctx.Done():
	}
}

// deliver passes entries to the machine. It runs in the loop.
func (w *Worker) deliver(entries []intentbus.Entry) {
	begin := func(e intentbus.Entry) *job { return &job{entry: e} }
	membership.Deliver(w.cfg.Store.Names, w.machine, entries, w.jobs, begin, w.step,
		func(e intentbus.Entry, why string) { w.bury(e, why, 0, core.NoReason) })
}

// failureLogEvery is the least time between log entries while Redis keeps
// failing.
const failureLogEvery = 3 * time.Second

// outage logs the beginning and the end of Redis' unreachability. It is not
// safe for concurrent use.
type outage struct {
	log  *zap.Logger
	what string
	told time.Time // time of the last warning; zero: reachable
}

func (w *Worker) outage(what string) *outage {
	return &outage{log: w.log.With(zap.String("worker", w.cfg.InstanceID)), what: what}
}

func (o *outage) note(err error) {
	switch {
	case err == nil && !o.told.IsZero():
		o.log.Info(o.what + " reached again")
		o.told = time.Time{}
	case err != nil && time.Since(o.told) >= failureLogEvery:
		o.log.Warn(o.what+" not reached", zap.Error(err))
		o.told = time.Now()
	}
}

// beat keeps the worker alive in the registry and cleans up after dead workers,
// ten times in the life of a lease.
func (w *Worker) beat() {
	ticker := time.NewTicker(membership.BeatInterval(w.cfg.life()))
	defer ticker.Stop()
	registry := w.outage("registry")
	var foreign time.Time // time of the last entry about foreign keys; zero: none
	for {
		sent := time.Now()
		err := w.member.Beat(w.ctx)
		w.registry.Note(err)
		if err == nil {
			inner.OfKeeper(w.keeper).Wrote(sent)
			foreign = w.tellForeign(foreign)
		}
		if w.ctx.Err() == nil {
			registry.note(err)
		}
		select {
		case <-ticker.C:
		case <-w.kick:
			if early := kickPause(w.cfg.life()) - time.Since(sent); early > 0 {
				w.pause(w.ctx, early)
			}
		case <-w.ctx.Done():
			return
		}
	}
}

// kickPause is the least time between two beats, because anyone with publish
// rights can cause them.
func kickPause(life time.Duration) time.Duration { return membership.BeatInterval(life) / 10 }

// foreignLogEvery is the least time between log entries about keys that an
// operator has to repair.
const foreignLogEvery = time.Minute

func (w *Worker) tellForeign(last time.Time) time.Time {
	keys := w.bus.Foreign()
	if len(keys) == 0 {
		return time.Time{}
	}
	if time.Since(last) < foreignLogEvery {
		return last
	}
	w.log.Warn("keys hold the wrong type and are not used; rename or delete them", zap.String("worker", w.cfg.InstanceID),
		zap.Strings("keys", keys))
	return time.Now()
}

// query runs f in the loop and waits for it. It returns false in a stopping
// worker, where f may run later.
func (w *Worker) query(f func(*core.Machine)) bool {
	done := make(chan struct{})
	w.inbox.put(message{f: func() {
		f(w.machine)
		close(done)
	}})
	select {
	case <-done:
		return true
	case <-w.ctx.Done():
		return false
	}
}
