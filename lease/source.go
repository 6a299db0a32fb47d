package lease

import (
	"context"
	"errors"
	"slices"

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
	underWay  chan listed // the call of Config.Sessions whose result is not in use yet; nil: none
	read      bool        // a call has succeeded
	last      *core.Sessions
	bad       map[string]bool // invalid IDs that were reported
}

// listed is what a call of Config.Sessions returned.
type listed struct {
	ids  []string
	left *inner.Skipped
	err  error
}

var errSlow = errors.New("Config.Sessions has not returned yet")

// sessions returns the sessions to share. When the source fails, its last result stays in use: a broken source must not look like a
// fleet without sessions, nor like a Redis that does not answer. A call that takes longer than a discovery goes on, for the next one:
// otherwise the instances of a large fleet that start at once would slow each other down until no call ends in time. The result is nil if
// the first call takes that long.
func (s *source) sessions(ctx context.Context) *core.Sessions {
	if s.cfg.Sessions == nil {
		return s.last
	}
	patience := s.cfg.DiscoveryInterval
	if s.read {
		patience /= 2
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ids, left, err := s.wait(ctx)
	if s.ctx.Err() != nil {
		return s.last // Stop has ended the read
	}
	s.diagnosis.troubled(&s.diagnosis.troubles.unread, redisstore.Cause(err))
	switch {
	case errors.Is(err, errSlow) && !s.read:
		return nil
	case err != nil:
		return s.last
	}
	s.read = true
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

// wait waits for a call of Config.Sessions until ctx ends.
func (s *source) wait(ctx context.Context) ([]string, *inner.Skipped, error) {
	if s.underWay == nil {
		done := make(chan listed, 1)
		s.underWay = done
		s.workers.Go(func() { done <- s.call() })
	}
	select {
	case r := <-s.underWay:
		s.underWay = nil
		return r.ids, r.left, r.err
	case <-ctx.Done():
		return nil, nil, errSlow
	}
}

// call calls Config.Sessions, which may take up to a TTL.
func (s *source) call() listed {
	ctx, cancel := context.WithTimeout(s.ctx, s.cfg.TTL)
	defer cancel()
	r := listed{left: &inner.Skipped{}}
	r.err = s.log.Calls.Call("Config.Sessions", s.cfg.TTL, func() (err error) {
		r.ids, err = s.cfg.Sessions(ctx)
		return err
	})
	if beside := skippedError(nil); errors.As(r.err, &beside) {
		count, names := beside.Skipped()
		r.left, r.err = &inner.Skipped{Count: count, Names: slices.Clone(names)}, nil
	}
	return r
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
