package real

import (
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

func (r *run) countAll(stop <-chan struct{}) {
	host.Every(history.Bucket(r.cfg.Renew), stop, func() {
		for _, s := range r.allSlots() {
			s.count(r.clock.Now())
		}
	})
}

func (s *slot) count(t int64) {
	if n := s.way.Sent(); n > 0 {
		s.run.rec.Add(history.Event{T: t, Kind: history.Commands, Node: s.name, N: n})
	}
}
