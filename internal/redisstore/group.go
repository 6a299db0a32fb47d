package redisstore

import (
	"context"
	"errors"
	"fmt"
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
		"Quarantine): shorten these, or raise the group's with lease.SetQuarantine or \"node quarantine %v\"",
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
			return before, err
		}
	}
	reply, err := s.run(ctx, Call{quarantineScript, []string{s.wire.opt.EpochKey, s.wire.opt.groupKey()},
		[]any{a.Epoch, max(length, before).Microseconds(), length.Microseconds()}})
	if err != nil {
		return before, fmt.Errorf("set quarantine: %w", err)
	}
	var after core.Answer
	if _, err := decodeHead(reply, &after); err != nil {
		return before, fmt.Errorf("set quarantine: %w", err)
	}
	if after.Group != int64(length) {
		return before, fmt.Errorf("set quarantine: the epoch %q ended meanwhile: nothing was changed, try again", a.Epoch)
	}
	return before, nil
}

func (s *Store) outlives(ctx context.Context, length time.Duration, leases []string) error {
	keys, err := s.living(ctx, leases, true)
	if err != nil {
		return err
	}
	for _, key := range keys {
		ctx, cancel := s.deadline(ctx)
		left, err := s.client.PTTL(ctx, key).Result()
		cancel()
		if err != nil {
			return fmt.Errorf("set quarantine: how long %s lives: %w", key, err)
		}
		if left > length {
			return fmt.Errorf("set quarantine: %w: %s lives for another %v, the quarantine would be %v; give every instance a TTL "+
				"of at most that first", ErrOutlives, key, left, length)
		}
	}
	return nil
}
