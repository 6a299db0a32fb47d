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
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/callback"
	core "github.com/leasestorm/leasestorm/internal/core/intent"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/intentbus"
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
	keeper   *lease.Keeper
	member   *membership.Member
	loop     *loop
	beats    beats
	jobs     jobs // the loop owns them

	ctx    context.Context // ends all waits
	cancel context.CancelFunc
	tasks  sync.WaitGroup // goroutines of the loop's effects
	loops  sync.WaitGroup // the loop itself, reader, beat, listener

	fetches   ready.Watch
	up        atomic.Bool
	unwritten atomic.Pointer[error] // error of the last write of a session's state, nil if it succeeded

	life    *lifetime.Lifetime
	asked   context.Context // ends when Stop is called, even while Start waits
	ask     context.CancelFunc
	drained chan core.Effect // rest after a drain
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
		cfg: cfg, log: log, leaseLog: leaseLog, store: st, life: lifetime.New(), drained: make(chan core.Effect, 1),
	}
	w.loop = newLoop(cfg.core(st.Options().OpTimeout), func(e core.Effect) { w.jobs.Carry(e) })
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.asked, w.ask = context.WithCancel(context.Background())
	lc := st.Options().Leases
	lc.InstanceID, lc.Notify = cfg.InstanceID, w.heard
	lc.DrainTimeout = cmp.Or(lc.DrainTimeout, membership.ReleaseTimeout(lc.TTL, st.Options().OpTimeout))
	var bus intentbus.Bus
	if w.keeper, err = lease.NewKeeper(client, lc); err == nil {
		bus, err = intentbus.Open(st, cfg.InstanceID)
	}
	if err != nil {
		st.Close()
		return nil, err
	}
	w.beats = beats{life: cfg.life(), log: w.named(), wrote: inner.OfKeeper(w.keeper).Wrote, soon: newSignal()}
	w.member = w.newMember(bus)
	w.jobs = w.newJobs()
	return w, nil
}

func (w *Worker) newMember(bus intentbus.Bus) *membership.Member {
	me := membership.WhoAmI(w.cfg.Name)
	me.Life = w.cfg.life().Milliseconds()
	return &membership.Member{
		Registry: membership.Registry{
			Me: me, Instance: w.cfg.InstanceID, SingleWriter: w.cfg.SingleWriter, Life: w.cfg.life(), Bus: bus, Logger: w.log.Logger,
			Evict: inner.OfKeeper(w.keeper).Evict, FateOf: me.FateOf, Pause: w.pause, Tried: w.beats.registry.Note,
			Deliver: func(entries []intentbus.Entry) {
				w.loop.inbox.put(message{f: func() { w.jobs.Deliver(w.loop.machine, entries, w.loop.step) }})
			},
			Quit: func() bool { return w.ctx.Err() != nil },
		},
		Renew: cmp.Or(w.cfg.Store.Leases.RenewInterval, w.cfg.life()/3),
		Tell:  w.loop.post, AwaitCapacity: w.awaitCapacity, Kick: w.beats.soon.raise, Fetched: w.fetched(),
		Query: func(f func(*core.Machine)) bool { return w.loop.query(w.ctx, f) },
	}
}

// fetched returns the observer of fetches. If Redis denies the fetches, the
// worker keeps its heartbeat, but does no work.
func (w *Worker) fetched() func(error) {
	w.fetches.Life = w.cfg.life()
	bus := &outage{log: w.named(), what: "bus"}
	return func(err error) {
		w.fetches.Note(err)
		bus.note(err)
	}
}

func (w *Worker) heard(e lease.Event) {
	callback.Tell(w.log.Calls, "Config.Notify", w.cfg.Notify, e)
	switch e.Kind {
	case lease.EventRenewed:
		w.loop.post(core.Event{Kind: core.EvRenewed, Lease: e.Name, Fence: e.Fence, Until: w.loop.at(e.Until)})
	case lease.EventLost:
		w.loop.post(core.Event{Kind: core.EvLost, Lease: e.Name, Fence: e.Fence})
	}
}

// hinted handles a message that requests the stop of a session of this worker.
// It waits for the loop, so that no flood fills the inbox.
func (w *Worker) hinted(session string) {
	has := false
	if w.loop.query(w.ctx, func(m *core.Machine) { has = m.Has(session) }) && has {
		w.tasks.Go(func() { w.member.CheckStop(w.ctx, session) })
	}
}

func (w *Worker) awaitCapacity() bool {
	select {
	case <-w.loop.idle:
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

// named returns the log with the worker's ID.
func (w *Worker) named() *zap.Logger { return w.log.With(zap.String("worker", w.cfg.InstanceID)) }

// InstanceID returns the owner of the worker's leases.
func (w *Worker) InstanceID() string { return w.cfg.InstanceID }

// Start begins the work, until Stop. ctx bounds only the call of Start. Start
// returns once the worker is in the registry and has cleaned up after a dead
// process of its name. A single writer also waits until no other worker is
// alive.
//
// Unlike lease.Keeper.Start, it waits while Redis does not answer or refuses to
// write (OOM, NOREPLICAS, READONLY, MISCONF), because it needs Redis to detect
// ErrOtherWorker and to free a dead process' leases. Only ctx or Stop ends that
// wait. Health reports the reason for the wait, so serve the readiness probe
// before you call Start, or call Run in a goroutine.
//
// Errors: ErrOtherWorker, ErrStopped, those of lease.Keeper.Start, the denial
// of an ACL, or the error of ctx with the last failure.
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
		return w.member.Bus.Explain(err)
	}
	if err := w.member.Join(ctx); err != nil {
		return w.member.Bus.Explain(err)
	}
	w.up.Store(true)
	w.loop.idle.raise()
	w.loops.Go(w.loop.run)
	w.loops.Go(func() { w.member.Consume(w.ctx) })
	w.loops.Go(func() { w.beats.run(w.ctx, w.member) })
	w.loops.Go(func() {
		soon := w.beats.soon.raise
		w.member.Bus.Listen(w.ctx, w.hinted, func(string) { soon() }, soon)
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
	h = w.fetches.Add(w.beats.registry.Add(h, "the registry of workers or the bus"), "the bus")
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
	w.member.Bus.Close() // ends a read in flight; another worker begins its entries
	var err error
	if begun {
		w.loop.post(core.Event{Kind: core.EvDrain})
		err = w.leftBehind(<-w.drained)
	}
	w.cancel()
	w.loop.inbox.close()
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
