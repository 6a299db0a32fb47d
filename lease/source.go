package lease

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/inner"
	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// source reads the sessions to share. Only the worker of the discovery lane uses it.
type source struct {
	read func(context.Context) ([]string, error)
	last *core.Sessions
	bad  map[string]bool // invalid IDs that were reported
}

// sourced is the result of the last successful read of the sessions.
type sourced struct {
	read    bool // a read succeeded
	count   int
	skipped int
	names   []string
}

// useless reports whether sessions exist, or may exist, but none can be shared.
func (s *shell) useless() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions.count == 0 && (s.sessions.skipped > 0 || s.unread.err != nil)
}

// readSessions returns the sessions to share. When the source fails, its last result remains valid: a broken source must not look like a
// fleet without sessions, nor like a Redis that does not answer.
func (s *shell) readSessions(ctx context.Context) *core.Sessions {
	src := &s.source
	if src.last == nil {
		src.last = core.NewSessions(nil)
	}
	if src.read == nil {
		return src.last
	}
	deadline, _ := ctx.Deadline()
	now := time.Now()
	due := now.Add(deadline.Sub(now) / 2) // the other half of the time is for the discovery itself
	ctx, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	ids, left, err := s.askSource(ctx, due.Sub(now))
	if s.ctx.Err() != nil {
		return src.last // Stop has ended the read
	}
	s.troubled(&s.unread, redisstore.Cause(err))
	if err != nil {
		return src.last
	}
	ids = s.onlySessions(ids, left)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	s.learn(func() { s.sessions = sourced{read: true, count: len(ids), skipped: left.Count, names: left.Names} })
	if len(ids) == 0 && len(src.last.IDs) > 0 {
		s.log.Warn("no sessions to share: all are gone, paused or malformed", zap.String("event", "sessionsGone"),
			zap.String("instance", s.cfg.InstanceID), zap.Int("sessions", len(src.last.IDs)), zap.Int("skipped", left.Count))
	}
	if !slices.Equal(ids, src.last.IDs) {
		src.last = core.NewSessions(ids)
	}
	return src.last
}

// skippedError is an error of Config.Sessions beside valid IDs.
type skippedError interface {
	Skipped() (count int, names []string)
}

// askSource calls Config.Sessions, which may take as long as patience.
func (s *shell) askSource(ctx context.Context, patience time.Duration) (ids []string, left *inner.Skipped, err error) {
	err = s.log.Calls.Call("Config.Sessions", patience, func() (err error) {
		ids, err = s.source.read(ctx)
		return err
	})
	left = &inner.Skipped{}
	if beside := skippedError(nil); errors.As(err, &beside) {
		count, names := beside.Skipped()
		left, err = &inner.Skipped{Count: count, Names: slices.Clone(names)}, nil
	}
	return ids, left, err
}

// onlySessions drops invalid session IDs and reports each once.
func (s *shell) onlySessions(ids []string, left *inner.Skipped) []string {
	bad := map[string]bool{}
	good := make([]string, 0, len(ids))
	for _, id := range ids {
		err := s.cfg.checkSession(id)
		if err == nil {
			good = append(good, id)
			continue
		}
		left.Skip(err.Error())
		bad[id] = true
		if !s.source.bad[id] {
			s.log.Warn("session left out", zap.String("event", "sessionRefused"),
				zap.String("instance", s.cfg.InstanceID), zap.String("error", plain.Text(plain.Cut(err.Error(), inner.SkippedText))))
		}
	}
	s.source.bad = bad
	return good
}
