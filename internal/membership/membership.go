// Package membership is what a worker of intents does beside the rules of its sessions (internal/core/intent): it signs on, proves
// dead what it was before and frees what that held, takes entries off the bus, beats, and sweeps up behind workers that died.
// The production worker runs it in goroutines; the virtual engine runs the same in virtual time.
package membership

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// ErrOtherWorker: SingleWriter is set and another worker has gone on beating for a whole Life.
var ErrOtherWorker = errors.New("another worker lives")

// ErrQuit: Quit said so before the worker had signed on.
var ErrQuit = errors.New("stopped before it had signed on")

const (
	fetchMax   = 64          // entries taken from the bus at once
	fetchBlock = time.Second // longest wait for one; Stop cuts it short
)

// Member is one worker's. Its methods block and may be called at the same time; all fields are set before.
type Member struct {
	Me           Incarnation
	Instance     string
	SingleWriter bool
	Life         time.Duration // a worker is dead this long after its last beat
	Renew        time.Duration // time between renewals of a lease
	Store        *store.Store
	Bus          *store.Bus
	Logger       *zap.Logger

	// Evict is that of the keeper; FateOf tells what became of another process.
	Evict  func(ctx context.Context, owner string, names ...string) ([]string, error)
	FateOf func(Incarnation) Fate
	// Deliver hands entries on, Stop and Check what the records say to the worker's machine. Running asks it how many sessions run,
	// and Takes whether it takes any into hand still.
	Deliver func([]store.Entry)
	Stop    func(session string)
	Check   func()
	Running func() int
	Takes   func() bool
	Unknown func(sessions []string) []string // those that are not in the machine's hands
	// AwaitCapacity waits until the machine can take more; false: the worker stops. Kick asks for a beat and a sweep soon. Pause waits,
	// no longer than ctx lasts.
	AwaitCapacity func() bool
	Kick          func()
	Pause         func(ctx context.Context, d time.Duration)
	Quit          func() bool
	// Tried is told the outcome of each attempt to sign on; nil: nobody.
	Tried func(error)
	// Fetched is told the outcome of each fetch from the bus; nil: nobody.
	Fetched func(error)

	server  string        // whose records are known to say no more than runs; Beat's
	more    bool          // the last time they said that more has begun than runs; Beat's
	asking  sync.Map      // sessions whose records CheckStop looks into
	waited  time.Duration // for another worker's heartbeat to end, while this one's were accepted; Join's
	signed  atomic.Bool
	retries retries
}

// Consume fetches whenever the machine can take more, until the worker stops.
func (m *Member) Consume(ctx context.Context) {
	for m.AwaitCapacity() {
		for m.Takes() {
			entries, err := m.Bus.Fetch(ctx, fetchMax, fetchBlock)
			if m.Quit() {
				return
			}
			if m.Fetched != nil {
				m.Fetched(err)
			}
			if err != nil {
				// An answer may have been lost: what it held is found by a sweep.
				m.Kick()
				m.Pause(ctx, m.Failed(""))
			} else {
				m.Answered("")
			}
			if len(entries) > 0 {
				m.Deliver(entries)
				break
			}
		}
	}
}

// CheckStop looks into the record of a session in hand that the channel says is to be stopped, once at a time. Anybody can say so there;
// and if Redis does not answer, the next beat tells.
func (m *Member) CheckStop(ctx context.Context, session string) {
	if _, asking := m.asking.LoadOrStore(session, true); asking {
		return
	}
	defer m.asking.Delete(session)
	if asked, err := m.Store.StopAsked(ctx, session); err == nil && asked {
		m.Stop(session)
	}
}

// BeatInterval is how often a worker of that life beats.
func BeatInterval(life time.Duration) time.Duration { return life / 10 }

// Beat keeps the worker alive in the registry, and looks after what dead ones left behind.
func (m *Member) Beat(ctx context.Context) error {
	before := m.Running()
	stops, begun, server, err := m.Bus.Beat(ctx, m.Me.String())
	if err != nil {
		return err
	}
	// Another run of Redis may have an older copy, in which what has ended since runs here, and its key answers with it. So may records
	// say after a write that was long on the way; once they say more it may be what is being written.
	after, more := m.Running(), m.more
	m.more = begun > max(before, after)
	if server != m.server || more && m.more {
		if err := m.Bus.Disown(ctx, m.Unknown); err != nil {
			return err
		}
		m.server = server
	}
	for _, id := range stops {
		m.Stop(id)
	}
	// More run than the records say that were begun: Redis has lost some.
	if begun < min(before, after) {
		m.Check()
	}
	return m.sweep(ctx, BeatInterval(m.Life), m.Takes)
}

