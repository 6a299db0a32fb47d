package election

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/core"
	rules "github.com/leasestorm/leasestorm/internal/core/election"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/lifetime"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/lease"
)

// Group is this process's part in any number of elections, under one instance
// ID. They share connections, timers and renewals. A further election costs no
// goroutine and, led or followed, no request of its own but its read. It is
// safe for concurrent use.
type Group struct {
	cfg      Config
	log      *zaplog.Log
	keeper   *lease.Keeper
	requests *requests
	base     time.Time // zero of core.Time

	life    *lifetime.Lifetime
	quit    chan struct{} // ends the timer's goroutine
	workers sync.WaitGroup

	wake chan struct{}

	closing atomic.Bool // set under mu

	mu        sync.Mutex // guards everything below, and the machines
	elections map[string]*Election
	order     []*Election // in the order of creation, without withdrawn ones
	next      core.Time   // next wake-up of the timer's goroutine, 0: never
}

// NewGroup makes one process's part in elections. Nothing runs before the first
// election starts.
func NewGroup(client redis.UniversalClient, cfg Config) (*Group, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	g := &Group{
		cfg:       cfg,
		log:       zaplog.NewLog(cfg.Logger, cfg.InstanceID),
		base:      time.Now().Add(-1),
		life:      lifetime.New(),
		quit:      make(chan struct{}),
		wake:      make(chan struct{}, 1),
		elections: map[string]*Election{},
	}
	lc := cfg.lease()
	lc.Logger = g.log.Logger // one queue keeps the log in order
	lc.Notify = g.notify
	g.cfg.Logger = g.log.Logger
	var err error
	if g.keeper, err = lease.NewKeeper(client, lc); err != nil {
		return nil, err
	}
	st, err := redisstore.New(client, g.cfg.store())
	if err != nil {
		return nil, errors.Join(err, g.keeper.Stop())
	}
	g.requests = newRequests(g.cfg, st, g.line)
	g.requests.wrote, g.requests.looked = inner.OfKeeper(g.keeper).Wrote, g.looked
	return g, nil
}

// Election makes this process a member of the election with that leader key; ""
// means Config.LeaderKey. After an Election has stopped, another with the same
// key may be made.
func (g *Group) Election(leaderKey string) (*Election, error) {
	cfg := g.cfg
	cfg.LeaderKey = cmp.Or(leaderKey, cfg.LeaderKey)
	if err := cfg.validateKeys(); err != nil {
		return nil, err
	}
	if err := g.requests.store.CheckLease(cfg.LeaderKey); err != nil {
		return nil, configError("LeaderKey: %v", err)
	}
	e := &Election{
		g: g, key: cfg.LeaderKey, prefix: cfg.HeartbeatPrefix, beatKey: cfg.HeartbeatPrefix + cfg.InstanceID,
		m: rules.New(cfg.rules()), done: make(chan struct{}),
	}
	e.stats.takeovers.Bounds, e.stats.handovers.Bounds = lags, lags
	e.life, e.end = context.WithCancelCause(context.Background())
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.closing.Load():
		return nil, lease.ErrStopped
	case g.elections[e.key] != nil:
		return nil, configError("this process takes part in the election %q already", e.key)
	}
	g.elections[e.key] = e
	g.order = append(g.order, e)
	return e, nil
}

func (g *Group) start(ctx context.Context) error {
	return g.life.Start(lease.ErrStopped, func() error {
		if err := g.keeper.Start(ctx); err != nil {
			return err
		}
		g.workers.Go(g.keepTime)
		g.workers.Go(g.requests.work)
		return nil
	})
}

// Stop withdraws from all elections, as Election.Stop does from one, and waits
// until Redis has confirmed the release of each leadership. It waits at most
// Config.DrainTimeout for the work, another Config.DrainTimeout for Redis, and
// Config.OpTimeout to delete the heartbeat. Every call of Stop waits for the
// end and returns the same error.
func (g *Group) Stop() error { return g.life.Stop(g.end) }

