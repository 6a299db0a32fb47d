package lease

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// rights limits how often the line is asked for that grants what an ACL denies: it takes a dozen commands.
type rights struct {
	mu   sync.Mutex             // held while it is asked for
	at   time.Time              // when it was last
	line atomic.Pointer[string] // nil: not known
}

// known returns the line that grants what is denied, "" if it is not known.
func (r *rights) known() string {
	if line := r.line.Load(); line != nil {
		return *line
	}
	return ""
}

// forget drops the line once nothing is denied: the next denial may be of something else.
func (r *rights) forget() { r.line.Store(nil) }

// explain asks for the line that grants what err says is denied, once in a renewal interval, and puts it into the log. names are the
// leases that are meant.
func (s *shell) explain(err error, names []string) {
	r := &s.rights
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if r.known() != "" || !r.at.IsZero() && now.Sub(r.at) < s.cfg.RenewInterval {
		return
	}
	r.at = now
	if line := s.line(names); line != "" {
		r.line.Store(&line)
		s.post(func() {}) // Health shows it
		s.log.Warn("the ACL of Redis denies what leases need", zap.String("event", "warning"),
			zap.String("instance", s.cfg.InstanceID), zap.Error(redisstore.Granting(err, line)))
	}
}

// line returns the line that grants what this instance needs, "" if that is not known.
func (s *shell) line(names []string) string {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.OpTimeout)
	defer cancel()
	use := s.use()
	use.Leases = names
	return s.store.Line(ctx, use)
}

// explained is the error of a call as its caller is to see it: a denial has the line that grants it. It may ask Redis.
func (s *shell) explained(err error, name string) error {
	if !redisstore.Denies(err) {
		return err
	}
	s.explain(err, []string{name})
	return redisstore.Granting(err, s.rights.known())
}

// namesOf returns some of the leases of items: each that has to be named in a rule of its own costs Redis commands.
func namesOf(items []core.Item) []string {
	names := make([]string, min(len(items), 3))
	for i := range names {
		names[i] = items[i].ID
	}
	return names
}
