package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Manager shares sessions between instances and implements LeaseManager. It is
// safe for concurrent use.
type Manager struct{ s *shell }

var _ LeaseManager = (*Manager)(nil)

// NewManager makes the manager of one instance. Nothing runs before Start.
// NewManager only reads the client's settings: the manager opens its own
// connections, without the client's retries, and never closes the client.
func NewManager(client redis.UniversalClient, cfg ManagerConfig) (*Manager, error) {
	s, err := newShell(client, cfg.withDefaults(), false)
	if err != nil {
		return nil, err
	}
	return &Manager{s: s}, nil
}

// Start implements LeaseManager. It checks Redis once, for at most two
// OpTimeouts.
//
// A condition that may pass does not fail Start: Start returns nil, and the
// manager logs the condition, waits for its end, and reports it in Health. Such
// conditions are a server that does not answer (nobody listens, an untrusted
// certificate) and one that refuses writes now (OOM, NOREPLICAS, READONLY,
// MISCONF, LOADING). A TLS mismatch looks like a server that does not answer: a
// timeout, or EOF.
//
// Conditions that somebody has to change are errors: no Redis, too old a Redis,
// a missing or wrong password, an ACL that denies a needed command (the text
// has the rules to add), a quarantine of the group that is too short for this
// instance.
func (m *Manager) Start(ctx context.Context) error { return opError("start", "", m.s.start(ctx)) }

// Run calls Start, and Stop as soon as ctx ends. After a requested stop, by ctx
// or by a call of Stop, it returns nil. Otherwise it returns the error of
// Start, or the reason why Stop could not release everything.
func (m *Manager) Run(ctx context.Context) error { return m.s.run(ctx) }

// Stop implements LeaseManager. It waits for a Start in progress, then at most
// Config.DrainTimeout for work and for Redis, and then at most a second for the
// caller's functions. OpError.Unknown: Redis did not confirm every release.
// Otherwise the text names the caller's function that has not returned. That
// function may still run, but its leases are no longer renewed.
func (m *Manager) Stop() error { return opError("stop", "", m.s.stop()) }

// TryAcquire implements LeaseManager. If ctx ends before the answer, and Redis
// grants the lease, the manager releases it, unless another caller has received
// it or placement is on. The errors are those of Keeper.TryAcquire, and
// ErrInvalidConfig for an invalid session ID.
func (m *Manager) TryAcquire(ctx context.Context, sessionID string) (bool, error) {
	if err := m.s.cfg.checkSession(sessionID); err != nil {
		return false, err
	}
	_, err := m.s.callers.acquire(ctx, sessionID, false)
	if errors.Is(err, ErrHeld) {
		return false, nil
	}
	return err == nil, opError("acquire", sessionID, err)
}

// Release implements LeaseManager. It returns ErrLost if this instance does not
// hold the lease. With placement, the instance that PreferredOwner returns then
// acquires the lease; it can be this instance again.
func (m *Manager) Release(ctx context.Context, sessionID string) error {
	if err := m.s.cfg.checkSession(sessionID); err != nil {
		return err
	}
	return opError("release", sessionID, m.s.release(ctx, sessionID, nil))
}

// IsOwned implements LeaseManager.
func (m *Manager) IsOwned(sessionID string) bool {
	h := m.s.table.get(sessionID)
	return h != nil && h.Valid() && !h.asked()
}

// OwnedSessions implements LeaseManager.
func (m *Manager) OwnedSessions() []string {
	ids := []string{}
	for _, h := range m.s.table.holds() {
		if h.Valid() {
			ids = append(ids, h.name)
		}
	}
	return ids
}