func (g *Group) end(begun bool) error {
	g.mu.Lock()
	g.closing.Store(true)
	all := slices.Clone(g.order)
	g.mu.Unlock()
	for _, e := range all {
		e.withdraw()
	}
	timer := time.NewTimer(g.cfg.DrainTimeout)
	defer timer.Stop()
	var errs []error
	late := timer.C
	for _, e := range all {
		err := e.await(late)
		if err != nil {
			errs = append(errs, err)
			over := make(chan time.Time)
			close(over)
			late = over // for the others too
		}
	}
	errs = append(errs, g.keeper.Stop())
	close(g.quit)
	if begun {
		g.requests.finish()
		g.workers.Wait()
	}
	last, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	errs = append(errs, g.requests.close(), g.log.Flushed(last, inner.ErrStuck))
	return errors.Join(errs...)
}

// InstanceID returns this member's ID in all elections.
func (g *Group) InstanceID() string { return g.cfg.InstanceID }

func (g *Group) now() core.Now {
	t := time.Now()
	return core.Now{Mono: core.Time(t.Sub(g.base)), Wall: t.UnixNano()}
}

func (g *Group) time(t core.Time) time.Time { return g.base.Add(time.Duration(t)) }

// notify runs in the loop of the leases, so a member stops leading before the next request is sent.
func (g *Group) notify(ev lease.Event) {
	callback.Tell(g.log.Calls, "Config.Notify", g.cfg.Notify, ev)
	g.mu.Lock()
	defer g.mu.Unlock()
	e := g.elections[ev.Name]
	if e == nil {
		if ev.Kind == lease.EventAcquired {
			ev.Lease.Drop() // acquired just as the member withdrew
		}
		return
	}
	switch ev.Kind {
	case lease.EventAcquiring, lease.EventRenewing:
		e.asked = ev.At
	case lease.EventRenewed:
		g.requests.beating.Wrote(e.asked, false)
	case lease.EventAcquired:
		g.requests.beating.Wrote(e.asked, true)
		e.hold = ev.Lease
		e.stats.acquired(&ev)
	case lease.EventLost, lease.EventReleased:
		e.hold = nil
	}
	if in := g.inputOf(&ev); in.Kind != 0 {
		g.step(e, in)
	}
}

// tells has the events of a lease that the rules take as a core.Tell.
var tells = map[lease.EventKind]core.TellKind{
	lease.EventAcquired: core.TellAcquired, lease.EventRenewed: core.TellRenewed, lease.EventUncertain: core.TellUncertain,
	lease.EventLost: core.TellLost, lease.EventReleased: core.TellReleased, lease.EventAcquireFailed: core.TellRefused,
	lease.EventYield: core.TellYield,
}

// inputOf translates a lease event to an input of the rules. Kind 0: nothing to pass on.
func (g *Group) inputOf(ev *lease.Event) rules.Input {
	in := rules.Input{Fence: ev.Fence, Owner: ev.Owner, Reason: ev.Reason, Tell: tells[ev.Kind],
		Now: core.Now{Mono: core.Time(ev.At.Sub(g.base)), Wall: time.Now().UnixNano()}}
	switch {
	case ev.Kind == lease.EventAcquiring:
		in.Kind = rules.Attempt
	case in.Tell != 0:
		in.Kind = rules.Tell
	}
	return in
}

