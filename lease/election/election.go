package election

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	rules "github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
)

// ErrRunning: this member's Run is already running.
var ErrRunning = errors.New("Run is running for this member already")

// Election is this process's membership in one election. It is safe for
// concurrent use. It cannot be restarted: after Stop, make another Election.
type Election struct {
	g       *Group
	own     bool // the group belongs to this election alone
	key     string
	beatKey string // key of this member's heartbeat
	prefix  string

	lead    atomic.Pointer[lease.Lease] // set while this member leads and does not stop
	started atomic.Bool                 // set under g.mu
	state   atomic.Uint32
	known   atomic.Pointer[rules.Leadership]
	stats   stats

	done chan struct{} // closed when the member has withdrawn
	life context.Context
	end  context.CancelCauseFunc // ends the contexts of Run

	// Guarded by g.mu.
	m         *rules.Machine
	listeners []*listener
	hold      *lease.Lease
	asked     time.Time         // time of the last attempt to acquire or renew the lease
	terms     chan *lease.Lease // the leaderships that Run waits for; nil: Run is not running
}

// New makes a member of one election with its own connections. Nothing runs
// before Start. New only reads the client's settings and never closes the
// client. For many elections in one process make a Group. Errors:
// lease.ErrInvalidConfig.
func New(client redis.UniversalClient, cfg Config) (*Election, error) {
	g, err := NewGroup(client, cfg)
	if err != nil {
		return nil, err
	}
	e, err := g.Election("")
	if err != nil {
		return nil, errors.Join(err, g.Stop())
	}
	e.own = true
	return e, nil
}

// Start makes this member take part in the election until Stop. The first
// attempt follows after a random delay of at most Config.StartDelayMax. ctx
// bounds only the call of Start; Run binds the member to a context. Start waits
// and fails as lease.Keeper.Start does. It returns lease.ErrStopped if the
// member or its Group has been stopped.
func (e *Election) Start(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.g.start(ctx); errors.Is(err, lease.ErrStopped) {
		return e.over()
	} else if errors.Is(err, redisstore.ErrDenied) { // for the group's rights, which are fewer
		return cmp.Or(e.permitted(ctx), err)
	} else if err != nil {
		return err
	}
	if !e.started.Load() { // Run calls Start again on a started member, whose rights are known
		if err := e.permitted(ctx); err != nil {
			return err
		}
	}
	e.g.mu.Lock()
	defer e.g.mu.Unlock()
	switch {
	case e.g.closing.Load() || e.m.Stopped():
		return e.over()
	case e.started.Swap(true):
		return nil
	}
	e.g.step(e, rules.Input{Kind: rules.Start, Now: e.g.now()})
	return nil
}

// permitted refuses an ACL that denies what this election needs. Any other failure may pass.
func (e *Election) permitted(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, e.g.cfg.OpTimeout)
	defer cancel()
	err := e.g.requests.store.Permitted(ctx, redisstore.Use{Registry: true, Leases: []string{e.key}})
	if errors.Is(err, redisstore.ErrDenied) {
		return fmt.Errorf("election %q: %w", e.key, err)
	}
	return nil
}

// Health reports whether this member can be elected, or can go on leading, and
// if not, why, for a readiness probe. It sends no request and knows only the
// outcomes of the member's requests: a leader's renewals and heartbeats, or a
// follower's one read per Config.ElectionInterval. So when Redis answers again,
// a follower may report that one interval late.
func (e *Election) Health() lease.Health {
	h := e.g.keeper.Health()
	started := e.started.Load()
	switch {
	case e.g.closing.Load() || e.life.Err() != nil: // without the lock, which Config.Observe may hold forever
		h.State, h.Reason = lease.HealthStopped, "this member has stopped; make another"
	case !started && h.State != lease.HealthRefused && h.State != lease.HealthSilent && h.State != lease.HealthBlocked:
		h.State, h.Reason = lease.HealthNotStarted, "Start was not called, has not returned, or failed"
	case h.OK():
		h.Reason = strings.Replace(h.Reason, "leases are granted", "a member can be elected", 1)
	}
	h = e.g.requests.beating.Add(h, "heartbeats cannot be set")
	if e.State() == StateLeader { // a leader does not read: its last failed read is outdated
		return h
	}
	return e.g.requests.looking.Add(h, "the leader cannot be read")
}

func (e *Election) over() error {
	return fmt.Errorf("%w: election %q: a stopped member cannot start again; make another", lease.ErrStopped, e.key)
}

// Stop withdraws this member. IsLeader is false at once, and the context of
// Run's function ends. When the function has returned, the member releases its
// leadership, and the other members notice at once.
//
// Stop waits at most Config.DrainTimeout for the function. If it has not
// returned by then, the leadership is left to expire, and Stop returns a
// *lease.OpError. Stop then waits for Redis, as Group.Stop does, and returns a
// *lease.OpError if Redis refuses or does not confirm the release. In a Group,
// only Group.Stop waits for Redis.
func (e *Election) Stop() error {
	if e.own {
		return e.g.Stop()
	}
	e.withdraw()
	timer := time.NewTimer(e.g.cfg.DrainTimeout)
	defer timer.Stop()
	return e.await(timer.C)
}

func (e *Election) withdraw() {
	e.end(lease.ErrStopped)
	e.g.mu.Lock()
	defer e.g.mu.Unlock()
	e.g.step(e, rules.Input{Kind: rules.Stop, Now: e.g.now()})
}

