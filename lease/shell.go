package lease

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/lifetime"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// store is the part of internal/redisstore that a shell uses.
type store interface {
	Do(ctx context.Context, op *core.Op) core.Answer
	Look(ctx context.Context, op *core.Op, s *core.Sessions) core.Answer
	Subscribe(ctx context.Context, renew time.Duration, heard func(core.Notice), up func(error))
	Nodes(ctx context.Context) ([]core.Seen, error)
	Pass(ctx context.Context, owner, heir string, ttl time.Duration, ids ...string) ([]string, error)
	Check(ctx context.Context) ([]redisstore.Warning, error)
	Permitted(ctx context.Context, use redisstore.Use) error
	Line(use redisstore.Use) string
	CheckQuarantine(ctx context.Context) error
	Surplus(ctx context.Context) error
	Begin(ctx context.Context) (why string)
	TooShort(needs, agreed time.Duration) error
	CheckLease(name string) error
	Asked(ctx context.Context, g redisstore.Give) (from string)
	Done(ctx context.Context, name string) (bool, error)
	NoteDone(ctx context.Context, h redisstore.Holding, life time.Duration) (bool, error)
	Close() error
}

// shell runs a core. One loop owns the core, a few workers send its requests, one goroutine receives notices, and one writes the log
// while there are entries. All other methods are called from outside the loop.
type shell struct {
	cfg    ManagerConfig
	keeper bool // serves a Keeper, whose terms are for callers and listeners
	store  store
	base   time.Time // zero of core.Time
	table  table
	hub    hub
	counts *renewalCounts
	log    *zaplog.Log
	state  atomic.Int32

	ctx     context.Context // of all requests
	cancel  context.CancelFunc
	workers sync.WaitGroup
	lanes   [laneCount]*lane

	life *lifetime.Lifetime

	passed  passedOn
	outside chan struct{} // one slot for each caller's read in flight
	inbox   inbox
	drained chan struct{} // closed at the end of a drain

	// Owned by the loop.
	core     *core.Core
	todo     []core.Event // events for the core that the tells of a step cause
	waiters  policy.Waiters[*waiter, *refusal]
	releases policy.Releases[chan error]
	draining bool
	allGiven bool // the core holds nothing any more
	changing int  // requests in flight that change leases
	listened listened
	holds    []*Lease // carry's scratch space
	events   []Event  // announced, and not published yet
	failed   failedLast
	asks     asks

	diagnosis

	source source
}

func newShell(client redis.UniversalClient, cfg ManagerConfig, keeper bool) (*shell, error) {
	log := zaplog.NewLog(cfg.Logger, cfg.InstanceID)
	cfg.Logger = log.Logger
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	st, err := redisstore.New(client, cfg.store())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidConfig, err)
	}
	s := startShell(st, cfg, keeper)
	s.log = log
	s.opened(client, st)
	return s, nil
}

// startShell makes a shell of a validated configuration. Nothing runs before start.
func startShell(st store, cfg ManagerConfig, keeper bool) *shell {
	cc := cfg.core()
	cc.Place, cc.NoHeartbeat = cfg.Sessions != nil, keeper
	s := &shell{
		cfg:       cfg,
		keeper:    keeper,
		store:     st,
		counts:    newRenewals(),
		log:       zaplog.NewLog(cfg.Logger, cfg.InstanceID),
		base:      time.Now().Add(-1), // so that no reading is 0, which means never
		core:      core.New(cc),
		diagnosis: newDiagnosis(&cfg.Config),
		life:      lifetime.New(),
		drained:   make(chan struct{}),
		outside:   make(chan struct{}, outsideMax),
	}
	s.waiters.Shared = !keeper
	s.inbox.wake = make(chan struct{}, 1)
	s.source.read = cfg.Sessions
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// now reads both clocks at once.
func (s *shell) now() core.Now {
	t := time.Now()
	return core.Now{Mono: core.Time(t.Sub(s.base)), Wall: t.UnixNano()}
}

func (s *shell) time(t core.Time) time.Time { return s.base.Add(time.Duration(t)) }

func (s *shell) start(ctx context.Context) error {
	return s.life.Start(ErrStopped, func() error { return s.begin(ctx) })
}

func (s *shell) begin(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.check(ctx); err != nil {
		return err
	}
	for i := range s.lanes {
		s.lanes[i] = newLane()
		for range laneWorkers[i] {
			s.workers.Go(func() { s.work(s.lanes[i]) })
		}
	}
	s.workers.Go(func() { s.store.Subscribe(s.ctx, s.cfg.RenewInterval, s.heard, s.subscribed) })
	s.workers.Go(s.loop)
	s.workers.Go(s.watch)
	if s.cfg.Replicas > 0 {
		s.workers.Go(s.countReplicas)
	}
	s.event(core.Event{Kind: core.EvStart})
	return nil
}

func (s *shell) run(ctx context.Context) error { return s.life.Run(ctx, s.start, s.stop) }

// stop ends everything. Every call waits for the end and returns the same error.
func (s *shell) stop() error { return s.life.Stop(s.end) }

// inbox is the loop's queue. Putting never waits, so nothing called from the loop can deadlock it. The requests in flight, the number of
// callers, and noticeMax bound its length.
type inbox struct {
	mu     sync.Mutex
	items  []message
	closed bool
	heard  int  // approximate bytes of the notices in items
	missed bool // notices were dropped: run a discovery instead
	wake   chan struct{}
}

// message is a function to run, a term to release, or an event for the core.
type message struct {
	run   func()
	drop  *Lease
	yield int64 // with drop: only while that yield is pending; 0: in any case
	ev    core.Event
	op    *core.Op // the request of an EvAnswer
}

// Bounds of the inbox, in messages and in bytes of notices. Beyond them, notices are dropped.
const (
	noticeMax   = 4096
	noticeBytes = 1 << 20
)

func (b *inbox) put(m message) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	size := 0
	if m.ev.Kind == core.EvNotice {
		size = noticeSize(&m.ev.Notice)
	}
	if size > 0 && (len(b.items) >= noticeMax || b.heard >= noticeBytes) {
		b.missed = true
	} else {
		b.items = append(b.items, m)
		b.heard += size
	}
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) take(old []message) (items []message, missed, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, b.items = b.items, old[:0]
	missed, b.missed, b.heard = b.missed, false, 0
	return items, missed, b.closed
}

