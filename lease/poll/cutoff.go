package poll

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
)

// outcome is how a poll ended, with regard to its timeout.
type outcome uint8

const (
	ended    outcome = iota + 1 // by itself
	cutOff                      // by its timeout
	stopping                    // by something else, which says nothing about the timeout
)

func outcomeOf(ctx context.Context, err error) outcome {
	switch {
	case err == nil || ctx.Err() == nil:
		return ended
	case errors.Is(context.Cause(ctx), context.DeadlineExceeded):
		return cutOff
	}
	return stopping
}

const (
	cutMany  = 3           // polls in a row cut off by the timeout that lead to a warning
	cutEvery = time.Minute // least time between two warnings, for all sessions together
)

// judge warns of a session whose polls always end at their timeout: its target may need longer, and would never be polled to the end. The
// caller holds mu.
func (m *SessionManager) judge(p *publisher, r *run) {
	switch r.outcome {
	case ended:
		p.cut = 0
	case cutOff:
		p.cut++
	}
	now := time.Now()
	if r.outcome != cutOff || p.cut < cutMany || !m.cutWarned.IsZero() && now.Sub(m.cutWarned) < cutEvery {
		return
	}
	m.cutWarned = now
	sessions := 0
	for _, other := range m.publishers {
		if other.cut >= cutMany {
			sessions++
		}
	}
	m.log.Warn("Polls are cut off by their timeout, one after the other; a target that needs longer needs a longer poll timeout "+
		"(poll.Config.Timeout, above nine tenths of the TTL with LongPolls)", zap.String("event", "pollCutOff"),
		zap.String("instance", m.leases.InstanceID()), zap.String("endpoint", p.id), zap.Int64("fence", r.hold.Fence()),
		zap.Int64("timeout", m.cfg.Timeout.Milliseconds()), zap.Int("inARow", p.cut), zap.Int("sessions", sessions))
}
