package poll

import (
	"cmp"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/lifetime"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/lease"
)

// Causes (context.Cause) of the end of a poll's context.
var (
	ErrUncertain = errors.New("a renewal failed: the lease is uncertain")
	ErrDrained   = errors.New("the drain timeout is over")
)

// SessionManager polls the sessions that this instance owns. It is safe for
// concurrent use.
type SessionManager struct {
	cfg      Config
	leases   *lease.Manager
	sessions *sessions // nil: the sessions are not in Redis
	log      *zaplog.Log

	life  *lifetime.Lifetime
	quit  chan struct{} // ends the scheduler
	ended chan struct{} // closed when the scheduler has ended

	wake chan struct{}

	base    time.Time // zero of core.Time
	timings policy.Polls

	mu         sync.Mutex
	publishers map[string]*publisher
	agenda     agenda
	running    int
	warnings   warnings
	idle       chan struct{} // closed while stopping, once no poll runs
}

// New makes the session manager of one instance. client connects to the Redis
// of the sessions and the leases; New only reads the client's settings and
// never closes the client. leases.Notify must be nil. Empty names in leases get
// the defaults of lease.ManagerConfig ("poll:lease:" and so on). Errors:
// lease.ErrInvalidConfig.
func New(client redis.UniversalClient, leases lease.Config, cfg Config) (*SessionManager, error) {
	cfg, err := cfg.withDefaults(leases)
	if err != nil {
		return nil, err
	}
	if leases.Logger == nil {
		leases.Logger = zaplog.Default()
	}
	leases.InstanceID = cmp.Or(leases.InstanceID, lease.GenerateInstanceID())
	log := zaplog.NewLog(leases.Logger, leases.InstanceID)
	leases.Logger = log.Logger // one queue keeps the log in order
	if leases.DrainTimeout == 0 {
		leases.DrainTimeout = cfg.DrainTimeout + cfg.Stuck
	}
	m := &SessionManager{
		cfg:  cfg,
		base: time.Now().Add(-1),
		timings: policy.Polls{Interval: core.Time(cfg.Interval), Timeout: core.Time(cfg.Timeout), Stuck: core.Time(cfg.Stuck),
			Long: cfg.LongPolls},
		log:        log,
		life:       lifetime.New(),
		publishers: map[string]*publisher{},
		wake:       make(chan struct{}, 1),
		quit:       make(chan struct{}),
		ended:      make(chan struct{}),
	}
	m.warnings = warnings{log: log.Logger, instance: leases.InstanceID, publishers: m.publishers}
	leases.Notify = m.notify
	if cfg.Sessions == nil {
		if m.sessions, err = newSessions(client, &cfg, &leases); err != nil {
			return nil, err
		}
		cfg.Sessions = m.sessions.list
	}
	config := lease.ManagerConfig{Config: leases, Sessions: cfg.Sessions, NamedSessions: cfg.NamedSessions}
	if m.leases, err = lease.NewManager(client, config); err != nil {
		m.sessions.close()
		return nil, err
	}
	return m, nil
}

// Leases returns the lease manager, for reading. The session manager starts and
// stops it.
func (m *SessionManager) Leases() *lease.Manager { return m.leases }

// Start begins discovery, placement and polling of the sessions, until Stop.
// ctx bounds only the call of Start. Start returns the errors of
// lease.Manager.Start. If an ACL denies access to the sessions, the error has
// the rules to add.
func (m *SessionManager) Start(ctx context.Context) error {
	return m.life.Start(lease.ErrStopped, func() error {
		if err := m.sessions.permitted(ctx); err != nil {
			return err
		}
		if err := m.leases.Start(ctx); err != nil {
			return err
		}
		go m.schedule()
		return nil
	})
}

// Run calls Start, and Stop as soon as ctx ends. Like lease.Manager.Run, it
// returns nil after a requested stop.
func (m *SessionManager) Run(ctx context.Context) error { return m.life.Run(ctx, m.Start, m.Stop) }

// Health reports whether this instance can poll sessions, and if not, why, for
// a readiness probe. It counts malformed sessions and names some. It sends no
// requests. If polls fail, the state stays ok, because another instance would
// not reach the target either. Reason then has the number of failing sessions.
func (m *SessionManager) Health() lease.Health {
	h := m.leases.Health()
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.warnings.failures(h)
}