// Join signs on and deals with this worker's own past. It tries until Redis answers or ctx ends, unless an ACL denies it. The end
// of ctx is told with what went wrong last.
func (m *Member) Join(ctx context.Context) error {
	var last error
	m.waited = 0
	for {
		err := m.signOn(ctx)
		if err != nil && ctx.Err() != nil {
			return ended(ctx, last)
		}
		last = err
		pause := m.Life / 10
		if other := (*company)(nil); errors.As(err, &other) {
			if m.waited >= other.life {
				return errors.Join(m.SignOff(ctx), err)
			}
			if m.waited == 0 {
				m.Logger.Warn("single writer: waits for the heartbeat of another worker to end", zap.String("worker", m.Instance),
					zap.String("other", other.Instance), zap.Duration("seen", other.Age), zap.Duration("atMost", other.life))
			}
			pause = min(BeatInterval(m.Life), other.left)
			m.waited += pause
		} else if done, err := m.tried(err); done {
			return err
		} else {
			m.waited = 0 // Redis refuses beats, perhaps those of the other too
		}
		if err := m.rest(ctx, pause, last); err != nil {
			return err
		}
	}
}

// rest pauses between two attempts to sign on. The error is that of ctx or ErrQuit, whichever came meanwhile.
func (m *Member) rest(ctx context.Context, d time.Duration, last error) error {
	m.Pause(ctx, d)
	switch {
	case ctx.Err() != nil:
		return ended(ctx, last)
	case m.Quit():
		return ErrQuit
	}
	return nil
}

// ended is what is told where ctx ended before the worker had signed on.
func ended(ctx context.Context, last error) error {
	if last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), last)
}

// tried tells the outcome of an attempt to sign on, and reports whether it is the last.
func (m *Member) tried(err error) (done bool, _ error) {
	if m.Tried != nil {
		m.Tried(err)
	}
	if denied := redisstore.Denied(err); denied != nil {
		return true, denied
	}
	if err == nil || !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, lease.ErrUnknown) {
		return true, err
	}
	message := "redis does not answer yet; trying on"
	if store.Refused(err) != "" {
		message = "redis refuses; trying on"
	}
	m.Logger.Info(message, zap.String("worker", m.Instance), zap.Error(err))
	return false, nil
}

// SignOff leaves the registry, if this worker is in it. Last, when its leases are free: whoever is told takes over what is left.
func (m *Member) SignOff(ctx context.Context) error {
	if !m.signed.Swap(false) {
		return nil
	}
	err := m.Bus.Leave(ctx, m.Instance)
	if err != nil {
		m.Logger.Info("not signed off; the others find out after a TTL", zap.String("worker", m.Instance), zap.Error(err))
	}
	return err
}

func (m *Member) signOn(ctx context.Context) error {
	if err := m.Bus.Create(ctx); err != nil {
		return err
	}
	m.signed.Store(true) // also if there is no answer
	if _, _, _, err := m.Bus.Beat(ctx, m.Me.String()); err != nil {
		return err
	}
	workers, err := m.Store.Workers(ctx)
	if err != nil {
		return err
	}
	workers = slices.DeleteFunc(workers, func(w store.WorkerInfo) bool { return w.Instance == m.Instance })
	if m.SingleWriter {
		return m.alone(ctx, workers)
	}
	var dead []string
	for _, other := range workers {
		past, ok := parseIncarnation(other.Info)
		if !ok || past.Name != m.Me.Name {
			continue
		}
		fate := m.FateOf(past)
		if fate == Dead {
			dead = append(dead, other.Instance)
			continue
		}
		if other.Age >= m.Life {
			continue
		}
		log, text := m.Logger.Info, "a worker of this name was seen elsewhere; what it held is free when its leases expire"
		if fate == Alive {
			log, text = m.Logger.Warn, "another living worker has this name; give each its own"
		}
		log(text, zap.String("worker", m.Instance), zap.String("name", m.Me.Name), zap.String("other", other.Instance),
			zap.Duration("seen", other.Age))
	}
	if len(dead) == 0 {
		return nil
	}
	return m.reclaim(ctx, dead)
}

