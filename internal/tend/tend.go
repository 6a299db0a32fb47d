// Package tend is what a worker of intents does beside the rules of its sessions (internal/core/intent): it signs on, proves
// dead what it was before and frees what that held, takes entries off the bus, beats, and sweeps up behind workers that died.
// The production worker runs it in goroutines; the virtual engine runs the same in virtual time.
package tend

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent/store"
	"github.com/leasestorm/leasestorm/lease/redisstore"
)

// ErrOtherWorker: SingleWriter is set and another worker lives.
var ErrOtherWorker = errors.New("another worker lives")

// ErrQuit: Quit said so before the worker had signed on.
var ErrQuit = errors.New("stopped before it had signed on")

const (
	fetchMax   = 64          // entries taken from the bus at once
	fetchBlock = time.Second // longest wait for one; Stop cuts it short
)

// Tender is one worker's. Its methods block and may be called at the same time; all fields are set before.
type Tender struct {
	Me           Incarnation
	Instance     string
	Slots        []string
	SingleWriter bool
	Life         time.Duration // a worker is dead this long after its last beat
	Store        *store.Store
	Bus          *store.Bus
	Logger       *zap.Logger

	// Evict is that of the keeper; Proven reports whether another incarnation certainly does not run any more.
	Evict  func(ctx context.Context, owner string, names ...string) ([]string, error)
	Proven func(Incarnation) bool
	// Deliver hands entries on, Stop and Check what the records say to the worker's machine, and Running asks it how many
	// sessions run.
	Deliver func([]store.Entry)
	Stop    func(session string)
	Check   func()
	Running func() int
	Unknown func(sessions []string) []string // those that are not in the machine's hands
	// Hungry waits until the machine can take more; false: the worker stops. Kick asks for a beat and a sweep soon. Pause waits,
	// no longer than ctx lasts.
	Hungry func() bool
	Kick   func()
	Pause  func(ctx context.Context, d time.Duration)
	Quit   func() bool
	// Failed is told the outcome of each attempt to sign on; nil: nobody.
	Failed func(error)

	server string // whose records are known to say no more than runs; Tend's
}

// Read fetches whenever the machine is hungry, until the worker stops.
func (t *Tender) Read(ctx context.Context) {
	for t.Hungry() {
		for {
			entries, err := t.Bus.Fetch(ctx, fetchMax, fetchBlock)
			if t.Quit() {
				return
			}
			if err != nil {
				// An answer may have been lost: what it held is found by a sweep.
				t.Kick()
				t.Pause(ctx, t.Life/100)
			}
			if len(entries) > 0 {
				t.Deliver(entries)
				break
			}
			if t.Quit() {
				return
			}
		}
	}
}

// BeatEvery is how often a worker of that life beats.
func BeatEvery(life time.Duration) time.Duration { return life / 10 }

// Tend keeps the worker alive in the registry, and looks after what dead ones left behind.
func (t *Tender) Tend(ctx context.Context) error {
	before := t.Running()
	stops, begun, server, err := t.Bus.Beat(ctx, t.Me.String())
	if err != nil {
		return err
	}
	// Another run of Redis may have an older copy, in which what has ended since runs here, and its key answers with it.
	if server != t.server {
		if err := t.Bus.Disown(ctx, t.Unknown); err != nil {
			return err
		}
		t.server = server
	}
	for _, id := range stops {
		t.Stop(id)
	}
	// More run than the records say that were begun: Redis has lost some.
	if begun < min(before, t.Running()) {
		t.Check()
	}
	for more := true; more && !t.Quit(); {
		var entries []store.Entry
		entries, more, err = t.Bus.Sweep(ctx, t.Life, BeatEvery(t.Life))
		if err != nil {
			return err
		}
		if len(entries) > 0 {
			t.Deliver(entries)
		}
	}
	return nil
}

