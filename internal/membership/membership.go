// Package membership is a worker's part in the fleet of intent workers. A worker signs on, frees the leases of its dead predecessors,
// fetches entries from the bus, beats, and takes over the entries of dead workers. The rules of its sessions are in internal/core/intent.
// The production worker runs this code in goroutines, the virtual engine in virtual time.
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

	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// ErrOtherWorker means that SingleWriter is set and another worker kept beating for a whole Life.
var ErrOtherWorker = errors.New("another worker is alive")

// ErrQuit means that Quit returned true before the worker had signed on.
var ErrQuit = errors.New("stopped before it was in the registry")

const (
	fetchMax   = 64          // most entries in one fetch
	fetchBlock = time.Second // longest wait for an entry; Stop ends it sooner
)

// Member is one worker's membership. Set all fields before use. Its methods block and are safe for concurrent use.
type Member struct {
	Me           Incarnation
	Instance     string
	SingleWriter bool
	Life         time.Duration // a worker is dead this long after its last beat
	Renew        time.Duration // time between renewals of a lease
	Bus          intentbus.Bus
	Logger       *zap.Logger

	Evict  func(ctx context.Context, owner string, names ...string) ([]string, error) // the keeper's Evict
	FateOf func(Incarnation) Fate

	// Calls to the worker's machine.
	Deliver func([]intentbus.Entry)
	Stop    func(session string)             // a client requested this
	Check   func()                           // Redis may have lost records
	Running func() int                       // how many sessions run
	Takes   func() bool                      // whether it still accepts starts
	Unknown func(sessions []string) []string // those that the machine does not have

	AwaitCapacity func() bool                                // waits until the machine can accept more; false: the worker stops
	Kick          func()                                     // requests a beat and a sweep soon
	Pause         func(ctx context.Context, d time.Duration) // waits for d, or until ctx ends
	Quit          func() bool                                // whether the worker stops

	Tried   func(error) // may be nil
	Fetched func(error) // may be nil

	server  string        // Beat only: the run of Redis whose records were last reconciled (Bus.Disown)
	more    bool          // Beat only: the last records showed more sessions begun than run
	asking  sync.Map      // sessions whose records CheckStop is reading
	waited  time.Duration // Join only: how long Redis accepted this worker's beats while another worker's heartbeat lived
	signed  atomic.Bool
	retries retries
}

// Consume fetches entries whenever the machine can accept more, until the worker stops.
func (m *Member) Consume(ctx context.Context) {
	for m.AwaitCapacity() {
		for m.Takes() {
			entries, err := m.Bus.Fetch(ctx, fetchMax, fetchBlock)
			if m.Quit() {
				return
			}
			m.fetched(ctx, err)
			if len(entries) > 0 {
				m.Deliver(entries)
				break
			}
		}
	}
}

func (m *Member) fetched(ctx context.Context, err error) {
	if m.Fetched != nil {
		m.Fetched(err)
	}
	if err == nil {
		m.Answered("")
		return
	}
	// The answer may have been lost with its entries. A sweep finds them.
	m.Kick()
	m.Pause(ctx, m.Failed(""))
}

// CheckStop handles a notice that a session should stop. It reads the session's record, because any client can publish such a notice. It
// does nothing while that record is being read. If Redis does not answer, the next beat finds the stop.
func (m *Member) CheckStop(ctx context.Context, session string) {
	if _, asking := m.asking.LoadOrStore(session, true); asking {
		return
	}
	defer m.asking.Delete(session)
	if asked, err := m.Bus.StopAsked(ctx, session); err == nil && asked {
		m.Stop(session)
	}
}

// BeatInterval returns the interval of a worker that is dead after life without a beat.
func BeatInterval(life time.Duration) time.Duration { return life / 10 }

// Beat keeps the worker alive in the registry, reconciles the records of its sessions, and takes over entries of dead workers.
func (m *Member) Beat(ctx context.Context) error {
	before := m.Running()
	stops, begun, server, err := m.Bus.Beat(ctx, m.Me.String())
	if err != nil {
		return err
	}
	// Another run of Redis may have older data, in which ended sessions still run here. A delayed write can have the same effect. A
	// surplus in only one beat may be a write in progress, so Disown requires two in a row.
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
	// More sessions run than records show as begun, so Redis has lost records.
	if begun < min(before, after) {
		m.Check()
	}
	return m.sweep(ctx, BeatInterval(m.Life), m.Takes)
}

// Join signs on and frees the leases of this worker's dead predecessors. It retries while Redis is unavailable, until ctx ends or the
// worker quits (ErrQuit). It fails at once on other errors. If ctx ends, the error also wraps that of the last attempt.
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
			m.warnOf(other)
			pause = min(BeatInterval(m.Life), other.left)
			m.waited += pause
		} else if done, err := m.tried(err); done {
			return err
		} else {
			m.waited = 0 // Redis refuses beats, perhaps those of the other worker too
		}
		if err := m.rest(ctx, pause, last); err != nil {
			return err
		}
	}
}

