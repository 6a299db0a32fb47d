package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Adopt takes over the lease that owner holds and begins a term of its own, with a new fence: for an owner that has agreed to
// it, or is known not to run any more. If somebody else holds the lease, it is TryAcquire.
func (k *Keeper) Adopt(ctx context.Context, name, owner string) (*Hold, error) {
	if err := k.s.nameError(name); err != nil {
		return nil, err
	}
	// Marked before it is sent: if the answer is lost, the next attempt finds what it left.
	k.s.passed.add(name)
	if _, err := k.s.pass(ctx, owner, k.s.cfg.InstanceID, name); err != nil {
		return nil, err
	}
	return k.s.acquire(ctx, name, false)
}

// passedOn are the leases that Adopt has put into this instance's name, or may have: an acquisition may find them there, which
// otherwise only an earlier attempt of its own could explain.
type passedOn struct {
	mu    sync.Mutex
	names map[string]bool
}

func (p *passedOn) add(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names == nil {
		p.names = map[string]bool{}
	}
	p.names[name] = true
}

// asked marks what an acquisition about to be sent may find in this instance's name.
func (p *passedOn) asked(op *core.Op) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.names) == 0 || op.Kind != core.OpAcquire {
		return
	}
	for i := range op.Items {
		if p.names[op.Items[i].ID] {
			op.Items[i].Fresh = false
		}
	}
}

// answered forgets what is settled.
func (p *passedOn) answered(op *core.Op, a *core.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.names) == 0 || op.Kind != core.OpAcquire || a.Stale {
		return
	}
	for i := range op.Items {
		if i < len(a.Results) && a.Results[i].Outcome != core.OutUnknown && a.Results[i].Outcome != core.OutQuarantine {
			delete(p.names, op.Items[i].ID)
		}
	}
}

// Evict deletes those of the leases names that owner holds, and returns them: for an owner that is known not to run any more,
// such as an earlier process of the same service. What a living owner would lose, it learns only at its next renewal: never
// evict one that may live (G1). ErrUnknown: no answer.
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
	passed, err := s.store.Pass(ctx, owner, heir, s.cfg.TTL, names...)
	if err != nil {
		return passed, fmt.Errorf("%w: leases of %q: %w", ErrUnknown, owner, err)
	}
	return passed, nil
}

// WindowEnd returns the end of the trust window as it stood at the last renewal, also while the lease is in doubt or lost: the
// latest instant at which work under it may still go on. What begins must ask Valid.
func (h *Hold) WindowEnd() time.Time { return h.s.time(core.Time(h.until.Load())) }
