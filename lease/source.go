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
	*instance
	diagnosis *diagnosis
	last      *core.Sessions
	bad       map[string]bool // invalid IDs that were reported
}

// sessions returns the sessions to share. When the source fails, its last result stays in use: a broken source must not look like a
// fleet without sessions, nor like a Redis that does not answer.
func (s *source) sessions(ctx context.Context) *core.Sessions {
	if s.last == nil {
		s.last = core.NewSessions(nil)
	}
	if s.cfg.Sessions == nil {
		return s.last
	}
	deadline, _ := ctx.Deadline()
	now := time.Now()
	due := now.Add(deadline.Sub(now) / 2) // the other half of the time is for the discovery itself
	ctx, cancel := context.WithDeadline(ctx, due)
	defer cancel()
	ids, left, err := s.read(ctx, due.Sub(now))
	if s.ctx.Err() != nil {
		return s.last // Stop has ended the read
	}
	s.diagnosis.troubled(&s.diagnosis.troubles.unread, redisstore.Cause(err))
	if err != nil {
		return s.last
	}
	ids = s.valid(ids, left)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	s.diagnosis.learn(func() {
		s.diagnosis.sessions = sourced{read: true, count: len(ids), skipped: left.Count, names: left.Names}
	})
	if len(ids) == 0 && len(s.last.IDs) > 0 {
		s.log.Warn("no sessions to share: all are gone, paused or malformed", zap.String("event", "sessionsGone"),
			zap.String("instance", s.cfg.InstanceID), zap.Int("sessions", len(s.last.IDs)), zap.Int("skipped", left.Count))
	}
	if !slices.Equal(ids, s.last.IDs) {
		s.last = core.NewSessions(ids)
	}
	return s.last
}

// skippedError is an error that Config.Sessions returns together with valid IDs.
type skippedError interface {
	Skipped() (count int, names []string)
}

// read calls Config.Sessions, which may take up to patience.
func (s *source) read(ctx context.Context, patience time.Duration) (ids []string, left *inner.Skipped, err error) {
	err = s.log.Calls.Call("Config.Sessions", patience, func() (err error) {
		ids, err = s.cfg.Sessions(ctx)
		return err
	})
	left = &inner.Skipped{}
	if beside := skippedError(nil); errors.As(err, &beside) {
		count, names := beside.Skipped()
		left, err = &inner.Skipped{Count: count, Names: slices.Clone(names)}, nil
	}
	return ids, left, err
}

// valid drops invalid session IDs and reports each once.
func (s *source) valid(ids []string, left *inner.Skipped) []string {
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
		if !s.bad[id] {
			s.log.Warn("a session is malformed, and nobody polls it", zap.String("event", "sessionRefused"),
				zap.String("instance", s.cfg.InstanceID), zap.String("error", plain.Text(plain.Cut(err.Error(), inner.SkippedText))))
		}
	}
	s.bad = bad
	return good
}
