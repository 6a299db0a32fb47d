package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Adopt takes over the lease that owner holds and begins its own term, with a new fence. Use it only if owner has ended its work and
// agreed, or is known to be dead: an owner that still believes in its lease learns of the loss only at its next renewal, and until then
// two do (G1). If owner does not hold the lease, Adopt is TryAcquire, with its errors. ErrUnknown: no answer; the lease may have been
// passed on to this instance, whose next attempt finds it. Safe for concurrent use.
func (k *Keeper) Adopt(ctx context.Context, name, owner string) (*Hold, error) {
	if err := k.s.nameError(name); err != nil {
		return nil, err
	}
	if _, err := k.s.pass(ctx, owner, k.s.cfg.InstanceID, name); err != nil {
		return nil, err
	}
	return k.s.acquire(ctx, name, false)
}

// passedOn is core.Passed for callers on any goroutine.
type passedOn struct {
	mu    sync.Mutex
	names core.Passed
}

func (p *passedOn) add(names ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range names {
		p.names.Add(name)
	}
}

func (p *passedOn) asked(op *core.Op) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names.Asked(op)
}

func (p *passedOn) answered(op *core.Op, a *core.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names.Answered(op, a)
}

// Evict deletes those of the leases names that owner holds, and returns them. Use it only if owner is known to be dead, such as an earlier
// process of the same service: a living owner learns of its loss only at its next renewal, so never evict one that may live (G1). If it
// returns an error, the returned leases are gone and the fate of the rest is unknown (ErrUnknown). Safe for concurrent use.
func (k *Keeper) Evict(ctx context.Context, owner string, names ...string) ([]string, error) {
	for _, name := range names {
		if err := k.s.nameError(name); err != nil {
			return nil, err
		}
	}
	return k.s.pass(ctx, owner, "", names...)
}

func (s *shell) pass(ctx context.Context, owner, heir string, names ...string) ([]string, error) {
	if err := s.running(); err != nil {
		return nil, err
	}
	done, err := s.outsider(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.OpTimeout)
	defer cancel()
	if heir != "" { // marked before it is sent: if the answer is lost, the next attempt finds what it left
		s.passed.add(names...)
	}
	passed, err := s.store.Pass(ctx, owner, heir, s.cfg.TTL, names...)
	if err != nil {
		return passed, unconfirmed{fmt.Errorf("leases of %q: not known to be passed on: %w", owner, resultless(err))}
	}
	return passed, nil
}

// WindowEnd returns the end of the trust window as of the last renewal, even while the lease is in doubt or lost: the latest instant at
// which work under it may still go on. Check Valid before work begins.
func (h *Hold) WindowEnd() time.Time { return h.s.time(core.Time(h.until.Load())) }
