package lease

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// countReplicas asks once in a TTL whether more replicas acknowledge than Config.Replicas, as Start does: whoever attaches one later
// makes two majorities possible, which no acknowledgement shows (docs/replicas.md). Leases are granted all the same, because owners that
// all stopped at once would cost more than what is only possible. The log has an entry when it begins and one when it has ended.
func (s *shell) countReplicas() {
	tick := time.NewTicker(s.cfg.TTL)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, s.cfg.OpTimeout)
		s.counted(s.store.Surplus(ctx))
		cancel()
	}
}

// counted takes what Redis said of its replicas. An error that is not of them says nothing.
func (s *shell) counted(err error) {
	before := s.surplus.Load()
	switch {
	case errors.Is(err, redisstore.ErrReplicas):
		if words := err.Error(); before == nil || *before != words {
			s.surplus.Store(&words)
			s.log.Warn("more replicas acknowledge than configured", zap.String("event", "replicasSurplus"),
				zap.String("instance", s.cfg.InstanceID), zap.Error(err))
		}
	case err == nil && before != nil:
		s.surplus.Store(nil)
		s.log.Info("no more replicas acknowledge than configured", zap.String("event", "replicasFit"),
			zap.String("instance", s.cfg.InstanceID))
	}
}

// surplusText is what Health adds to its reason.
func (s *shell) surplusText() string {
	if why := s.surplus.Load(); why != nil {
		return "; one owner is not promised: " + *why
	}
	return ""
}
