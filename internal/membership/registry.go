package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// ErrOtherWorker means that SingleWriter is set and another worker kept beating for a whole Life.
var ErrOtherWorker = errors.New("another worker is alive")

// errQuit means that Quit returned true before the worker had signed on.
var errQuit = errors.New("stopped before this worker was in the registry")

// Registry is one worker's part in the registry of workers: its entry, and how it treats dead workers.
type Registry struct {
	Me           Incarnation
	Instance     string
	SingleWriter bool
	Life         time.Duration // a worker is dead this long after its last beat
	Bus          intentbus.Bus
	Logger       *zap.Logger

	Evict   func(ctx context.Context, owner string, names ...string) ([]string, error) // the keeper's Evict
	FateOf  func(Incarnation) Fate
	Deliver func([]intentbus.Entry)                    // passes entries to the worker's machine
	Pause   func(ctx context.Context, d time.Duration) // waits for d, or until ctx ends
	Quit    func() bool                                // whether the worker stops
	Tried   func(error)                                // hears of each attempt to sign on; may be nil

	signed atomic.Bool
}

// BeatInterval returns the interval of a worker that is dead after life without a beat.
func BeatInterval(life time.Duration) time.Duration { return life / 10 }

// Join signs on and frees the leases of this worker's dead predecessors. It retries while Redis is unavailable, until ctx ends or the
// worker quits (errQuit). It fails at once on other errors. If ctx ends, the error also wraps that of the last attempt.
func (r *Registry) Join(ctx context.Context) error {
	var last error
	waited := time.Duration(0) // how long Redis accepted this worker's beats while another worker's heartbeat lived
	for {
		err := r.signOn(ctx, waited)
		if err != nil && ctx.Err() != nil {
			return ended(ctx, last)
		}
		last = err
		pause := r.Life / 10
		var other *company
		if errors.As(err, &other) && waited < other.life {
			if waited == 0 {
				r.waits(other)
			}
			pause = min(BeatInterval(r.Life), other.left)
			waited += pause
		} else if other != nil {
			return errors.Join(r.SignOff(ctx), err)
		} else if done, err := r.tried(err); done {
			return err
		} else {
			waited = 0 // Redis refuses beats, perhaps those of the other worker too
		}
		if err := r.rest(ctx, pause, last); err != nil {
			return err
		}
	}
}

func (r *Registry) waits(other *company) {
	r.Logger.Warn("single writer: waiting until another worker's heartbeat ends", zap.String("worker", r.Instance),
		zap.String("other", other.Instance), zap.Int64("seen", other.Age.Milliseconds()),
		zap.Int64("atMost", other.life.Milliseconds()))
}

func (r *Registry) rest(ctx context.Context, d time.Duration, last error) error {
	r.Pause(ctx, d)
	switch {
	case ctx.Err() != nil:
		return ended(ctx, last)
	case r.Quit():
		return errQuit
	}
	return nil
}

func ended(ctx context.Context, last error) error {
	if last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), last)
}

// tried reports the result of an attempt to sign on, and whether it was the last one.
func (r *Registry) tried(err error) (done bool, _ error) {
	if r.Tried != nil {
		r.Tried(err)
	}
	if denied := redisstore.Denied(err); denied != nil {
		return true, denied
	}
	if err == nil || !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, inner.ErrUnknown) {
		return true, err
	}
	message := "redis does not answer yet; retrying"
	if intentbus.Refused(err) != "" {
		message = "redis refuses; retrying"
	}
	r.Logger.Info(message, zap.String("worker", r.Instance), zap.Error(err))
	return false, nil
}

// SignOff leaves the registry, so that other workers take over this worker's entries. Call it last, when its leases are free.
func (r *Registry) SignOff(ctx context.Context) error {
	if !r.signed.Swap(false) {
		return nil
	}
	err := r.Bus.Leave(ctx, r.Instance)
	if err != nil {
		r.Logger.Info("not removed from the registry; other workers notice after a TTL", zap.String("worker", r.Instance), zap.Error(err))
	}
	return err
}

func (r *Registry) signOn(ctx context.Context, waited time.Duration) error {
	if err := r.Bus.Create(ctx); err != nil {
		return err
	}
	r.signed.Store(true) // before the beat, whose answer may be lost
	if _, _, _, err := r.Bus.Beat(ctx, r.Me.String()); err != nil {
		return err
	}
	workers, err := r.Bus.Workers(ctx)
	if err != nil {
		return err
	}
	workers = slices.DeleteFunc(workers, func(w intentbus.Worker) bool { return w.Instance == r.Instance })
	if r.SingleWriter {
		return r.alone(ctx, workers, waited)
	}
	var dead []string
	for _, other := range workers {
		past, ok := parseIncarnation(other.Info)
		if !ok || past.Name != r.Me.Name {
			continue
		}
		fate := r.FateOf(past)
		if fate == Dead {
			dead = append(dead, other.Instance)
			continue
		}
		if other.Age >= r.Life {
			continue
		}
		log, text := r.Logger.Info, "a worker of this name ran elsewhere; its leases are free when they expire"
		if fate == Alive {
			log, text = r.Logger.Warn, "another living worker has this name; give each its own"
		}
		log(text, zap.String("worker", r.Instance), zap.String("name", r.Me.Name), zap.String("other", other.Instance),
			zap.Int64("seen", other.Age.Milliseconds()))
	}
	if len(dead) == 0 {
		return nil
	}
	return r.reclaim(ctx, dead)
}