// warnOf logs once that the member waits for another worker.
func (m *Member) warnOf(other *company) {
	if m.waited == 0 {
		m.Logger.Warn("single writer: waiting until another worker's heartbeat ends", zap.String("worker", m.Instance),
			zap.String("other", other.Instance), zap.Int64("seen", other.Age.Milliseconds()),
			zap.Int64("atMost", other.life.Milliseconds()))
	}
}

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

func ended(ctx context.Context, last error) error {
	if last == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), last)
}

// tried reports the result of an attempt to sign on, and whether it was the last one.
func (m *Member) tried(err error) (done bool, _ error) {
	if m.Tried != nil {
		m.Tried(err)
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
	m.Logger.Info(message, zap.String("worker", m.Instance), zap.Error(err))
	return false, nil
}

// SignOff leaves the registry, so that other workers take over this worker's entries. Call it last, when its leases are free.
func (m *Member) SignOff(ctx context.Context) error {
	if !m.signed.Swap(false) {
		return nil
	}
	err := m.Bus.Leave(ctx, m.Instance)
	if err != nil {
		m.Logger.Info("not removed from the registry; other workers notice after a TTL", zap.String("worker", m.Instance), zap.Error(err))
	}
	return err
}

func (m *Member) signOn(ctx context.Context) error {
	if err := m.Bus.Create(ctx); err != nil {
		return err
	}
	m.signed.Store(true) // before the beat, whose answer may be lost
	if _, _, _, err := m.Bus.Beat(ctx, m.Me.String()); err != nil {
		return err
	}
	workers, err := m.Bus.Workers(ctx)
	if err != nil {
		return err
	}
	workers = slices.DeleteFunc(workers, func(w intentbus.Worker) bool { return w.Instance == m.Instance })
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
		log, text := m.Logger.Info, "a worker of this name ran elsewhere; its leases are free when they expire"
		if fate == Alive {
			log, text = m.Logger.Warn, "another living worker has this name; give each its own"
		}
		log(text, zap.String("worker", m.Instance), zap.String("name", m.Me.Name), zap.String("other", other.Instance),
			zap.Int64("seen", other.Age.Milliseconds()))
	}
	if len(dead) == 0 {
		return nil
	}
	return m.reclaim(ctx, dead)
}

// reclaim frees the leases of this worker's dead predecessors. It trusts only the leases, because records may be lost.
func (m *Member) reclaim(ctx context.Context, dead []string) error {
	freed := map[string][]string{}
	if err := m.found(m.Bus.Leases(ctx, func(names []string) error {
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
		m.Logger.Info("an earlier process of this worker is dead; its leases are free now", zap.String("worker", m.Instance),
			zap.String("dead", owner), zap.Strings("leases", freed[owner]))
	}
	return m.sweepAll(ctx)
}

// found ignores the error of an incomplete scan: the remaining leases of dead workers expire, and another scan might never end.
func (m *Member) found(err error) error {
	if !errors.Is(err, intentbus.ErrUnfinished) {
		return err
	}
	m.Logger.Warn("not all keys could be searched for leases of dead workers; the others are free when they expire",
		zap.String("worker", m.Instance), zap.Error(err))
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

// lives returns the life of another worker and the rest of it. Silence counts only while Redis accepts this worker's own beats, because a
// Redis that is out of memory refuses beats but renews leases.
func (m *Member) lives(other *intentbus.Worker) (life, left time.Duration) {
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

// alone deletes all leases if no other worker may be alive. Otherwise it returns a *company.
func (m *Member) alone(ctx context.Context, workers []intentbus.Worker) error {
	for _, other := range workers {
		if life, left := m.lives(&other); left > 0 {
			return &company{other, life, left}
		}
	}
	n, beats, err := m.Bus.DeleteAllLeases(ctx, workers)
	if err := m.found(err); err != nil {
		return err
	}
	if beats != "" {
		return &company{intentbus.Worker{Instance: beats}, m.Life, m.Life}
	}
	m.Logger.Info("single writer: leases deleted", zap.String("worker", m.Instance), zap.Int("leases", n))
	for _, other := range workers {
		if err := m.Bus.Leave(ctx, other.Instance); err != nil {
			return err
		}
	}
	return m.sweepAll(ctx)
}

// sweepAll takes over all entries of dead workers before the first fetch. Beat's first sweep returns them again, as this worker's own.
func (m *Member) sweepAll(ctx context.Context) error {
	return m.sweep(ctx, m.Life, func() bool { return true })
}

// sweep takes over and delivers the entries of dead workers, page by page while goOn returns true.
func (m *Member) sweep(ctx context.Context, idle time.Duration, goOn func() bool) error {
	for more := true; more && goOn(); {
		var entries []intentbus.Entry
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
