package lease

import (
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
)

// stalled warns of a loop that comes to its work more than a renewal interval after it was due: the process was stopped, or had no CPU, or
// Config.Notify did not return. It is said once in a TTL at most. due is 0 where nothing was.
func (s *shell) stalled(due core.Time) {
	now := s.now().Mono
	late := now - due
	if due == 0 || late <= core.Time(s.cfg.RenewInterval) || s.stallTold != 0 && now-s.stallTold < core.Time(s.cfg.TTL) {
		return
	}
	s.stallTold = now
	s.log.Warn("this process stood still, or Config.Notify did not return; nothing was renewed meanwhile", zap.String("event", "stalled"),
		zap.String("instance", s.cfg.InstanceID), zap.Duration("wait", time.Duration(late)))
}