// Prepare signs on and deals with this worker's own past. It tries until Redis answers or ctx ends, unless an ACL denies it. The end
// of ctx is told with what went wrong last.
func (t *Tender) Prepare(ctx context.Context) error {
	var last error
	over := func() error {
		if last == nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("%w: %w", context.Cause(ctx), last)
	}
	for {
		err := t.signOn(ctx)
		if err != nil && ctx.Err() != nil {
			return over()
		}
		last = err
		if t.Failed != nil {
			t.Failed(err)
		}
		if denied := redisstore.Denied(err); denied != nil {
			return denied
		}
		if err == nil || !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, lease.ErrUnknown) {
			return err
		}
		message := "redis does not answer yet; trying on"
		if store.Refused(err) != "" {
			message = "redis refuses; trying on"
		}
		t.Logger.Info(message, zap.String("worker", t.Instance), zap.Error(err))
		t.Pause(ctx, t.Life/10)
		if ctx.Err() != nil {
			return over()
		}
		if t.Quit() {
			return ErrQuit
		}
	}
}

func (t *Tender) signOn(ctx context.Context) error {
	if err := t.Bus.Create(ctx); err != nil {
		return err
	}
	if _, _, _, err := t.Bus.Beat(ctx, t.Me.String()); err != nil {
		return err
	}
	workers, err := t.Store.Workers(ctx)
	if err != nil {
		return err
	}
	if t.SingleWriter {
		return t.alone(ctx, workers)
	}
	for _, other := range workers {
		past, ok := parseIncarnation(other.Info)
		if !ok || other.Instance == t.Instance || past.Name != t.Me.Name || !t.Proven(past) {
			continue
		}
		if err := t.reclaim(ctx, other.Instance); err != nil {
			return err
		}
	}
	return nil
}

// reclaim frees what an earlier process of this worker held.
func (t *Tender) reclaim(ctx context.Context, dead string) error {
	services, err := t.Store.ServicesOf(ctx, dead)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(services)+len(t.Slots))
	for _, s := range services {
		names = append(names, store.ServiceLease(s))
	}
	for _, s := range t.Slots {
		names = append(names, store.TunerLease(s))
	}
	freed, err := t.Evict(ctx, dead, names...)
	if err != nil {
		return err
	}
	if err := t.Bus.Leave(ctx, dead); err != nil {
		return err
	}
	t.Logger.Info("an earlier process of this worker is dead; its leases are free", zap.String("worker", t.Instance),
		zap.String("dead", dead), zap.Strings("leases", freed))
	return t.sweepAll(ctx)
}

// alone deletes all leases: nobody else holds any who lives.
func (t *Tender) alone(ctx context.Context, workers []store.WorkerInfo) error {
	for _, other := range workers {
		past, _ := parseIncarnation(other.Info)
		if other.Instance != t.Instance && past.Name != t.Me.Name && other.Age < t.Life {
			if err := t.Bus.Leave(ctx, t.Instance); err != nil {
				return err
			}
			return fmt.Errorf("%w: %q, seen %v ago; stop it, or start without SingleWriter", ErrOtherWorker, other.Instance,
				other.Age.Round(time.Millisecond))
		}
	}
	n, err := t.Store.DeleteAllLeases(ctx)
	if err != nil {
		return err
	}
	t.Logger.Info("single writer: all leases deleted", zap.String("worker", t.Instance), zap.Int("leases", n))
	for _, other := range workers {
		if other.Instance != t.Instance {
			if err := t.Bus.Leave(ctx, other.Instance); err != nil {
				return err
			}
		}
	}
	return t.sweepAll(ctx)
}

// sweepAll deals with what is left behind before the first fetch. What it takes is told again by the first sweep in the loop,
// since it is then this worker's own.
func (t *Tender) sweepAll(ctx context.Context) error {
	for more := true; more; {
		var entries []store.Entry
		var err error
		if entries, more, err = t.Bus.Sweep(ctx, t.Life, t.Life); err != nil {
			return err
		}
		t.Deliver(entries)
	}
	return nil
}
