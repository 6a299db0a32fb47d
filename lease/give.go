package lease

import (
	"context"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// asks has the terms, at most one per held lease, for which a notice announced an operator's request and Redis has not been read yet. The
// loop owns it.
type asks struct {
	waiting map[string]redisstore.Give
	reading bool
}

// askPause is the least time between two reads: anybody who may publish can cause them.
const askPause = 20 * time.Millisecond

// give handles a notice that an operator requests a lease (leasectl release). Anybody who may publish can send one, and can guess a
// term's fence from the microseconds in which it may have begun. So the instance obeys only a request stored in Redis. Runs in the loop.
func (s *shell) give(n *core.Notice) {
	asked, ok := redisstore.GiveOf(n)
	h := s.askedHold(asked)
	if !ok || h == nil {
		return
	}
	if s.asks.waiting == nil {
		s.asks.waiting = map[string]redisstore.Give{}
	}
	// Another notice is the same request. Keeping its text would keep the whole message, up to a MiB.
	s.asks.waiting[h.name] = redisstore.Give{Lease: h.name, Owner: s.cfg.InstanceID, Fence: asked.Fence}
	s.readAsks()
}

// askedHold returns the requested hold, or nil: a notice may be late, or name another term. A keeper with a listener ignores requests,
// because its leader or its intent worker would mistake one for its own end. Runs in the loop.
func (s *shell) askedHold(asked redisstore.Give) *Lease {
	if s.draining || asked.Owner != s.cfg.InstanceID || s.keeper && s.cfg.Notify != nil {
		return nil
	}
	h := s.table.get(asked.Lease)
	if h == nil || h.fence != asked.Fence || h.asked() {
		return nil
	}
	return h
}

// readAsks reads from Redis whether the waiting terms are requested, unless a read is in flight. Runs in the loop.
func (s *shell) readAsks() {
	if s.asks.reading || len(s.asks.waiting) == 0 {
		return
	}
	waiting := s.asks.waiting
	s.asks = asks{reading: true}
	s.workers.Go(func() {
		for _, asked := range waiting {
			if asked.From = s.asker(asked); asked.From != "" {
				s.post(func() { s.giveBack(asked) })
			}
		}
		pause := time.NewTimer(askPause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-s.ctx.Done():
		}
		s.post(func() {
			s.asks.reading = false
			s.readAsks()
		})
	})
}

func (s *shell) asker(asked redisstore.Give) string {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.OpTimeout)
	defer cancel()
	done, err := s.outsider(ctx)
	if err != nil {
		return ""
	}
	defer done()
	return s.store.Asked(ctx, asked)
}

// giveBack ends the work under a term. It names no heir: the lease is free once its owner has released it, as after any work. Runs in the
// loop.
func (s *shell) giveBack(asked redisstore.Give) {
	h := s.askedHold(asked)
	if h == nil {
		return
	}
	s.carry([]core.Tell{{Kind: core.TellYield, Cause: core.CauseRequested, ID: h.name, Fence: h.fence, At: s.now().Mono, Owner: asked.From}})
	s.settleTodo()
}
