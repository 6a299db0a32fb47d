package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap"

	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

const (
	fetchMax   = 64          // entries taken from the bus at once
	fetchBlock = time.Second // longest wait for one; Stop cuts it short
)

// heard is told what happens to the leases.
func (w *Worker) heard(e lease.Event) {
	if w.cfg.Notify != nil {
		w.cfg.Notify(e)
	}
	switch e.Kind {
	case lease.EventRenewed:
		w.post(core.Event{Kind: core.EvRenewed, Lease: e.Name, Fence: e.Fence, Until: w.at(e.Until)})
	case lease.EventLost:
		w.post(core.Event{Kind: core.EvLost, Lease: e.Name, Fence: e.Fence})
	}
}

func (w *Worker) stopAsked(session string) { w.post(core.Event{Kind: core.EvStop, Session: session}) }

func (w *Worker) sweepNow() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// read fetches whenever the loop is hungry.
func (w *Worker) read() {
	for {
		select {
		case <-w.hungry:
		case <-w.ctx.Done():
			return
		}
		entries, err := w.bus.Fetch(w.ctx, fetchMax, fetchBlock)
		switch {
		case w.ctx.Err() != nil:
			return
		case err != nil:
			// An answer may have been lost: what it held is found by a sweep.
			w.sweepNow()
			w.pause(w.cfg.life() / 100)
		}
		if len(entries) == 0 {
			w.feed()
			continue
		}
		w.inbox.put(message{f: func() { w.deliver(entries) }})
	}
}

func (w *Worker) pause(d time.Duration) {
	timer := time.NewTimer(max(d, 10*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-w.ctx.Done():
	}
}

// deliver hands entries to the machine. Runs in the loop.
func (w *Worker) deliver(entries []store.Entry) {
	for _, e := range entries {
		if w.machine.Has(e.Session) {
			continue
		}
		if why := malformed(&e); why != "" {
			w.tasks.Go(func() { w.bury(store.Entry{ID: e.ID, Tries: e.Tries}, why, 0) })
			continue
		}
		w.jobs[e.Session] = &job{entry: e}
		w.step(core.Event{Kind: core.EvEntry, Entry: core.Entry{
			ID: e.ID, Session: e.Session, Service: e.ServiceRef, Tries: e.Tries, From: e.From, Owner: e.Owner, Fence: e.Fence,
		}})
		if !w.machine.Has(e.Session) {
			delete(w.jobs, e.Session)
		}
	}
}

// malformed says why an entry cannot have been put on the bus by the store, "" if it can.
func malformed(e *store.Entry) string {
	canonical, err := e.Canonical()
	switch {
	case e.Type != "start":
		return "its type is not start"
	case len(e.Session) != 36 || uuid.Validate(e.Session) != nil:
		return "its session is no UUID"
	case err != nil:
		return err.Error()
	case canonical != e.Start:
		return "what it is to start is not in canonical form"
	}
	return ""
}

// beat keeps the worker alive in the registry, and looks after what dead ones left behind, ten times in the life of a lease.
func (w *Worker) beat() {
	every := w.cfg.life() / 10
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if err := w.tend(every); err != nil && w.ctx.Err() == nil {
			w.cfg.Logger.Info("registry not reached", zap.String("worker", w.cfg.InstanceID), zap.Error(err))
		}
		select {
		case <-ticker.C:
		case <-w.kick:
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *Worker) tend(every time.Duration) error {
	before := w.running()
	stops, begun, err := w.bus.Beat(w.ctx, w.me.String())
	if err != nil {
		return err
	}
	for _, id := range stops {
		w.stopAsked(id)
	}
	// More run than the records say that were begun: Redis has lost some.
	if begun < min(before, w.running()) {
		w.post(core.Event{Kind: core.EvCheck})
	}
	for more := true; more && w.ctx.Err() == nil; {
		var entries []store.Entry
		entries, more, err = w.bus.Sweep(w.ctx, w.cfg.life(), every)
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			w.inbox.put(message{f: func() { w.deliver(entries) }})
		}
	}
	return nil
}

// running asks the loop how many sessions run.
func (w *Worker) running() int {
	answer := make(chan int, 1)
	w.inbox.put(message{f: func() { answer <- w.machine.Running() }})
	select {
	case n := <-answer:
		return n
	case <-w.ctx.Done():
		return 0
	}
}

// prepare signs on and deals with this worker's own past. It tries until Redis answers.
func (w *Worker) prepare(ctx context.Context) error {
	for {
		err := w.signOn(ctx)
		if err == nil || !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, lease.ErrUnknown) {
			return err
		}
		w.cfg.Logger.Info("redis does not answer yet; trying on", zap.String("worker", w.cfg.InstanceID), zap.Error(err))
		w.pause(w.cfg.life() / 10)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.ctx.Err() != nil {
			return ErrStopped
		}
	}
}

