package worker

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/leasestorm/leasestorm/internal/membership"
	"github.com/leasestorm/leasestorm/internal/ready"
)

// beats keeps the worker alive in the registry and cleans up after dead
// workers. It does both ten times per TTL.
type beats struct {
	life     time.Duration
	log      *zap.Logger
	wrote    func(sent time.Time) // the keeper's Wrote
	soon     signal               // beat and sweep now
	registry ready.Watch
}

func (b *beats) run(ctx context.Context, m *membership.Member) {
	ticker := time.NewTicker(membership.BeatInterval(b.life))
	defer ticker.Stop()
	registry := &outage{log: b.log, what: "registry"}
	var foreign time.Time // time of the last entry about foreign keys; zero: none
	for {
		sent := time.Now()
		err := m.Beat(ctx)
		b.registry.Note(err)
		if err == nil {
			b.wrote(sent)
			foreign = b.tellForeign(m.Bus.Foreign(), foreign)
		}
		if ctx.Err() == nil {
			registry.note(err)
		}
		select {
		case <-ticker.C:
		case <-b.soon:
			if early := kickPause(b.life) - time.Since(sent); early > 0 {
				m.Pause(ctx, early)
			}
		case <-ctx.Done():
			return
		}
	}
}

// kickPause is the least time between two beats, because anyone with publish
// rights can cause them.
func kickPause(life time.Duration) time.Duration { return membership.BeatInterval(life) / 10 }

// foreignLogEvery is the least time between log entries about keys that an
// operator has to repair.
const foreignLogEvery = time.Minute

// tellForeign logs keys of another type. last is the time of the last entry.
func (b *beats) tellForeign(keys []string, last time.Time) time.Time {
	if len(keys) == 0 {
		return time.Time{}
	}
	if time.Since(last) < foreignLogEvery {
		return last
	}
	b.log.Warn("keys hold the wrong type and are not used; rename or delete them", zap.Strings("keys", keys))
	return time.Now()
}

// failureLogEvery is the least time between log entries while Redis keeps
// failing.
const failureLogEvery = 3 * time.Second

// outage logs the beginning and the end of Redis' unreachability. It is not
// safe for concurrent use.
type outage struct {
	log  *zap.Logger
	what string
	told time.Time // time of the last warning; zero: reachable
}

func (o *outage) note(err error) {
	switch {
	case err == nil && !o.told.IsZero():
		o.log.Info(o.what + " reached again")
		o.told = time.Time{}
	case err != nil && time.Since(o.told) >= failureLogEvery:
		o.log.Warn(o.what+" not reached", zap.Error(err))
		o.told = time.Now()
	}
}
