package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// Errors of what the instances that share an epoch have agreed on.
var (
	// ErrQuarantineTooShort says that the group's quarantine is shorter than this instance's TTL or Quarantine: after a loss of
	// data another could be granted what this instance still believes in.
	ErrQuarantineTooShort = errors.New("the group's quarantine is too short")
	// ErrOutlives says that SetQuarantine found a lease or a heartbeat that lives longer than the new quarantine.
	ErrOutlives = errors.New("something lives longer than the quarantine would be")
)

// TooShort returns the error of an instance whose TTL or Quarantine, whichever is longer, is needs, while its group has agreed
// on agreed.
func (w Wire) TooShort(needs, agreed time.Duration) error {
	return fmt.Errorf("%w: the instances that share %s have agreed on %v (%s), this one needs %v (the longer of its TTL and "+
		"Quarantine): shorten these, or raise the group's with lease.SetQuarantine or \"leasectl quarantine %v\"",
		ErrQuarantineTooShort, w.opt.EpochKey, agreed, w.opt.groupKey(), needs, needs)
}

// TooShort is Wire.TooShort.
func (s *Store) TooShort(needs, agreed time.Duration) error { return s.wire.TooShort(needs, agreed) }

// CheckQuarantine returns ErrQuarantineTooShort where the group has agreed on less than Options.Quarantine. It changes nothing.
func (s *Store) CheckQuarantine(ctx context.Context) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	us, err := s.client.HGet(ctx, s.wire.opt.groupKey(), "quarantine").Int64()
	if err != nil {
		return nil // there is none, or whoever may not read it learns of it with the first answer
	}
	if agreed := time.Duration(span(us, time.Microsecond)); agreed < s.wire.opt.Quarantine {
		return s.wire.TooShort(s.wire.opt.Quarantine, agreed)
	}
	return nil
}

// Unused reports whether no epoch was ever begun here: nobody has asked this server for a lease, or it has lost all its data. Unknown
// is false.
func (s *Store) Unused(ctx context.Context) bool {
	epoch, err := s.epoch(ctx)
	return err == nil && epoch == ""
}

// SetQuarantine changes what the group that shares the epoch has agreed on, and returns what that was. It begins a new epoch, so
// that every instance hears of it with its next request: living owners assert their leases again, and what is free is granted
// again after one quarantine, the longer of the two. leases are names to look for where Options.ExactKeys leaves none to find.
//
// A shorter one is refused with ErrOutlives while a lease or a heartbeat lives longer than it. An instance that is not seen by
// that, because it holds nothing, does not believe in the new epoch and restores the old length.
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

// SetReplicas lowers how many replicas have to acknowledge what counts to what Options.Replicas needs, and returns how many had to, and
// have to now. Nothing else lowers it, since the highest number that an instance brings counts. It begins a new epoch, as
// SetQuarantine does.
//
// It is for the operator, when the nodes that are too many have ended for good and every instance was restarted with the lower
// number: one that still brings the higher raises it again with its next request. While more replicas acknowledge than
// Options.Replicas, ErrReplicas: two masters could both have a majority of the lower number. Where no more have to already, it
// changes nothing: instances raise it by themselves.
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

// acksOf is how many replicas have to acknowledge what counts in an epoch.
func acksOf(epoch string) int {
	_, _, acks := core.LifeOf(epoch)
	return int(acks)
}

// inNewEpoch has script change what the group has agreed on, to value, in an epoch that begins with a quarantine of that length. known is
// the epoch in which it was decided: where that has ended nothing is changed.
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

// endsWithin returns ErrOutlives where a key lives longer than that.
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
