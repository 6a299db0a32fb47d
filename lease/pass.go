package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Adopt takes over the lease that owner holds and begins its own term, with a new fence. Use it only if owner has ended its work and
// agreed, or is known to be dead. An owner that still believes in its lease notices the loss only at its next renewal, so until then two
// instances believe in it (G1). If owner does not hold the lease, Adopt is TryAcquire, with its errors. ErrUnknown: no answer; if the
// lease was passed to this instance, its next attempt finds it. It is safe for concurrent use.
func (k *Keeper) Adopt(ctx context.Context, name, owner string) (*Hold, error) {
	if err := k.s.nameError(name); err != nil {
		return nil, err
	}
	if _, err := k.s.pass(ctx, owner, k.s.cfg.InstanceID, name); err != nil {
		return nil, err
	}
	return k.s.acquire(ctx, name, false)
}

// passedOn is core.Passed, safe for concurrent use.
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

// Evict deletes those of the leases names that owner holds, and returns them. Use it only if owner is known to be dead, such as an
// earlier process of the same service. Never evict an owner that may live: it would notice only at its next renewal (G1). If Evict
// returns an error, the returned leases are gone and the state of the rest is unknown (ErrUnknown). It is safe for concurrent use.
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
	if heir != "" { // recorded before the request: if the answer is lost, the next attempt still finds the passed lease
		s.passed.add(names...)
	}
	passed, err := s.store.Pass(ctx, owner, heir, s.cfg.TTL, names...)
	if err != nil {
		return passed, unconfirmed{fmt.Errorf("leases of %q: not known to be passed on: %w", owner, resultless(err))}
	}
	return passed, nil
}

// WindowEnd returns the end of the trust window as of the last renewal, even while the lease is uncertain or lost. Work under it may go
// on until then. Check Valid before work begins.
func (h *Hold) WindowEnd() time.Time { return h.s.time(core.Time(h.until.Load())) }
