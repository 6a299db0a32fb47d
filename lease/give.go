package lease

import (
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// give has the work under a term end, because an operator asked for the lease (leasectl release). Anybody who may publish can say so, but
// only who reads the leases knows the fence of the term; a notice that names another one is passed over, and so is one that comes late. It
// gives nobody anything: the lease is free once its owner has released it, as after any work. A keeper with a listener is not asked: its
// leader, or its worker of intents, would take it for the end of its part. Runs in the loop.
func (s *shell) give(n *core.Notice) {
	asked, ok := redisstore.GiveOf(n)
	if !ok || s.draining || asked.Owner != s.cfg.InstanceID {
		return
	}
	h := s.table.get(asked.Lease)
	if h == nil || h.fence != asked.Fence || h.yielding.Load() || s.keeper && s.cfg.Notify != nil {
		return
	}
	s.carry([]core.Tell{{Kind: core.TellYield, Cause: core.CauseRequested, ID: h.name, Fence: h.fence, At: s.now().Mono, Owner: n.From}})
	s.settleTodo()
}
