package poll

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/lease"
)

// Reasons why the context of a poll ended; context.Cause gives them.
var (
	ErrUncertain = errors.New("a renewal failed: the lease is uncertain")
	ErrDrained   = errors.New("the drain time-out is over")
)

// SessionManager polls the sessions that this instance owns. Safe for concurrent use.
type SessionManager struct {
	cfg      Config
	leases   *lease.Manager
	sessions *sessions // nil: they are not in Redis
	log      *zap.Logger

	life    sync.Mutex // Start and Stop
	begun   bool
	stopped chan struct{} // made by the first Stop, closed when it is done
	stopErr error
	quit    chan struct{} // ends the scheduler
	ended   chan struct{} // the scheduler has ended

	wake chan struct{}

	mu         sync.Mutex
	publishers map[string]*publisher
	agenda     agenda
	running    int
	cutTold    time.Time     // when polls that are cut off were last warned of
	idle       chan struct{} // closed while stopping, once no poll runs
}

// New makes the session manager of one instance. client is where the sessions and the leases are; it is read for its
// settings and never closed. leases' Notify must be nil; its Sessions, where given, takes the place of the sessions in Redis.
// Errors: ErrConfig, lease.ErrConfig.
func New(client redis.UniversalClient, leases lease.Config, cfg Config) (*SessionManager, error) {
	cfg, err := cfg.withDefaults(leases)
	if err != nil {
		return nil, err
	}
	if leases.Logger == nil {
		leases.Logger = zaplog.Default()
	}
	if leases.DrainTimeout == 0 {
		leases.DrainTimeout = cfg.DrainTimeout + cfg.Stuck
	}
	m := &SessionManager{
		cfg:        cfg,
		log:        leases.Logger,
		publishers: map[string]*publisher{},
		wake:       make(chan struct{}, 1),
		quit:       make(chan struct{}),
		ended:      make(chan struct{}),
	}
	leases.Notify = m.notify
	if leases.Sessions == nil {
		if m.sessions, err = newSessions(client, &cfg, &leases); err != nil {
			return nil, err
		}
		leases.Sessions = m.sessions.list
	}
	if m.leases, err = lease.New(client, leases); err != nil {
		m.sessions.close()
		return nil, err
	}
	return m, nil
}

// Leases returns the lease manager, to be asked. The session manager starts and stops it.
func (m *SessionManager) Leases() *lease.Manager { return m.leases }

// Start begins: sessions are found, placed and polled until Stop. ctx bounds the start only. Errors: those of
// lease.Manager.Start, and lease.ErrRefused, with the rules to add, where an ACL denies the sessions.
func (m *SessionManager) Start(ctx context.Context) error {
	m.life.Lock()
	defer m.life.Unlock()
	switch {
	case m.stopped != nil:
		return lease.ErrStopped
	case m.begun:
		return nil
	}
	if err := m.sessions.permitted(ctx); err != nil {
		return err
	}
	if err := m.leases.Start(ctx); err != nil {
		return err
	}
	m.begun = true
	go m.schedule()
	return nil
}

// Run is Start, and Stop as soon as ctx ends. It returns what Start said, or else what Stop said.
func (m *SessionManager) Run(ctx context.Context) error {
	if err := m.Start(ctx); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-m.ended:
	}
	return m.Stop()
}

// Health says whether sessions can be polled here, and if not, why: for a readiness probe. Malformed sessions are counted, and
// some are named. It asks nobody.
func (m *SessionManager) Health() lease.Health { return m.leases.Health() }

// Stop drains: no poll begins any more, running polls may end within Config.DrainTimeout and are then cancelled, and each
// lease is released once its poll has returned. Every call waits for the end and gets the same error: lease.ErrUnknown if
// a poll did not return or a release was not confirmed; those leases expire.
func (m *SessionManager) Stop() error {
	m.life.Lock()
	if m.stopped != nil {
		m.life.Unlock()
		<-m.stopped
		return m.stopErr
	}
	m.stopped = make(chan struct{})
	m.life.Unlock()
	defer close(m.stopped)
	defer m.sessions.close()
	if !m.begun {
		m.stopErr = m.leases.Stop()
		return m.stopErr
	}
	late := time.AfterFunc(m.cfg.DrainTimeout, m.cancelAll)
	m.stopErr = m.leases.Stop()
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
		m.stopErr = errors.Join(m.stopErr, fmt.Errorf("%w: %d polls have not returned %v after their contexts ended; their "+
			"leases expire", lease.ErrUnknown, m.running, m.cfg.Stuck))
		m.mu.Unlock()
	}
	close(m.quit)
	<-m.ended
	return m.stopErr
}