func (w *Worker) signOn(ctx context.Context) error {
	if err := w.bus.Create(ctx); err != nil {
		return err
	}
	if _, _, err := w.bus.Beat(ctx, w.me.String()); err != nil {
		return err
	}
	workers, err := w.store.Workers(ctx)
	if err != nil {
		return err
	}
	if w.cfg.SingleWriter {
		return w.alone(ctx, workers)
	}
	for _, other := range workers {
		past, ok := parseIncarnation(other.Info)
		if !ok || other.Instance == w.cfg.InstanceID || past.Name != w.cfg.Name || !w.me.provenDead(past) {
			continue
		}
		if err := w.reclaim(ctx, other.Instance); err != nil {
			return err
		}
	}
	return nil
}

// reclaim frees what an earlier process of this worker held.
func (w *Worker) reclaim(ctx context.Context, dead string) error {
	services, err := w.store.ServicesOf(ctx, dead)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(services)+len(w.cfg.Slots))
	for _, s := range services {
		names = append(names, store.ServiceLease(s))
	}
	for _, s := range w.cfg.Slots {
		names = append(names, store.TunerLease(s))
	}
	freed, err := w.keeper.Evict(ctx, dead, names...)
	if err != nil {
		return err
	}
	if err := w.bus.Leave(ctx, dead); err != nil {
		return err
	}
	w.cfg.Logger.Info("an earlier process of this worker is dead; its leases are free", zap.String("worker", w.cfg.InstanceID),
		zap.String("dead", dead), zap.Strings("leases", freed))
	return w.sweepAll(ctx)
}

// alone deletes all leases: nobody else holds any who lives.
func (w *Worker) alone(ctx context.Context, workers []store.WorkerInfo) error {
	for _, other := range workers {
		past, _ := parseIncarnation(other.Info)
		if other.Instance != w.cfg.InstanceID && past.Name != w.cfg.Name && other.Age < w.cfg.life() {
			if err := w.bus.Leave(ctx, w.cfg.InstanceID); err != nil {
				return err
			}
			return fmt.Errorf("%w: %q, seen %v ago; stop it, or start without SingleWriter", ErrOtherWorker, other.Instance,
				other.Age.Round(time.Millisecond))
		}
	}
	n, err := w.store.DeleteAllLeases(ctx)
	if err != nil {
		return err
	}
	w.cfg.Logger.Info("single writer: all leases deleted", zap.String("worker", w.cfg.InstanceID), zap.Int("leases", n))
	for _, other := range workers {
		if other.Instance != w.cfg.InstanceID {
			if err := w.bus.Leave(ctx, other.Instance); err != nil {
				return err
			}
		}
	}
	return w.sweepAll(ctx)
}

// sweepAll deals with what is left behind before the first fetch. What it takes is told again by the first sweep in the loop,
// since it is then this worker's own.
func (w *Worker) sweepAll(ctx context.Context) error {
	for more := true; more; {
		var entries []store.Entry
		var err error
		if entries, more, err = w.bus.Sweep(ctx, w.cfg.life(), w.cfg.life()); err != nil {
			return err
		}
		w.inbox.put(message{f: func() { w.deliver(entries) }})
	}
	return nil
}