// Stop drains: no further poll begins, running polls may end within
// Config.DrainTimeout and are then cancelled, and each lease is released once
// its poll has returned. Every call of Stop waits for the end and returns the
// same result: a *lease.OpError if a poll or another function of the caller's
// did not return, or if Redis refused or did not confirm a release. Unreleased
// leases expire.
func (m *SessionManager) Stop() error { return m.life.Stop(m.end) }

func (m *SessionManager) end(begun bool) error {
	defer m.sessions.close()
	if !begun {
		return errors.Join(m.leases.Stop(), m.logged())
	}
	late := time.AfterFunc(m.cfg.DrainTimeout, m.cancelAll)
	err := m.leases.Stop()
	late.Stop()
	m.cancelAll()
	m.mu.Lock()
	m.idle = make(chan struct{})
	if m.running == 0 {
		close(m.idle)
	}
	m.mu.Unlock()
	timer := time.NewTimer(m.cfg.Stuck)
	defer timer.Stop()
	select {
	case <-m.idle:
	case <-timer.C:
		m.mu.Lock()
		err = errors.Join(err, &lease.OpError{Op: "stop", Unknown: true, Err: fmt.Errorf("%w: %d polls have not returned %v after their "+
			"contexts ended; their leases expire", inner.ErrUnknown, m.running, m.cfg.Stuck)})
		m.mu.Unlock()
	}
	close(m.quit)
	<-m.ended
	return errors.Join(err, m.logged())
}

// logged waits up to a second for the log.
func (m *SessionManager) logged() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return m.log.Flushed(ctx, inner.ErrStuck)
}

// Polled returns the sessions that this instance polls, ascending: those of
// Leases().OwnedSessions, once their polling has begun.
func (m *SessionManager) Polled() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	ids := []string{}
	for id, p := range m.publishers {
		if p.hold != nil {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// notify runs in the loop of the leases, so it only queues the work.
func (m *SessionManager) notify(e lease.Event) {
	callback.Tell(m.log.Calls, "Config.Notify", m.cfg.Notify, e)
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.publishers[e.Name]
	if e.Kind == lease.EventAcquired {
		if p == nil {
			p = &publisher{id: e.Name, index: -1}
			m.publishers[e.Name] = p
		}
		p.hold = e.Lease
		m.do(p, p.polls.Acquired(m.at(e.At)), nil)
		return
	}
	if p == nil || p.hold == nil || p.hold != e.Lease {
		return
	}
	switch e.Kind {
	case lease.EventRenewed:
		m.do(p, p.polls.Renewed(), nil)
	case lease.EventUncertain:
		m.do(p, p.polls.Uncertain(m.now(), &m.timings), ErrUncertain)
	case lease.EventLost, lease.EventReleased:
		p.hold = nil
		m.do(p, p.polls.Over(m.now(), &m.timings), fmt.Errorf("%w: %s", lease.ErrLost, e.Reason))
	case lease.EventYield:
		m.do(p, p.polls.Yield(), nil)
	case lease.EventKept:
		m.do(p, p.polls.Kept(), nil)
	}
}

func (m *SessionManager) now() core.Time { return m.at(time.Now()) }

func (m *SessionManager) at(t time.Time) core.Time { return core.Time(t.Sub(m.base)) }

// do carries out a decision on p's polls. cause is the cause of the context of a poll that ends.
func (m *SessionManager) do(p *publisher, s policy.Step, cause error) {
	if s.Wake != 0 {
		m.wakeAt(p, s.Wake)
	}
	if s.Cancel {
		p.run.cancel(cause)
	}
	if s.Begin {
		m.begin(p)
	}
	if s.Abandon {
		m.abandon(p)
	}
	if s.Yield {
		inner.OfLease(p.hold).Yield()
	}
	if s.Drop {
		p.hold.Drop()
	}
	if s.Forget {
		m.remove(p)
	}
}

func (m *SessionManager) wakeAt(p *publisher, t core.Time) {
	p.wakeAt = t
	if p.index >= 0 {
		heap.Fix(&m.agenda, p.index)
	} else {
		heap.Push(&m.agenda, p)
	}
	if p.index == 0 {
		select {
		case m.wake <- struct{}{}:
		default:
		}
	}
}

func (m *SessionManager) remove(p *publisher) {
	if p.index >= 0 {
		heap.Remove(&m.agenda, p.index)
	}
	delete(m.publishers, p.id)
}

func (m *SessionManager) cancelAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.publishers {
		m.do(p, p.polls.Stop(m.now(), &m.timings), ErrDrained)
	}
}

// schedule begins polls when they are due. It is the only goroutine besides the running polls.
func (m *SessionManager) schedule() {
	defer close(m.ended)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-m.quit:
			return
		case <-m.wake:
		case <-timer.C:
		}
		m.mu.Lock()
		now := m.now()
		for len(m.agenda) > 0 && m.agenda[0].wakeAt <= now {
			p := heap.Pop(&m.agenda).(*publisher)
			m.due(p, now)
			now = m.now()
		}
		if len(m.agenda) > 0 {
			timer.Reset(time.Duration(m.agenda[0].wakeAt - now))
		} else {
			timer.Stop()
		}
		m.mu.Unlock()
	}
}

