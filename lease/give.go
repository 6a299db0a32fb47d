package lease

import (
	"context"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// asks are terms that a notice says an operator asks for, one a lease that is held, until Redis was read. Owned by the loop.
type asks struct {
	waiting map[string]redisstore.Give
	reading bool
}

// askPause is the least time between two readings: whoever may publish can have them made.
const askPause = 20 * time.Millisecond

// give looks whether an operator asks for a lease (leasectl release), as a notice says. Anybody who may publish can say so, and find the
// fence of a term by trying those of the microseconds in which it may have begun: only what stands in Redis is obeyed. Runs in the loop.
func (s *shell) give(n *core.Notice) {
	asked, ok := redisstore.GiveOf(n)
	h := s.askedHold(asked)
	if !ok || h == nil {
		return
	}
	if s.asks.waiting == nil {
		s.asks.waiting = map[string]redisstore.Give{}
	}
	// What another says is the same question, and its words would keep the message, which may be a MiB long.
	s.asks.waiting[h.name] = redisstore.Give{Lease: h.name, Owner: s.cfg.InstanceID, Fence: asked.Fence}
	s.readAsks()
}

// askedHold is the hold whose work is to end, nil where there is none: a notice may come late, or name another term. A keeper with a
// listener is not asked: its leader, or its worker of intents, would take it for the end of its part. Runs in the loop.
func (s *shell) askedHold(asked redisstore.Give) *Hold {
	if s.draining || asked.Owner != s.cfg.InstanceID || s.keeper && s.cfg.Notify != nil {
		return nil
	}
	h := s.table.get(asked.Lease)
	if h == nil || h.fence != asked.Fence || h.asked() {
		return nil
	}
	return h
}

// readAsks reads whether what waits is asked for, unless that is being done. Runs in the loop.
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

// asker is who asks for a term, "" where nobody does.
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

// giveBack has the work under a term end. It gives nobody anything: the lease is free once its owner has released it, as after any work.
// Runs in the loop.
func (s *shell) giveBack(asked redisstore.Give) {
	h := s.askedHold(asked)
	if h == nil {
		return
	}
	s.carry([]core.Tell{{Kind: core.TellYield, Cause: core.CauseRequested, ID: h.name, Fence: h.fence, At: s.now().Mono, Owner: asked.From}})
	s.settleTodo()
}
