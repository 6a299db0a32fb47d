package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

var (
	// ErrQuarantineTooShort means that the group's quarantine is shorter than this instance's TTL or Quarantine. After a loss of data,
	// Redis could grant this instance's lease to another while this instance still believes in it.
	ErrQuarantineTooShort = errors.New("the group's quarantine is too short")
	// ErrOutlives means that a lease or a heartbeat lives longer than the new quarantine.
	ErrOutlives = errors.New("a key lives longer than the new quarantine")
)

// TooShort returns the error of an instance whose longer one of TTL and Quarantine, needs, exceeds the agreed quarantine.
func (w Wire) TooShort(needs, agreed time.Duration) error {
	return fmt.Errorf("%w: the instances that share %s have agreed on %v (%s), this one needs %v (the longer of its TTL and "+
		"Quarantine): shorten these, or raise the group's with admin.SetQuarantine or \"leasectl quarantine %v\"",
		ErrQuarantineTooShort, w.opt.EpochKey, agreed, w.opt.groupKey(), needs, needs)
}

// TooShort is Wire.TooShort.
func (s *Store) TooShort(needs, agreed time.Duration) error { return s.wire.TooShort(needs, agreed) }

// CheckQuarantine returns ErrQuarantineTooShort if the group agreed on less than Options.Quarantine. It changes nothing.
func (s *Store) CheckQuarantine(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	us, err := s.client.HGet(ctx, s.wire.opt.groupKey(), "quarantine").Int64()
	if err != nil {
		return nil // the first answer reports the quarantine to an instance that may not read it
	}
	if agreed := time.Duration(span(us, time.Microsecond)); agreed < s.wire.opt.Quarantine {
		return s.wire.TooShort(s.wire.opt.Quarantine, agreed)
	}
	return nil
}

// SetQuarantine changes the quarantine of the group that shares the epoch, and returns the previous one. It begins a new epoch, which
// every instance notices with its next request. Living owners reassert their leases. Redis grants free leases again after the longer of
// the two quarantines.
//
// If the new quarantine is shorter, SetQuarantine returns ErrOutlives while a lease or a heartbeat outlives it. With Options.ExactKeys, it
// cannot find the leases: pass their names. The check misses an instance without leases, but such an instance does not believe the new
// epoch, and restores the old quarantine.
func (s *Store) SetQuarantine(ctx context.Context, length time.Duration, leases ...string) (before time.Duration, err error) {
	if length < time.Millisecond {
		return 0, fmt.Errorf("%w: a quarantine of %v; it must be at least 1ms", ErrInvalidOptions, length)
	}
	a := s.Do(ctx, &core.Op{Kind: core.OpObserve})
	if a.Failure != core.FailNone {
		return 0, fmt.Errorf("set quarantine: read %s: %s", s.wire.opt.EpochKey, a.Text)
	}
	before = time.Duration(a.Group)
	if length < before {
		if err := s.outlives(ctx, length, leases); err != nil {
			return before, fmt.Errorf("set quarantine: %w", err)
		}
	}
	after, err := s.inNewEpoch(ctx, quarantineScript, a.Epoch, max(length, before), length.Microseconds())
	if err != nil {
		return before, fmt.Errorf("set quarantine: %w", err)
	}
	if after.Group != int64(length) {
		return before, fmt.Errorf("set quarantine: the epoch \"%s\" ended meanwhile: nothing was changed, try again", a.Epoch)
	}
	return before, nil
}

// SetReplicas lowers the number of acknowledgements of a write to what Options.Replicas requires, and returns the old and the new number.
// Nothing else lowers it, because the highest number among the instances counts. It begins a new epoch, unless the number is low enough.
//
// Call it once the surplus nodes are gone for good and every instance has restarted with the lower number. Otherwise an instance would
// raise it again. SetReplicas returns ErrReplicas while more replicas than Options.Replicas acknowledge, because two masters could both
// have a majority.
func (s *Store) SetReplicas(ctx context.Context) (before, after int, err error) {
	info, err := s.info(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("set replicas: %w", Diagnose(err))
	}
	if s.wire.opt.Replicas > 0 {
		if _, err := verdict(judgeReplicas(info, s.wire.opt.Replicas)); err != nil {
			return 0, 0, fmt.Errorf("set replicas: %w", err)
		}
	}
	epoch, err := s.epoch(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("set replicas: %w", err)
	}
	before, after = acksOf(epoch), s.wire.opt.acks()
	if before <= after {
		return before, before, nil
	}
	a := s.Do(ctx, &core.Op{Kind: core.OpObserve})
	if a.Failure != core.FailNone {
		return before, before, fmt.Errorf("set replicas: read %s: %s", s.wire.opt.EpochKey, a.Text)
	}
	changed, err := s.inNewEpoch(ctx, replicasScript, a.Epoch, time.Duration(a.Group), after)
	if err != nil {
		return before, before, fmt.Errorf("set replicas: %w", err)
	}
	if acksOf(changed.Epoch) != after {
		return before, before, fmt.Errorf("set replicas: the epoch \"%s\" ended meanwhile: nothing was changed, try again", a.Epoch)
	}
	return before, after, nil
}

func acksOf(epoch string) int {
	_, _, acks := core.LifeOf(epoch)
	return int(acks)
}

// inNewEpoch makes script set the group's record to value in a new epoch, unless the epoch known has ended.
func (s *Store) inNewEpoch(ctx context.Context, script *script, known string, quarantine time.Duration, value any) (core.Answer, error) {
	var after core.Answer
	reply, err := s.run(ctx, Call{script, []string{s.wire.opt.EpochKey, s.wire.opt.groupKey()},
		[]any{known, quarantine.Microseconds(), value}})
	if err == nil {
		_, err = decodeHead(reply, &after)
	}
	return after, err
}

func (s *Store) outlives(ctx context.Context, length time.Duration, leases []string) error {
	keys, err := s.living(ctx, leases, true)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := s.endsWithin(ctx, key, length); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) endsWithin(ctx context.Context, key string, length time.Duration) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	left, err := s.client.PTTL(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("how long %s lives: %w", key, err)
	}
	most := length
	if strings.HasPrefix(key, s.wire.opt.NodePrefix) {
		most += s.wire.opt.BeatSlack
	}
	if left > most {
		return fmt.Errorf("%w: %s lives for another %v, the quarantine would be %v; give every instance a TTL of at most that first",
			ErrOutlives, key, left, length)
	}
	return nil
}