// due handles p's wake-up. now is read before the term is checked, so the result of the check was true at now.
func (m *SessionManager) due(p *publisher, now core.Time) {
	var until core.Time
	believed := false
	if p.hold != nil {
		until, believed = m.at(inner.OfLease(p.hold).WindowEnd()), p.hold.Valid()
	}
	m.do(p, p.polls.Due(now, until, believed, &m.timings), nil)
}

// abandon gives up the lease of a poll that does not end, or the lease acquired since then.
func (m *SessionManager) abandon(p *publisher) {
	hold := p.run.hold
	if p.hold != nil {
		hold = p.hold
	}
	// The entry comes first, so that the log explains the following loss.
	m.log.Error("A poll does not return after its context ended; its lease will expire", zap.String("event", "pollStuck"),
		zap.String("instance", m.leases.InstanceID()), zap.String("endpoint", p.id), zap.Int64("fence", hold.Fence()))
	p.run.abandoned = append(p.run.abandoned, hold)
	inner.OfLease(hold).Abandon()
}

func (m *SessionManager) begin(p *publisher) {
	ctx, end := context.WithDeadline(context.Background(), m.base.Add(time.Duration(p.polls.Ends)))
	ctx, cancel := context.WithCancelCause(ctx)
	p.run = &run{hold: p.hold, cancel: func(err error) { cancel(err); end() }}
	m.running++
	go m.poll(ctx, p, p.run)
}

func (m *SessionManager) poll(ctx context.Context, p *publisher, r *run) {
	s := Session{ID: p.id, Fence: r.hold.Fence(), Began: time.Now()}
	defer m.finished(p, r)
	if !policy.Turn(r.hold.Valid(), ctx.Err() != nil) {
		r.policy = policy.Unbegun
		return
	}
	err := callback.Call("Poll", func() error { return m.cfg.Poll(ctx, s) })
	r.err = err
	if callback.Stack(err) != nil {
		m.log.Error("Poll panicked", zap.String("event", "pollPanicked"), zap.String("instance", m.leases.InstanceID()),
			zap.String("endpoint", s.ID), zap.NamedError("panic", err), zaplog.Stack(err))
		return
	}
	if errors.Is(err, ErrFenced) {
		r.policy = policy.Fenced
	}
	r.err, r.stopped = outcomeOf(ctx, err, m.cfg.Timeout)
	if err != nil {
		m.log.Debug("Poll failed", zap.String("event", "pollFailed"), zap.String("instance", m.leases.InstanceID()),
			zap.String("endpoint", s.ID), zap.Int64("fence", s.Fence), zap.Error(err))
	}
}

func (m *SessionManager) finished(p *publisher, r *run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.cancel(nil)
	p.run = nil
	m.running--
	m.warnings.judge(p, r)
	if m.idle != nil && m.running == 0 {
		close(m.idle)
	}
	step := p.polls.Returned(r.policy)
	if step.Recover {
		for _, hold := range r.abandoned {
			inner.OfLease(hold).Recovered()
		}
	}
	m.do(p, step, nil)
}
