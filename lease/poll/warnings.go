package poll

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/policy"
	"github.com/leasestorm/leasestorm/lease"
)

// warnings warns of sessions whose polls never succeed. SessionManager.mu guards it.
type warnings struct {
	log        *zap.Logger
	instance   string
	publishers map[string]*publisher
}

// failedMany is the number of failed polls of a session in a row that leads to a warning.
const failedMany = 3

// judge warns once of a session whose polls always fail, and logs once that they succeed again. It ignores polls that something else
// ended. The caller holds mu.
func (w *warnings) judge(p *publisher, r *run) {
	if r.policy == policy.Unbegun || r.stopped {
		return
	}
	failed := p.failed
	p.failed, p.err = failed+1, r.err
	if r.err == nil {
		p.failed = 0
	}
	tell, message, event := w.log.Warn, "Several polls of a session in a row failed", "pollsFail"
	switch {
	case p.failed == failedMany:
	case p.failed == 0 && failed >= failedMany:
		tell, message, event = w.log.Info, "Polls of the session succeed again", "pollsSucceed"
	default:
		return
	}
	tell(message, zap.String("event", event), zap.String("instance", w.instance), zap.String("endpoint", p.id),
		zap.Int64("fence", r.hold.Fence()), zap.Error(r.err))
}

// failures adds to h how many sessions have polls that always fail. The caller holds mu.
func (w *warnings) failures(h lease.Health) lease.Health {
	sessions, first := 0, ""
	for id, p := range w.publishers {
		if p.failed < failedMany {
			continue
		}
		if sessions++; first == "" || id < first {
			first = id
		}
	}
	if sessions > 0 && h.OK() {
		h.Reason += fmt.Sprintf("; polls of %d sessions fail, such as %s: %s", sessions, first,
			plain.Text(plain.Cut(w.publishers[first].err.Error(), reasonMax)))
	}
	return h
}
