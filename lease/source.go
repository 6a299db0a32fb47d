package lease

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/callback"
	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/logentry/zaplog"
	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// source reads the sessions to share. Only the worker of the look lane uses it.
type source struct {
	read  func(context.Context) ([]string, error)
	last  *core.Sessions
	told  time.Time       // when it was last told that they cannot be read; zero: they can
	got   *sourced        // nil: never
	bad   map[string]bool // IDs that were reported as no UUID
	asked atomic.Pointer[question]
}

// question is a call of Config.Sessions under way.
type question struct {
	since time.Time
	due   time.Time // one that goes on beyond this does not end with its context
}

func (s *shell) question(ctx context.Context) *question {
	q := &question{since: time.Now()}
	q.due = q.since
	if deadline, ok := ctx.Deadline(); ok {
		q.due = deadline
	}
	q.due = q.due.Add(s.cfg.OpTimeout)
	return q
}

// readSessions returns what is to be owned. When the source fails, its last answer stands: a broken source must not look like
// a fleet without sessions, nor like a Redis that does not answer.
func (s *shell) readSessions(ctx context.Context) *core.Sessions {
	src := &s.source
	if src.last == nil {
		src.last = core.NewSessions(nil)
	}
	if src.read == nil {
		return src.last
	}
	if deadline, ok := ctx.Deadline(); ok { // leave half of the time to the look itself
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
		defer cancel()
	}
	src.asked.Store(s.question(ctx))
	s.post(func() {}) // Health changes when it is due
	ids, left, err := src.ask(ctx)
	src.asked.Store(nil)
	if err != nil {
		s.unread(err)
		return src.last
	}
	if !src.told.IsZero() {
		src.told = time.Time{}
		s.log.Info("the sessions are read again", zap.String("event", "sessionsRead"), zap.String("instance", s.cfg.InstanceID))
	}
	ids = s.onlySessions(ids, left)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	s.read(sourced{sessions: len(ids), skipped: left.Count, names: left.Names})
	if len(ids) == 0 && len(src.last.IDs) > 0 {
		s.log.Warn("no session is left to share: those there were are gone, paused or malformed", zap.String("event", "sessionsGone"),
			zap.String("instance", s.cfg.InstanceID), zap.Int("sessions", len(src.last.IDs)), zap.Int("skipped", left.Count))
	}
	if !slices.Equal(ids, src.last.IDs) {
		src.last = core.NewSessions(ids)
	}
	return src.last
}

// read takes what a reading gave, and has Health show it.
func (s *shell) read(got sourced) {
	s.source.got = &got
	s.post(func() { s.sessions = &got })
}

// unreadEvery is between two entries that the sessions cannot be read.
const unreadEvery = time.Minute

// unread takes note that the sessions could not be read, and tells it when that begins and as long as it goes on.
func (s *shell) unread(err error) {
	if s.ctx.Err() != nil {
		return // Stop has ended the reading
	}
	src, now := &s.source, time.Now()
	got := sourced{}
	if src.got != nil {
		got = *src.got
	}
	if got.err == nil {
		got.since = now
	}
	got.err = redisstore.Cause(err)
	s.read(got)
	if src.told.IsZero() || now.Sub(src.told) >= unreadEvery {
		src.told = now
		s.log.Warn("the sessions cannot be read; the last known ones stand", zap.String("event", "sessionsFailed"),
			zap.String("instance", s.cfg.InstanceID), zap.String("since", stamp(got.since)), zap.Error(err), zaplog.Stack(err))
	}
}

// ask calls the user's function.
func (src *source) ask(ctx context.Context) (ids []string, left *SkippedError, err error) {
	err = callback.Call("Config.Sessions", func() (err error) {
		ids, err = src.read(ctx)
		return err
	})
	left = &SkippedError{}
	if beside := (*SkippedError)(nil); errors.As(err, &beside) {
		left, err = beside.clone(), nil
	}
	return ids, left, err
}

// onlySessions leaves out what is no session ID and reports each once.
func (s *shell) onlySessions(ids []string, left *SkippedError) []string {
	bad := map[string]bool{}
	good := make([]string, 0, len(ids))
	for _, id := range ids {
		err := s.cfg.CheckSession(id)
		if err == nil {
			good = append(good, id)
			continue
		}
		left.Skip(err.Error())
		bad[id] = true
		if !s.source.bad[id] {
			s.log.Warn("session left out", zap.String("event", "sessionRefused"),
				zap.String("instance", s.cfg.InstanceID), zap.String("error", plain.Text(plain.Cut(err.Error(), skippedText))))
		}
	}
	s.source.bad = bad
	return good
}
