package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	leasecore "github.com/leasestorm/leasestorm/internal/core"
	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/intentbus"
	"github.com/leasestorm/leasestorm/internal/intentnames"
	"github.com/leasestorm/leasestorm/internal/lifetime"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/internal/ready"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
	"github.com/leasestorm/leasestorm/lease/intent/store"
)

// Worker runs pipelines for the starts on the bus. It is safe for concurrent
// use.
type Worker struct {
	cfg      Config
	log      *zaplog.Log
	leaseLog *zaplog.Log // log, or the logger of Store.Leases
	store    *store.Store
	bus      intentbus.Bus
	names    *intentnames.Names
	keeper   *lease.Keeper
	member   *membership.Member
	base     time.Time

	ctx      context.Context // ends all waits
	cancel   context.CancelFunc
	tasks    sync.WaitGroup // goroutines of the loop's effects
	loops    sync.WaitGroup // the loop itself, reader, beat, listener
	capacity chan struct{}
	kick     chan struct{} // beat and sweep now

	registry  ready.Watch
	fetches   ready.Watch
	up        atomic.Bool
	unwritten atomic.Pointer[error] // error of the last write of a session's state, nil if it succeeded

	life    *lifetime.Lifetime
	asked   context.Context // ends when Stop is called, even while Start waits
	ask     context.CancelFunc
	drained chan core.Effect // rest after a drain

	inbox inbox

	// Owned by the loop.
	machine *core.Machine
	jobs    map[string]*job
}

// New makes a worker, with its own connections like lease.NewManager. Nothing
// runs before Start.
func New(client redis.UniversalClient, cfg Config) (*Worker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	log := zaplog.NewLog(cfg.Logger, cfg.InstanceID)
	leaseLog := log
	if own := cfg.Store.Leases.Logger; own != nil {
		leaseLog = log.Beside(own)
	}
	cfg.Store.Leases.Logger = leaseLog.Logger
	st, err := store.New(client, cfg.Store)
	if err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg, log: log, leaseLog: leaseLog, store: st, names: cfg.Store.Names.Table(), base: time.Now().Add(-1),
		machine: core.New(cfg.core(st.Options().OpTimeout)), jobs: map[string]*job{},
		capacity: make(chan struct{}, 1), kick: make(chan struct{}, 1), life: lifetime.New(), drained: make(chan core.Effect, 1),
	}
	w.inbox.wake = make(chan struct{}, 1)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.asked, w.ask = context.WithCancel(context.Background())
	lc := st.Options().Leases
	lc.InstanceID, lc.Notify = cfg.InstanceID, w.heard
	lc.DrainTimeout = cmp.Or(lc.DrainTimeout, membership.ReleaseTimeout(lc.TTL, st.Options().OpTimeout))
	if w.keeper, err = lease.NewKeeper(client, lc); err == nil {
		w.bus, err = intentbus.Open(st, cfg.InstanceID)
	}
	if err != nil {
		st.Close()
		return nil, err
	}
	w.member = w.newMember()
	return w, nil
}

// InstanceID returns the owner of the worker's leases.
func (w *Worker) InstanceID() string { return w.cfg.InstanceID }

// Start begins the work, until Stop. ctx bounds the start only. Start returns
// once the worker is in the registry and has cleaned up after a dead process of
// its name. A single writer also waits until no other worker is alive.
//
// Unlike lease.Keeper.Start, it waits while Redis does not answer or refuses to
// write (OOM, NOREPLICAS, READONLY, MISCONF), because it needs Redis to detect
// ErrOtherWorker and to free a dead process' leases. Only ctx or Stop ends that
// wait. Health reports the reason meanwhile, so serve the probe first, or call
// Run in a goroutine.
//
// Errors: ErrOtherWorker, ErrStopped, those of lease.Keeper.Start, an ACL's
// denial, or that of ctx with the last failure.
func (w *Worker) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(w.asked, func() { cancel(ErrStopped) })()
	return w.life.Start(ErrStopped, func() error {
		err := w.begin(ctx)
		last, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		w.log.Flush(last) // a refused worker may end the process
		return err
	})
}

func (w *Worker) begin(ctx context.Context) error {
	if err := w.keeper.Start(ctx); err != nil {
		return w.bus.Explain(err)
	}
	if err := w.member.Join(ctx); err != nil {
		return w.bus.Explain(err)
	}
	w.up.Store(true)
	w.capacity <- struct{}{}
	w.loops.Go(w.loop)
	w.loops.Go(func() { w.member.Consume(w.ctx) })
	w.loops.Go(w.beat)
	w.loops.Go(func() {
		w.bus.Listen(w.ctx, w.hinted, func(string) { w.sweepNow() }, w.sweepNow)
	})
	return nil
}

// Run calls Start, and Stop as soon as ctx ends, even if Start still waits. It
// returns nil after a requested stop.
func (w *Worker) Run(ctx context.Context) error { return w.life.Run(ctx, w.Start, w.Stop) }