// Polled returns the sessions that have a publisher, ascending.
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

// notify runs in the loop of the leases: it only notes what follows.
func (m *SessionManager) notify(e lease.Event) {
	if m.cfg.Notify != nil {
		m.cfg.Notify(e)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.publishers[e.Name]
	if e.Kind == lease.EventAcquired {
		if p == nil {
			p = &publisher{id: e.Name, index: -1}
			m.publishers[e.Name] = p
		}
		p.hold, p.yielding, p.fenced, p.next = e.Hold, false, false, e.At
		switch {
		case p.run == nil:
			m.at(p, e.At)
		case p.run.abandoned:
			p.hold.Abandon() // the poll of an earlier term is still stuck
		}
		return
	}
	if p == nil || p.hold == nil || p.hold != e.Hold {
		return
	}
	switch e.Kind {
	case lease.EventRenewed:
		if p.run == nil && !p.yielding && p.index < 0 {
			m.at(p, p.next)
		}
	case lease.EventUncertain:
		m.cancel(p, ErrUncertain)
	case lease.EventLost, lease.EventReleased:
		p.hold = nil
		m.cancel(p, fmt.Errorf("%w: %s", lease.ErrLost, e.Reason))
		if p.run == nil {
			m.remove(p)
		}
	case lease.EventYield:
		p.yielding = true
		if p.run == nil {
			p.hold.Drop()
		}
	case lease.EventKept:
		p.yielding = false // where no poll runs, the lease is dropped already
	}
}

// publisher polls one session. It exists while its lease is held or its poll runs. Guarded by SessionManager.mu.
type publisher struct {
	id       string
	hold     *lease.Hold // the present term; nil: none
	yielding bool        // nothing new begins; the lease goes when the poll has returned
	fenced   bool        // the target refused its fence: the lease goes when the next poll would begin
	cut      int         // polls in a row that the time-out cut off
	next     time.Time   // when the next poll is planned
	run      *run        // the poll under way
	wakeAt   time.Time   // agenda
	index    int         // in the agenda; -1: not in it, a renewal will wake it
}

// run is one poll under way.
type run struct {
	hold      *lease.Hold
	planned   time.Time // the begin it was planned for
	unbegun   bool      // the lease was not believed any more when its turn came
	cancel    context.CancelCauseFunc
	endsAt    time.Time // when its context ends at the latest
	abandoned bool      // it did not return: its lease was given up
	fenced    bool      // the target refused its fence
	result    outcome
}

// at makes p be looked at at t.
func (m *SessionManager) at(p *publisher, t time.Time) {
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

// cancel ends the context of p's poll, if one runs, and looks after it.
func (m *SessionManager) cancel(p *publisher, cause error) {
	if p.run == nil {
		return
	}
	p.run.cancel(cause)
	if now := time.Now(); now.Before(p.run.endsAt) {
		p.run.endsAt = now
		m.at(p, now.Add(m.cfg.Stuck))
	}
}

func (m *SessionManager) cancelAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.publishers {
		m.cancel(p, ErrDrained)
	}
}

// schedule begins polls when they are due. It is the only goroutine beside the polls under way.
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
		now := time.Now()
		for len(m.agenda) > 0 && !m.agenda[0].wakeAt.After(now) {
			p := heap.Pop(&m.agenda).(*publisher)
			m.due(p, now)
			now = time.Now()
		}
		if len(m.agenda) > 0 {
			timer.Reset(m.agenda[0].wakeAt.Sub(now))
		} else {
			timer.Stop()
		}
		m.mu.Unlock()
	}
}

// due does what p was to be looked at for. now was read before anything is checked, so that it is a time at which the
// checks held.
func (m *SessionManager) due(p *publisher, now time.Time) {
	switch {
	case p.run != nil:
		m.lookAfter(p, now)
	case p.hold == nil || p.yielding:
	case now.Before(p.next):
		m.at(p, p.next)
	case p.fenced:
		p.hold.Drop()
	case !p.hold.Valid():
		// Uncertain: the renewal that ends it, or the loss, comes as an event.
	case !m.cfg.LongPolls && now.Add(m.cfg.Timeout).After(p.hold.Until()):
		// Too long for what is left of the window: the renewal comes as an event.
	default:
		m.begin(p, now)
	}
}