// GetLiveNodes implements LeaseManager.
func (m *Manager) GetLiveNodes(ctx context.Context) ([]string, error) {
	done, err := m.s.requests.outsider(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	nodes, err := m.s.store.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("read of the live instances: %w", resultless(err))
	}
	ids := make([]string, 0, len(nodes))
	for _, n := range nodes {
		ids = append(ids, n.ID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// PreferredOwner implements LeaseManager. It uses the result of the last
// discovery.
func (m *Manager) PreferredOwner(ctx context.Context, sessionID string) (string, error) {
	if err := m.s.cfg.checkSession(sessionID); err != nil {
		return "", err
	}
	if err := m.s.running(); err != nil {
		return "", err
	}
	ch := make(chan string, 1)
	m.s.post(func() { ch <- m.s.loop.core.PreferredOwner(sessionID) })
	select {
	case owner := <-ch:
		return owner, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	case <-m.s.life.Done():
		return "", ErrStopped
	}
}

// InstanceID implements LeaseManager.
func (m *Manager) InstanceID() string { return m.s.cfg.InstanceID }

// Info returns the state of one lease: from memory if this instance holds it,
// otherwise by one read of Redis.
func (m *Manager) Info(ctx context.Context, sessionID string) (LeaseInfo, error) {
	info := LeaseInfo{SessionID: sessionID}
	if err := m.s.cfg.checkSession(sessionID); err != nil {
		return info, err
	}
	if h := m.s.table.get(sessionID); h != nil {
		info.OwnerID = m.s.cfg.InstanceID
		info.State = LeaseStateUncertain
		if h.Valid() {
			info.State = LeaseStateOwned
		}
		info.AcquiredAt = m.s.time(h.acquiredAt)
		if at := h.renewedAt.Load(); at != 0 {
			info.LastRenewedAt = m.s.time(core.Time(at))
		}
		return info, nil
	}
	done, err := m.s.requests.outsider(ctx)
	if err != nil {
		return info, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, m.s.cfg.OpTimeout)
	defer cancel()
	sent := time.Now()
	a := m.s.store.Do(ctx, &core.Op{Kind: core.OpObserve, Owner: m.s.cfg.InstanceID,
		Items: []core.Item{{ID: sessionID}}})
	m.s.diagnosis.learn(func() { m.s.diagnosis.failures.note(core.OpObserve, &a, sent, time.Now()) })
	if a.Failure != core.FailNone || len(a.Results) != 1 {
		return info, failure{err: m.s.granting(a.Err, sessionID)}.noResult(core.OpObserve, "read", sessionID, a.Text)
	}
	switch r := a.Results[0]; r.Outcome {
	case core.OutHeld:
		info.OwnerID, info.State = r.Owner, LeaseStateOther
	case core.OutWrongType:
		return info, fmt.Errorf("%w: %q", errWrongType, sessionID)
	}
	return info, nil
}

// Health reports whether this instance can be granted leases, and if not, why.
// It sends no request: it knows only the outcomes of the instance's requests.
func (m *Manager) Health() Health { return m.s.diagnosis.health() }

// Subscribe calls f with every event from now on, in order, on a goroutine of
// its own, until cancel or Stop. If f is 65,536 events behind, it misses some,
// and Event.Dropped counts them. If f panics, it misses that event. A slow or
// panicking f delays nothing else.
func (m *Manager) Subscribe(f func(Event)) (cancel func()) {
	return m.s.hub.subscribe(f, false, m.s.log.Calls)
}

// Keeper holds named leases for anything. Every lease has one holder at a time,
// even among the callers in this process. It is safe for concurrent use.
type Keeper struct{ s *shell }

// NewKeeper makes a keeper. A keeper has no heartbeat and takes no part in
// placement. Nothing runs before Start. NewKeeper only reads the client's
// settings: the keeper opens its own connections, without the client's retries,
// and never closes the client.
func NewKeeper(client redis.UniversalClient, cfg Config) (*Keeper, error) {
	s, err := newShell(client, ManagerConfig{Config: cfg.withDefaults()}, true)
	if err != nil {
		return nil, err
	}
	return &Keeper{s: s}, nil
}

// Start makes the keeper acquire and renew leases until Stop. ctx bounds only
// the call of Start. See Manager.Start.
func (k *Keeper) Start(ctx context.Context) error { return opError("start", "", k.s.start(ctx)) }

// Stop ends the contexts of the keeper's leases and waits at most
// Config.DrainTimeout for the work to return and the leases to be released.
// Unreleased leases expire. Stop returns an error if Redis did not confirm
// every release (OpError.Unknown), or if a function of the caller's has not
// returned.
func (k *Keeper) Stop() error { return opError("stop", "", k.s.stop()) }

// InstanceID returns the owner of the keeper's leases.
func (k *Keeper) InstanceID() string { return k.s.cfg.InstanceID }

// Health is Manager.Health.
func (k *Keeper) Health() Health { return k.s.diagnosis.health() }

// Subscribe is Manager.Subscribe.
func (k *Keeper) Subscribe(f func(Event)) (cancel func()) {
	return k.s.hub.subscribe(f, false, k.s.log.Calls)
}

// TryAcquire makes one attempt. Its errors:
//
//	ErrHeld           another instance, or another caller of this keeper, holds
//	                  the lease; OpError.Owner and Until have the details
//	ErrQuarantine     Redis may have lost data, or its clock jumped; nothing is
//	                  granted before OpError.Until
//	ErrInvalidConfig  the name or an option is invalid, or the lease's key
//	                  belongs to another program
//	ErrStopped        the keeper was not started, or was stopped
//	OpError.Unknown   Redis gave no answer. The caller does not hold the lease.
//	                  If Redis has granted it, the keeper releases it.
//	any other         Redis refused; the text is Redis' own. Unless
//	                  OpError.Unknown is set, Redis changed nothing.
func (k *Keeper) TryAcquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return k.acquire(ctx, name, false, opts...)
}

func (k *Keeper) acquire(ctx context.Context, name string, wait bool, opts ...Option) (*Lease, error) {
	err := k.s.nameError(name)
	if err == nil && wait && ctx.Value(doing{k.s, name}) != nil {
		err = fmt.Errorf("%w: %q", errNested, name)
	}
	if err != nil {
		return nil, opError("acquire", name, err)
	}
	h, err := k.s.callers.acquire(ctx, name, wait, opts...)
	return h, opError("acquire", name, err)
}

// Acquire waits until the caller holds the lease or ctx ends. It sleeps until
// the holder's lease expires or is released; it does not poll Redis.
//
// If ctx ends first, the error wraps the cause of ctx, and one of the following
// errors. It reports the last answer that any waiting caller of this keeper got
// for this lease.
//
//	ErrHeld          another instance, or another caller of this keeper, holds
//	                 the lease: OpError.Owner. OpError.Until is zero if the
//	                 holder must have renewed since that answer.
//	ErrQuarantine    as for TryAcquire
//	OpError.Unknown  Redis has given no answer at all, or none to the last
//	                 attempt, or does not answer now
//	any other        Redis refused; the text is Redis' own
//
// If Redis grants the lease after ctx has ended, the keeper releases it.
// Acquire returns ErrStopped and ErrInvalidConfig without waiting. An Acquire
// inside a Do of the same lease is ErrInvalidConfig, too.
func (k *Keeper) Acquire(ctx context.Context, name string, opts ...Option) (*Lease, error) {
	return k.acquire(ctx, name, true, opts...)
}

// doing is the context key under which a Do stores its lease.
type doing struct {
	s    *shell
	name string
}

// lost returns why the term ended before it was released, nil if it did not.
func (h *Lease) lost() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ending == nil || errors.Is(h.ending.err, ErrStopped) {
		return nil
	}
	return h.ending.err
}
