package lease

import (
	"context"
	"fmt"
	"sync"

	"github.com/leasestorm/leasestorm/internal/core"
)

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
		return passed, unconfirmed{fmt.Errorf("leases of %q: it is unknown whether they were released: %w", owner, resultless(err))}
	}
	return passed, nil
}