// lookAfter gives up the lease of a poll that does not end.
func (m *SessionManager) lookAfter(p *publisher, now time.Time) {
	if stuckAt := p.run.endsAt.Add(m.cfg.Stuck); now.Before(stuckAt) {
		m.at(p, stuckAt)
		return
	}
	p.run.abandoned = true
	// Said before it is done, so that the log explains the loss that follows.
	m.log.Error("Poll is stuck; its lease is given up", zap.String("event", "pollStuck"),
		zap.String("instance", m.leases.InstanceID()), zap.String("endpoint", p.id),
		zap.Int64("fence", p.run.hold.Fence()))
	p.run.hold.Abandon()
}

func (m *SessionManager) begin(p *publisher, now time.Time) {
	// The next is counted from the planned begin, so that the phase stays; what was missed is not made up for.
	planned := p.next
	p.next = p.next.Add(now.Sub(p.next).Truncate(m.cfg.Interval) + m.cfg.Interval)
	ctx, end := context.WithDeadline(context.Background(), now.Add(m.cfg.Timeout))
	ctx, cancel := context.WithCancelCause(ctx)
	p.run = &run{hold: p.hold, planned: planned, cancel: func(err error) { cancel(err); end() },
		endsAt: now.Add(m.cfg.Timeout)}
	m.at(p, p.run.endsAt.Add(m.cfg.Stuck))
	m.running++
	go m.poll(ctx, p, p.run)
}

func (m *SessionManager) poll(ctx context.Context, p *publisher, r *run) {
	s := Session{ID: p.id, Fence: r.hold.Fence(), Began: time.Now()}
	defer m.finished(p, r)
	defer func() {
		if cause := recover(); cause != nil {
			m.log.Error("Poll panicked", zap.String("event", "pollPanicked"), zap.String("instance", m.leases.InstanceID()),
				zap.String("endpoint", s.ID), zap.Any("panic", cause), zap.ByteString("stack", debug.Stack()))
		}
	}()
	if r.unbegun = ctx.Err() != nil || !r.hold.Valid(); r.unbegun {
		return // on a loaded machine the lease went while this goroutine waited for its turn (G4)
	}
	err := m.cfg.Poll(ctx, s)
	r.fenced, r.result = errors.Is(err, ErrFenced), outcomeOf(ctx, err)
	if err != nil {
		m.log.Debug("Poll failed", zap.String("event", "pollFailed"), zap.String("instance", m.leases.InstanceID()),
			zap.String("endpoint", s.ID), zap.Int64("fence", s.Fence), zap.Error(err))
	}
}

// finished goes on after a poll has returned.
func (m *SessionManager) finished(p *publisher, r *run) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.cancel(nil)
	p.run = nil
	m.running--
	m.judge(p, r)
	if r.unbegun && p.hold == r.hold {
		p.next = r.planned
	}
	if m.idle != nil && m.running == 0 {
		close(m.idle)
	}
	if r.abandoned {
		r.hold.Recovered()
	}
	switch {
	case p.hold == nil:
		m.remove(p)
	case p.yielding:
		p.hold.Drop()
	default:
		p.fenced = r.fenced && p.hold == r.hold // who gave it back at once could have it again at once, for as long as the target refuses
		m.at(p, p.next)
	}
}

// agenda is a heap of publishers by when they are to be looked at.
type agenda []*publisher

func (a agenda) Len() int           { return len(a) }
func (a agenda) Less(i, j int) bool { return a[i].wakeAt.Before(a[j].wakeAt) }
func (a agenda) Swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].index, a[j].index = i, j
}

// Push implements heap.Interface.
func (a *agenda) Push(x any) {
	p := x.(*publisher)
	p.index = len(*a)
	*a = append(*a, p)
}

// Pop implements heap.Interface.
func (a *agenda) Pop() any {
	old := *a
	p := old[len(old)-1]
	old[len(old)-1] = nil
	*a = old[:len(old)-1]
	p.index = -1
	return p
}
