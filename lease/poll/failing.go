package poll

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/lease"
)

// failedMany is the number of failed polls of a session in a row that leads to a warning.
const failedMany = 3

// failing warns once of a session whose polls always fail, and logs once that they succeed again. A poll that its timeout cut off (judge
// warns of those) or something else ended says nothing about that. The caller holds mu.
func (m *SessionManager) failing(p *publisher, r *run) {
	if r.policy == policy.Unbegun || r.outcome == cutOff || r.outcome == stopping {
		return
	}
	failed := p.failed
	p.failed, p.err = failed+1, r.err
	if r.err == nil {
		p.failed = 0
	}
	tell, message, event := m.log.Warn, "Several polls in a row failed", "pollsFail"
	switch {
	case p.failed == failedMany:
	case p.failed == 0 && failed >= failedMany:
		tell, message, event = m.log.Info, "Polls succeed again", "pollsSucceed"
	default:
		return
	}
	tell(message, zap.String("event", event), zap.String("instance", m.leases.InstanceID()), zap.String("endpoint", p.id),
		zap.Int64("fence", r.hold.Fence()), zap.Error(r.err))
}

// failures adds to h how many sessions have polls that always fail.
func (m *SessionManager) failures(h lease.Health) lease.Health {
	m.mu.Lock()
	defer m.mu.Unlock()
	sessions, first := 0, ""
	for id, p := range m.publishers {
		if p.failed < failedMany {
			continue
		}
		if sessions++; first == "" || id < first {
			first = id
		}
	}
	if sessions > 0 && h.OK() {
		h.Reason += fmt.Sprintf("; polls of %d sessions fail, as of %s: %s", sessions, first,
			plain.Text(plain.Cut(m.publishers[first].err.Error(), reasonMax)))
	}
	return h
}