// step passes one input to one machine and carries out the results. It never waits.
func (g *Group) step(e *Election, in rules.Input) {
	was := e.m.Leader()
	eff := e.m.Step(in)
	e.state.Store(uint32(e.m.State()))
	if e.m.Leads() {
		e.lead.Store(e.hold)
	} else {
		e.lead.Store(nil)
	}
	if now := e.m.Leader(); now != was {
		e.known.Store(&now)
	}
	elected := false
	for i := range eff.Events {
		e.tell(&eff.Events[i])
		elected = elected || eff.Events[i].Kind == rules.LeadershipAcquired
	}
	switch {
	case eff.Want:
		_ = inner.OfKeeper(g.keeper).Want(e.key) // the name was checked already
	case eff.Drop && e.hold != nil:
		e.hold.Drop()
	case eff.Drop:
		inner.OfKeeper(g.keeper).Unwant(e.key)
	}
	if eff.Doubt {
		inner.OfKeeper(g.keeper).Doubt()
	}
	eff.Unbeat = eff.Unbeat && !g.leadsWith(e.beatKey)
	g.requests.take(e, &eff)
	if elected && e.terms != nil {
		e.take()
	}
	if e.m.Stopped() && g.elections[e.key] == e {
		delete(g.elections, e.key)
		g.order = slices.DeleteFunc(g.order, func(x *Election) bool { return x == e })
		close(e.done)
	}
	if g.wakesAt(e) {
		poke(g.wake)
	}
}

// wakesAt makes the timer wake for e's machine, and reports whether that is earlier than before.
func (g *Group) wakesAt(e *Election) bool {
	next := e.m.Next()
	if next == 0 || g.next != 0 && next >= g.next {
		return false
	}
	g.next = next
	return true
}

// line returns the ACL line that grants what the elections need.
func (g *Group) line() string {
	g.mu.Lock()
	var keys []string
	for _, e := range g.order {
		keys = append(keys, e.key)
	}
	g.mu.Unlock()
	return g.requests.store.Line(redisstore.Use{Registry: true, Leases: keys})
}

// leadsWith reports whether an election that this process leads uses the heartbeat key. The caller holds g.mu.
func (g *Group) leadsWith(key string) bool {
	return slices.ContainsFunc(g.order, func(e *Election) bool { return e.beatKey == key && e.m.State() == rules.Leader })
}

// looked passes the results of reads to the machines.
func (g *Group) looked(looks []look, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for i := range looks {
		e, gl := looks[i].e, &looks[i].glance
		e.stats.cycles.Add(1)
		g.step(e, rules.Input{Kind: rules.Looked, Now: now, Look: rules.Look{Failed: err != nil, Leader: gl.Owner,
			Fence: gl.Fence, Of: gl.Of, Beats: gl.Beats, Heartbeat: gl.Heartbeat}})
	}
}

// take passes the leadership to Run. The caller holds g.mu, so that no Stop comes between the election and the work. A machine
// whose work runs is not elected again, so the channel has room.
func (e *Election) take() {
	e.terms <- e.hold
	e.m.Step(rules.Input{Kind: rules.Busy, Now: e.g.now()})
}

func (e *Election) tell(r *rules.Event) {
	e.stats.events[r.Kind].Add(1)
	ev := Event{Kind: EventKind(r.Kind), Election: e.key, From: State(r.From), To: State(r.To), Fence: r.Fence,
		Leader: r.Leader, Reason: r.Reason, At: e.g.time(r.At)}
	enter(e.g.log.Logger, e.g.cfg.InstanceID, &ev)
	callback.Tell(e.g.log.Calls, "Config.Observe", e.g.cfg.Observe, ev)
	for _, l := range e.listeners {
		l.Put(ev)
	}
}

func (g *Group) keepTime() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-g.wake:
		case <-g.quit:
			return
		}
		if next := g.tick(); next != 0 {
			timer.Reset(max(0, time.Until(g.time(next))))
		}
	}
}

// tick steps every machine that is due and returns when the next one is due.
func (g *Group) tick() core.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	for _, e := range slices.Clone(g.order) {
		if next := e.m.Next(); next != 0 && next <= now.Mono {
			g.step(e, rules.Input{Kind: rules.Tick, Now: now})
		}
	}
	g.next = 0
	for _, e := range g.order {
		g.wakesAt(e)
	}
	return g.next
}