// reclaim frees the leases of this worker's dead predecessors. It trusts only the leases, because records may be lost.
func (r *Registry) reclaim(ctx context.Context, dead []string) error {
	freed := map[string][]string{}
	if err := r.found(r.Bus.Leases(ctx, func(names []string) error {
		for _, owner := range dead {
			some, err := r.Evict(ctx, owner, names...)
			if err != nil {
				return err
			}
			freed[owner] = append(freed[owner], some...)
		}
		return nil
	})); err != nil {
		return err
	}
	for _, owner := range dead {
		if err := r.Bus.Leave(ctx, owner); err != nil {
			return err
		}
		r.Logger.Info("an earlier process of this worker is dead; its leases are free now", zap.String("worker", r.Instance),
			zap.String("dead", owner), zap.Strings("leases", freed[owner]))
	}
	return r.sweepAll(ctx)
}

// found ignores the error of an incomplete scan: the remaining leases of dead workers expire, and another scan might never end.
func (r *Registry) found(err error) error {
	if !errors.Is(err, intentbus.ErrUnfinished) {
		return err
	}
	r.Logger.Warn("not all keys could be searched for leases of dead workers; the remaining leases expire",
		zap.String("worker", r.Instance), zap.Error(err))
	return nil
}

// company is the error of a single writer that sees another worker, which may be alive.
type company struct {
	intentbus.Worker
	life time.Duration // time without a beat after which it is dead: the longer of its own and the reader's
	left time.Duration // time until it counts as dead unless it beats
}

func (c *company) Error() string {
	return fmt.Sprintf("%v: %q, seen %v ago; stop it, or start without SingleWriter", ErrOtherWorker, c.Instance,
		c.Age.Round(time.Millisecond))
}

func (c *company) Unwrap() error { return ErrOtherWorker }

// silence is the number of missed beats after which a worker with the single writer's name counts as its dead predecessor. A living
// worker with that name, in another container, would beat meanwhile.
const silence = 2

// lives returns the life of another worker and the rest of it. Silence counts only while Redis accepts this worker's own beats, as it has
// for waited, because a Redis that is out of memory refuses beats but renews leases.
func (r *Registry) lives(other *intentbus.Worker, waited time.Duration) (life, left time.Duration) {
	past, _ := parseIncarnation(other.Info)
	life = max(r.Life, time.Duration(past.Life)*time.Millisecond)
	silent := min(other.Age, waited)
	switch fate := r.FateOf(past); {
	case fate == Dead, other.Left:
		return life, 0
	case fate == Unknown && past.Name == r.Me.Name:
		return life, max(0, silence*BeatInterval(life)-silent)
	}
	return life, max(0, life-silent)
}

// alone deletes all leases if no other worker may be alive. Otherwise it returns a *company. waited is as in lives.
func (r *Registry) alone(ctx context.Context, workers []intentbus.Worker, waited time.Duration) error {
	for _, other := range workers {
		if life, left := r.lives(&other, waited); left > 0 {
			return &company{other, life, left}
		}
	}
	n, beats, err := r.Bus.DeleteAllLeases(ctx, workers)
	if err := r.found(err); err != nil {
		return err
	}
	if beats != "" {
		return &company{intentbus.Worker{Instance: beats}, r.Life, r.Life}
	}
	r.Logger.Info("single writer: leases deleted", zap.String("worker", r.Instance), zap.Int("leases", n))
	for _, other := range workers {
		if err := r.Bus.Leave(ctx, other.Instance); err != nil {
			return err
		}
	}
	return r.sweepAll(ctx)
}

// sweepAll takes over all entries of dead workers before the first fetch. Beat's first sweep returns them again, as this worker's own.
func (r *Registry) sweepAll(ctx context.Context) error {
	return r.sweep(ctx, r.Life, func() bool { return true })
}

// sweep takes over and delivers the entries of dead workers, page by page while goOn returns true.
func (r *Registry) sweep(ctx context.Context, idle time.Duration, goOn func() bool) error {
	for more := true; more && goOn(); {
		var entries []intentbus.Entry
		var err error
		if entries, more, err = r.Bus.Sweep(ctx, r.Life, idle); err != nil {
			return err
		}
		if len(entries) > 0 {
			r.Deliver(entries)
		}
	}
	return nil
}
