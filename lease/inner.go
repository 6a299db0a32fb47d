package lease

import (
	"context"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

func init() { inner.Of = innerOf }

func innerOf(of any) any {
	switch of := of.(type) {
	case *Keeper:
		return innerKeeper{of}
	case *Manager:
		return innerKeeper{&Keeper{of.s}}
	case *Lease:
		return innerLease{of}
	}
	return of
}

// The methods of these types are for the packages beside lease (inner.Of).
type (
	innerKeeper struct{ *Keeper }
	innerLease  struct{ *Lease }
)

// Wrote records that Redis has executed a write that the caller sent at the
// time sent. Health then ignores earlier refusals to write.
func (k innerKeeper) Wrote(sent time.Time) {
	k.s.diagnosis.learn(func() {
		k.s.diagnosis.failures.over(sent, func(err error) bool { return redisstore.Outdated(err, true) })
	})
}

// Doubt makes the keeper check once, now, whether Redis lost its data. Call it
// if the caller's own reads suggest such a loss. Without Doubt, the keeper
// would notice the loss at its next renewal or attempt.
func (k innerKeeper) Doubt() { k.s.event(core.Event{Kind: core.EvDoubt}) }

// SubscribeChanges is Subscribe without the routine events: attempts
// (EventAcquiring, EventRenewing), and renewals that end no uncertainty. With
// many leases, nearly all events are routine.
func (k innerKeeper) SubscribeChanges(f func(Event)) (cancel func()) {
	return k.s.hub.subscribe(f, true, k.s.log.Calls)
}

// Stopped reports whether no lease is held and nothing runs, because the keeper
// was stopped.
func (k innerKeeper) Stopped() bool { return state(k.s.state.Load()) == stateStopped }

// Renewals counts the successful renewals.
func (k innerKeeper) Renewals() inner.Renewals { return k.s.table.counts.now() }

// Want requests the lease and waits for it without a caller or a goroutine.
// EventAcquired carries the Lease, which the listener must Drop. Want is for
// one term: call it again after EventLost or EventReleased. While the lease is
// pending, another Want makes an attempt now. Want and Unwant may be called
// from Config.Notify, and do nothing once the keeper stops.
func (k innerKeeper) Want(name string) error {
	if err := k.s.nameError(name); err != nil {
		return err
	}
	k.s.post(func() { k.s.callers.stand(name) })
	return nil
}

// Unwant withdraws Want. An EventAcquired may still be on its way; drop its
// Lease like any other.
func (k innerKeeper) Unwant(name string) { k.s.post(func() { k.s.callers.standDown(name) }) }

// Adopt takes over the lease that owner holds and begins a term of this
// instance, with a new fence. Use it only if owner has ended its work and
// agreed, or is known to be dead. An owner that still believes in its lease
// notices the loss only at its next renewal, so until then two instances
// believe in it (G1). If owner does not hold the lease, Adopt acts like
// TryAcquire and returns its errors. OpError.Unknown: Redis gave no answer. If
// Redis gave the lease to this instance nevertheless, the instance's next
// attempt finds it. Adopt is safe for concurrent use.
func (k innerKeeper) Adopt(ctx context.Context, name, owner string) (*Lease, error) {
	if err := k.s.nameError(name); err != nil {
		return nil, err
	}
	if _, err := k.s.requests.pass(ctx, owner, k.s.cfg.InstanceID, name); err != nil {
		return nil, err
	}
	return k.TryAcquire(ctx, name)
}

// Evict deletes those of the leases names that owner holds, and returns them.
// Use it only if owner is known to be dead, such as an earlier process of the
// same service. Never evict an owner that may be alive: until its next renewal,
// it would still believe in the lease (G1). If Evict returns an error, the
// returned leases are deleted, and the state of the others is unknown. Evict is
// safe for concurrent use.
func (k innerKeeper) Evict(ctx context.Context, owner string, names ...string) ([]string, error) {
	for _, name := range names {
		if err := k.s.nameError(name); err != nil {
			return nil, err
		}
	}
	return k.s.requests.pass(ctx, owner, "", names...)
}

// WindowEnd returns the end of the trust window as of the last renewal, even if
// the lease is uncertain or lost. Work that has begun under the lease may go on
// until WindowEnd. Check Valid before work begins.
func (h innerLease) WindowEnd() time.Time { return h.in.time(core.Time(h.until.Load())) }

// Renewals returns how often the lease was renewed in this term, from local
// memory.
func (h innerLease) Renewals() int64 { return h.renewals.Load() }

// Yield answers the pending EventYield: it releases the lease, as Drop does. If
// that request has been withdrawn, Yield releases nothing and the work goes on.
// EventKept reports the withdrawal, before or soon after Yield. Only Drop
// always releases the lease. Yield may be called from Config.Notify.
func (h innerLease) Yield() {
	if n := h.yielding.Load(); n != 0 {
		h.in.inbox.put(message{drop: h.Lease, yield: n})
	}
}

// Abandon reports that the work under this term is stuck. Because the work may
// still go on, the lease is neither renewed nor released, and it expires. Until
// Recovered is called, this instance does not acquire the lease again, even if
// this term had already ended. A later term that this instance already owns is
// not affected. Abandon may be called from Config.Notify.
func (h innerLease) Abandon() { h.in.event(h.stuck(core.EvAbandon)) }

// Recovered reports that the stuck work of this Lease has returned. It may be
// called from Config.Notify.
func (h innerLease) Recovered() { h.in.event(h.stuck(core.EvRecovered)) }

// With returns a context that ends when ctx ends, when this term or one of
// others ends (as Lease.Context does), or when end is called.
func (h innerLease) With(ctx context.Context, others ...*Lease) (_ context.Context, end context.CancelFunc) {
	return withHolds(ctx, append([]*Lease{h.Lease}, others...)...)
}
