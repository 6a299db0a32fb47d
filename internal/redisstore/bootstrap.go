package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrInUse means that a lease or heartbeat is alive, another quarantine is agreed, or an instance just began to use Redis.
var ErrInUse = errors.New("not a first deployment")

// Bootstrap declares that this Redis is new and that no instance believes it owns a lease. It begins an epoch without quarantine, so the
// first instances need not wait. If the current epoch has no quarantine, Bootstrap changes nothing. It returns ErrInUse while a lease or
// a heartbeat is alive, or if the group agreed on another quarantine, which only SetQuarantine changes.
//
// An operator calls Bootstrap once. Calling it at every start would break G9. With Options.ExactKeys, leases names all lease keys.
func (s *Store) Bootstrap(ctx context.Context, leases ...string) error {
	before, err := s.epoch(ctx)
	if err != nil {
		return err
	}
	group := Group{Epoch: before}
	if err := s.readRecord(ctx, &group); err != nil {
		return err
	}
	wanted := s.wire.opt.Quarantine
	agreed := wanted
	if before != "" && !group.Versions() {
		agreed = group.Agreed
	}
	// No lease can be granted between this read and the script without an epoch. With one, a grant is harmless.
	living, err := s.living(ctx, leases, false)
	if err != nil {
		return err
	}
	if len(living) > 0 {
		return fmt.Errorf("bootstrap: %w: the key %s lives (one of %d); stop all instances and wait until their leases have "+
			"expired, or let the quarantine of %v pass instead", ErrInUse, living[0], len(living), agreed)
	}
	if agreed != wanted { // if the epoch has not changed, neither has the record
		return fmt.Errorf("bootstrap: %w with a quarantine of %v: the instances that share %s have agreed on %v already: give that, or "+
			"change it with admin.SetQuarantine or \"leasectl quarantine %v\"", ErrInUse, wanted, s.wire.opt.EpochKey, agreed, wanted)
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	done, err := bootstrapScript.Run(ctx, s.client, []string{s.wire.opt.EpochKey, s.wire.opt.groupKey()}, before,
		wanted.Microseconds(), s.wire.opt.acks()).Int()
	switch {
	case err != nil:
		return fmt.Errorf("bootstrap: %w", err)
	case done != 1:
		return fmt.Errorf("bootstrap: %w: another instance began to use Redis just now", ErrInUse)
	}
	return nil
}

func (s *Store) epoch(ctx context.Context) (string, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	epoch, err := s.client.Get(ctx, s.wire.opt.EpochKey).Result()
	if errors.Is(err, redis.Nil) {
		return "", nil
	}
	if err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE") {
		return "", fmt.Errorf("the epoch key %s holds no string; another program uses it: choose another EpochKey: %w",
			s.wire.opt.EpochKey, err)
	}
	return epoch, err
}

// living returns the keys of live leases and heartbeats. Unless all is set, it reads heartbeats only if there is no lease.
func (s *Store) living(ctx context.Context, leases []string, all bool) ([]string, error) {
	var keys []string
	for _, key := range leases {
		ctx, cancel := s.deadline(ctx)
		n, err := s.client.Exists(ctx, key).Result()
		cancel()
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", key, err)
		}
		if n > 0 {
			keys = append(keys, key)
		}
	}
	prefixes := []string{s.wire.opt.LeasePrefix, s.wire.opt.NodePrefix}
	if s.wire.opt.ExactKeys {
		prefixes = prefixes[1:]
	}
	for _, prefix := range prefixes {
		if len(keys) > 0 && !all {
			break
		}
		names, err := s.scan(ctx, prefix)
		if err != nil {
			return nil, fmt.Errorf("look for %s*: %w", prefix, err)
		}
		for _, name := range names {
			keys = append(keys, prefix+name)
		}
	}
	return keys, nil
}