func (s *shell) post(f func())       { s.inbox.put(message{run: f}) }
func (s *shell) event(ev core.Event) { s.inbox.put(message{ev: ev}) }
func (s *shell) heard(n core.Notice) { s.event(core.Event{Kind: core.EvNotice, Notice: n}) }
func (s *shell) answered(op *core.Op, a core.Answer) {
	s.inbox.put(message{ev: core.Event{Kind: core.EvAnswer, Answer: a}, op: op})
}

// loop is the only goroutine that touches the core.
func (s *shell) loop() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var batch []message
	var due core.Time
	for {
		var tick bool
		select {
		case <-s.inbox.wake:
		case <-timer.C:
			tick = true
		}
		s.stalled(due)
		turn := s.log.Calls.Begin("the loop of this instance", s.late()) // allowed longer than the functions that it calls
		if tick {
			s.step(core.Event{Kind: core.EvTick})
		}
		var missed, closed bool
		batch, missed, closed = s.inbox.take(batch)
		s.handle(batch)
		clear(batch)
		if missed {
			s.step(core.Event{Kind: core.EvSubscribed})
		}
		if closed {
			turn.End()
			return
		}
		s.report()
		due = s.arm(timer)
		turn.End()
	}
}

// handle processes the inbox in order. It passes consecutive releases to the core as one. A requested release keeps its cause.
func (s *shell) handle(batch []message) {
	for i := range batch {
		m := &batch[i]
		if m.drop != nil {
			if s.table.get(m.drop.name) == m.drop && (m.yield == 0 || m.yield == m.drop.yielding.Load()) {
				s.todo = append(s.todo, core.Event{Kind: core.EvDrop, ID: m.drop.name, Cause: core.CauseRequested})
			}
			continue
		}
		s.settleTodo()
		switch {
		case m.run != nil:
			m.run()
		case m.ev.Notice.Kind == redisstore.NoticeGive:
			s.give(&m.ev.Notice)
		case m.op != nil:
			s.noted(m.op, &m.ev.Answer)
			s.step(m.ev)
			s.settled(m.op, &m.ev.Answer)
		default:
			s.step(m.ev)
		}
	}
	s.settleTodo()
}

// arm sets the timer for the core's next wake-up, and returns when it fires, 0 for never.
func (s *shell) arm(timer *time.Timer) core.Time {
	next := s.core.Next()
	if next == 0 {
		timer.Stop()
		return 0
	}
	now := s.now().Mono
	timer.Reset(time.Duration(max(0, next-now)))
	return max(next, now)
}

// step passes one event to the core and carries out the results. Tells come before requests, so that nobody believes in a finished term
// when the next request leaves.
func (s *shell) step(ev core.Event) {
	s.act(ev)
	s.settleTodo()
}

// settleTodo passes the queued events to the core and carries out the results.
func (s *shell) settleTodo() {
	for len(s.todo) > 0 {
		n := policy.MergeDrops(s.todo)
		ev := s.todo[0]
		s.todo = s.todo[n:]
		s.act(ev)
	}
	s.todo = nil
	s.drainedYet()
}

func (s *shell) act(ev core.Event) {
	ev.Now = s.now()
	eff := s.core.Step(ev)
	s.learn(func() {
		s.blocked, s.blockedBy = s.core.Blocked()
		s.disbelieved = s.core.Disbelieved()
	})
	s.carry(eff.Tells)
	s.dispatch(eff.Ops)
}

// dispatch sends requests on their lanes. It updates the trust table for all of them before any listener runs.
func (s *shell) dispatch(ops []core.Op) {
	for i := range ops {
		if policy.Renews(ops[i].Kind) {
			s.attempting(&ops[i])
		}
	}
	for i := range ops {
		op := ops[i]
		s.announceAttempt(&op)
		lane := laneOf(op.Kind)
		if lane == laneChange {
			s.changing++
		}
		s.lanes[lane].put(&op)
	}
}

// settled records that a request has ended, with or without an answer.
func (s *shell) settled(op *core.Op, a *core.Answer) {
	if laneOf(op.Kind) != laneChange {
		return
	}
	s.changing--
	s.confirmReleases(op, a)
	s.drainedYet()
}

// drainedYet ends a drain once nothing is held and no request is in flight. Before the connections close, an acquisition that was
// answered late is released and the heartbeat is gone (G13).
func (s *shell) drainedYet() {
	if s.allGiven && s.changing == 0 {
		s.allGiven = false
		close(s.drained)
	}
}

func (s *shell) report() {
	if s.draining {
		return
	}
	st := stateBalancing
	switch {
	case s.core.Settled() && !s.useless():
		st = stateSettled
	case state(s.state.Load()) == stateStarting:
		st = stateStarting
	}
	s.state.Store(int32(st))
}