// Health reports whether this worker can process starts, and otherwise why, for
// a readiness probe. It sends no requests.
func (w *Worker) Health() lease.Health {
	h := w.keeper.Health()
	if w.ctx.Err() != nil {
		h.State, h.Reason = lease.HealthStopped, "this worker has stopped; make another"
	}
	h = w.fetches.Add(w.registry.Add(h, "the registry of workers or the bus"), "the bus")
	if h.OK() && !w.up.Load() {
		h.State, h.Reason = lease.HealthNotStarted, "Start has not returned"
	}
	return h
}

// Stop ends all pipelines, releases their leases and leaves pending starts to
// other workers. It waits for the pipelines, at most StopTimeout, and then for
// Redis: one timeout (Store.OpTimeout) to record the end of each session, one
// to confirm the releases (or Store.Leases.DrainTimeout, if longer), and one to
// leave the registry. Unconfirmed leases expire, and other workers end the
// sessions.
//
// Every call waits for the end and returns the same error. ErrStuck means that
// a pipeline did not return, so the worker has not left the registry either.
// Any other error means that Redis refused a release or did not confirm it.
func (w *Worker) Stop() error {
	w.ask()
	return w.life.Stop(w.end)
}

func (w *Worker) end(begun bool) error {
	w.bus.Close() // ends a read in flight; another worker begins its entries
	var err error
	if begun {
		w.post(core.Event{Kind: core.EvDrain})
		err = w.leftBehind(<-w.drained)
	}
	w.cancel()
	w.inbox.close()
	if kept := w.keeper.Stop(); err == nil {
		err = kept
	}
	w.loops.Wait() // a beat in flight ends with its timeout; the leases do not wait for that
	stuck := errors.Is(err, ErrStuck)
	if !stuck { // otherwise its leases must expire: a single writer frees those of a worker that has left
		_ = w.member.SignOff(context.Background()) // it logs its error
	}
	w.store.Close()
	if !stuck {
		w.tasks.Wait()
	}
	last, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return errors.Join(err, w.log.Flushed(last, inner.ErrStuck), w.leaseLog.Flushed(last, inner.ErrStuck))
}

// unconfirmed is the error of a request whose outcome is unknown.
type unconfirmed struct{ error }

func (e unconfirmed) Is(target error) bool { return target == inner.ErrUnknown }
func (e unconfirmed) Unwrap() error        { return e.error }

func (w *Worker) leftBehind(e core.Effect) error {
	switch {
	case e.Stuck:
		return fmt.Errorf("%w: stopped nevertheless; its leases expire within %v", ErrStuck, w.cfg.Store.Leases.TTL)
	case e.Left == 0:
		return nil
	}
	err := fmt.Errorf("stopped with %d sessions whose end Redis has not confirmed; the remaining leases expire within %v", e.Left,
		w.cfg.Store.Leases.TTL)
	why := inner.ErrUnknown
	if last := w.unwritten.Load(); last != nil && *last != nil {
		why = *last
	}
	if reply := redis.Error(nil); errors.As(why, &reply) {
		why = redisstore.Cause(reply)
	}
	return unconfirmed{fmt.Errorf("%w: %w", err, why)}
}

func (w *Worker) now() leasecore.Time { return w.at(time.Now()) }

func (w *Worker) at(t time.Time) leasecore.Time { return leasecore.Time(t.Sub(w.base)) }

// inbox passes events and functions to the loop and never blocks the sender.
type inbox struct {
	mu     sync.Mutex
	items  []message
	closed bool
	wake   chan struct{}
}

// message is one item for the loop: f runs before the machine gets event.
type message struct {
	f     func()
	event core.Event
}

func (b *inbox) put(m message) {
	b.mu.Lock()
	if !b.closed {
		b.items = append(b.items, m)
	}
	b.mu.Unlock()
	b.poke()
}

func (b *inbox) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.poke()
}

// take frees the queue's memory, which would otherwise keep the size of the
// largest burst.
func (b *inbox) take() (items []message, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, b.items = b.items, nil
	return items, b.closed
}

func (w *Worker) post(e core.Event) { w.inbox.put(message{event: e}) }

func (w *Worker) loop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-w.inbox.wake:
		case <-timer.C:
			w.step(core.Event{Kind: core.EvTick})
		}
		if closed := w.drainInbox(); closed {
			return
		}
		if w.machine.Idle() {
			w.feed()
		}
		if next := w.machine.Next(); next != 0 {
			timer.Reset(max(0, time.Duration(next-w.now())))
		} else {
			timer.Reset(time.Hour)
		}
	}
}

// drainInbox handles messages until there are none, and reports whether the inbox is closed.
func (w *Worker) drainInbox() (closed bool) {
	for {
		batch, closed := w.inbox.take()
		for i := range batch {
			if batch[i].f != nil {
				batch[i].f()
			}
			if batch[i].event.Kind != 0 {
				w.step(batch[i].event)
			}
		}
		if closed || len(batch) == 0 {
			return closed
		}
	}
}

func (w *Worker) step(e core.Event) {
	e.Now = w.now()
	effects := w.machine.Step(e)
	for i := range effects {
		w.carry(effects[i])
	}
}

func (w *Worker) feed() {
	select {
	case w.capacity <- struct{}{}:
	default:
	}
}