// reclaim frees what earlier processes of this worker held: the leases themselves say which. What says of a session who has it may be
// gone with the data of Redis, or by a foreign hand, or be another's by now.
func (m *Member) reclaim(ctx context.Context, dead []string) error {
	freed := map[string][]string{}
	if err := m.found(m.Store.Leases(ctx, func(names []string) error {
		for _, owner := range dead {
			some, err := m.Evict(ctx, owner, names...)
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
		if err := m.Bus.Leave(ctx, owner); err != nil {
			return err
		}
		m.Logger.Info("an earlier process of this worker is dead; these leases of it are free", zap.String("worker", m.Instance),
			zap.String("dead", owner), zap.Strings("leases", freed[owner]))
	}
	return m.sweepAll(ctx)
}

// found returns the error of looking for the leases that Redis has, unless it is only that not all were found: who holds the others is dead
// and does not renew them, and a worker that looked again would never start.
func (m *Member) found(err error) error {
	if !errors.Is(err, store.ErrUnfinished) {
		return err
	}
	m.Logger.Warn("not all keys could be read for leases of workers that are dead; those not found are free when they expire",
		zap.String("worker", m.Instance), zap.Error(err))
	return nil
}

// company is another worker that may live, as the single writer sees it.
type company struct {
	store.WorkerInfo
	life time.Duration // after its last beat it is dead: as its own TTL has it, or the reader's, if that is longer
	left time.Duration // until it counts as dead unless it beats
}

func (c *company) Error() string {
	return fmt.Sprintf("%v: %q, seen %v ago; stop it, or start without SingleWriter", ErrOtherWorker, c.Instance,
		c.Age.Round(time.Millisecond))
}

func (c *company) Unwrap() error { return ErrOtherWorker }

// silence is after how many heartbeats that did not come a worker of the single writer's own name is its earlier process. A second
// one that lives, in another container, beats meanwhile.
const silence = 2

// lives returns the life of another worker, and what is left of it. Of its silence what counts is heard: a Redis without memory refuses
// beats, and renews leases.
func (m *Member) lives(other *store.WorkerInfo) (life, left time.Duration) {
	past, _ := parseIncarnation(other.Info)
	life = max(m.Life, time.Duration(past.Life)*time.Millisecond)
	silent := min(other.Age, m.waited)
	switch fate := m.FateOf(past); {
	case fate == Dead, other.Left:
		return life, 0
	case fate == Unknown && past.Name == m.Me.Name:
		return life, max(0, silence*BeatInterval(life)-silent)
	}
	return life, max(0, life-silent)
}

// alone deletes all leases if nobody else lives who could hold any; else the error is a *company.
func (m *Member) alone(ctx context.Context, workers []store.WorkerInfo) error {
	for _, other := range workers {
		if life, left := m.lives(&other); left > 0 {
			return &company{other, life, left}
		}
	}
	n, beats, err := m.Store.DeleteAllLeases(ctx, m.Instance, workers)
	if err := m.found(err); err != nil {
		return err
	}
	if beats != "" {
		return &company{store.WorkerInfo{Instance: beats}, m.Life, m.Life}
	}
	m.Logger.Info("single writer: leases deleted", zap.String("worker", m.Instance), zap.Int("leases", n))
	for _, other := range workers {
		if err := m.Bus.Leave(ctx, other.Instance); err != nil {
			return err
		}
	}
	return m.sweepAll(ctx)
}

// sweepAll deals with everything that dead workers left behind, before the first fetch. The first sweep of Beat returns the same entries
// again, because they are this worker's own by then.
func (m *Member) sweepAll(ctx context.Context) error {
	return m.sweep(ctx, m.Life, func() bool { return true })
}

// sweep deals with what dead workers left behind, page by page as long as goOn allows it.
func (m *Member) sweep(ctx context.Context, idle time.Duration, goOn func() bool) error {
	for more := true; more && goOn(); {
		var entries []store.Entry
		var err error
		if entries, more, err = m.Bus.Sweep(ctx, m.Life, idle); err != nil {
			return err
		}
		if len(entries) > 0 {
			m.Deliver(entries)
		}
	}
	return nil
}