// await waits for the end. After late it abandons the leadership, which then expires.
func (e *Election) await(late <-chan time.Time) error {
	select {
	case <-e.done:
		return nil
	default:
	}
	select {
	case <-e.done:
		return nil
	case <-late:
	}
	e.g.mu.Lock()
	hold := e.hold
	e.g.mu.Unlock()
	if hold != nil {
		inner.OfLease(hold).Abandon()
	}
	return &lease.OpError{Op: "stop", Name: e.key, Unknown: true, Err: fmt.Errorf("%w: election %q: the work under the leadership has not "+
		"returned after %v; the leadership expires within %v", inner.ErrUnknown, e.key, e.g.cfg.DrainTimeout, e.g.cfg.LeaderTTL)}
}

// IsLeader reports whether this member leads now. It reads local memory: no
// request, no allocation. It is false while a renewal is overdue. The result
// can be outdated at once, so send the fence with the work that it allows.
func (e *Election) IsLeader() bool {
	h := e.lead.Load()
	return h != nil && h.Valid()
}

// Fence returns the fence of this member's leadership, or false if it does not
// lead now.
func (e *Election) Fence() (int64, bool) {
	h := e.lead.Load()
	if h == nil || !h.Valid() {
		return 0, false
	}
	return h.Fence(), true
}

// State returns the member's state. While a renewal is overdue, the state can
// still be LEADER although IsLeader is false. No other member can lead until
// this member's window ends; then this member is FOLLOWER.
func (e *Election) State() State { return State(e.state.Load()) }

// Leadership describes a leader.
type Leadership struct {
	Instance string
	// Fence is 0 if it is unknown: some libraries have none.
	Fence int64
	// Since is when this member was elected, or first saw that other leader.
	Since time.Time

	_ struct{}
}

// Leader returns the leader known to this member. It returns false if it knows
// none, or if it has not seen the last one for a LeaderTTL. Leader reads local
// memory and is for display; decide with IsLeader only.
func (e *Election) Leader() (Leadership, bool) {
	l := e.known.Load()
	if l == nil || !l.At(e.g.now().Mono) {
		return Leadership{}, false
	}
	return Leadership{Instance: l.Instance, Fence: l.Fence, Since: e.g.time(l.Since)}, true
}

// InstanceID returns this member's ID.
func (e *Election) InstanceID() string { return e.g.cfg.InstanceID }

// Key returns the leader key, which names the election.
func (e *Election) Key() string { return e.key }

// Subscribe calls f with every event from now on, in order, one at a time,
// until cancel. If this member leads, f first gets EventLeadershipAcquired of
// the current leadership. If f is 65,536 events behind, it misses some, and
// Event.Dropped counts them. If f blocks or panics, other listeners and the
// election are not affected. After cancel no call begins.
func (e *Election) Subscribe(f func(Event)) (cancel func()) {
	l := newListener(f, e.g.log.Calls)
	e.g.mu.Lock()
	defer e.g.mu.Unlock()
	if e.m.State() == rules.Leader {
		own := e.m.Leader()
		l.Put(Event{Kind: EventLeadershipAcquired, Election: e.key, Fence: own.Fence, Leader: own.Instance,
			At: e.g.time(own.Since)})
	}
	e.listeners = append(e.listeners, l)
	return func() {
		l.removed.Store(true)
		l.Close()
		e.g.mu.Lock()
		defer e.g.mu.Unlock()
		e.listeners = slices.DeleteFunc(e.listeners, func(x *listener) bool { return x == l })
	}
}

// Stats has counters since New.
type Stats struct {
	// Acquired and Lost: leaderships that began and ended. Failed: failed
	// attempts.
	Acquired, Lost, Failed int64
	// LeaderChanges: changes of leader or fence that this member saw.
	LeaderChanges int64
	// HeartbeatsStale: how often a leader's heartbeat went stale while the
	// leader held the key.
	HeartbeatsStale    int64
	HeartbeatsInvalid  int64
	DuplicateInstances int64
	// HeartbeatsSwept: deleted heartbeats of dead leaders. Cycles: reads as a
	// follower.
	HeartbeatsSwept, Cycles int64

	_ struct{}
}

type stats struct {
	events        [len(eventNames)]atomic.Int64
	swept, cycles atomic.Int64

	mu                   sync.Mutex
	takeovers, handovers inner.Histogram // how long there was no leader before this member led, if known
}

// lags are the bounds of the time without a leader, in s.
var lags = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

func (s *stats) acquired(ev *lease.Event) {
	if ev.VacantSince.IsZero() {
		return
	}
	h := &s.takeovers
	if ev.GivenBack {
		h = &s.handovers
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.Observe(ev.At.Sub(ev.VacantSince))
}

// Stats returns the counters.
func (e *Election) Stats() Stats {
	n := func(k EventKind) int64 { return e.stats.events[k].Load() }
	return Stats{
		Acquired: n(EventLeadershipAcquired), Lost: n(EventLeadershipLost), Failed: n(EventElectionFailed),
		LeaderChanges: n(EventLeaderChanged), HeartbeatsStale: n(EventHeartbeatStale),
		HeartbeatsInvalid: n(EventHeartbeatInvalid), DuplicateInstances: n(EventDuplicateInstance),
		HeartbeatsSwept: e.stats.swept.Load(), Cycles: e.stats.cycles.Load(),
	}
}
