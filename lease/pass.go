package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Adopt takes over the lease that owner holds and begins a term of its own, with a new fence: for an owner that has ended its work and
// agreed to it, or is known not to run any more. Who still believes in its lease learns only at its next renewal that it has lost it:
// until then two do (G1). If owner does not hold the lease, it is TryAcquire, with its errors. ErrUnknown: no answer; the lease may have
// been passed on to this instance, whose next attempt finds it. Safe for concurrent use.
func (k *Keeper) Adopt(ctx context.Context, name, owner string) (*Hold, error) {
	if err := k.s.nameError(name); err != nil {
		return nil, err
	}
	if _, err := k.s.pass(ctx, owner, k.s.cfg.InstanceID, name); err != nil {
		return nil, err
	}
	return k.s.acquire(ctx, name, false)
}

// passedOn is core.Passed for callers of any goroutine.
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

// Evict deletes those of the leases names that owner holds, and returns them: for an owner that is known not to run any more,
// such as an earlier process of the same service. What a living owner would lose, it learns only at its next renewal: never
// evict one that may live (G1). What is returned with an error is gone; the rest is not known (ErrUnknown). Safe for concurrent use.
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

// WindowEnd returns the end of the trust window as it stood at the last renewal, also while the lease is in doubt or lost: the
// latest instant at which work under it may still go on. What begins must ask Valid.
func (h *Hold) WindowEnd() time.Time { return h.s.time(core.Time(h.until.Load())) }
