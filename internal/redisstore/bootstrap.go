package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/leasestorm/leasestorm/internal/core"
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
		return fmt.Errorf("bootstrap: %w: the key %s exists (one of %d); stop all instances and wait until their leases have "+
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

// Begin reads the epoch, and begins one if there is none. It must run before any other script, because an executed script is a sign
// against a new Redis. If Begin finds no epoch and the new one has a quarantine, it returns the reason, otherwise "".
func (s *Store) Begin(ctx context.Context) (why string) {
	before, err := s.epoch(ctx)
	if err != nil {
		return "" // the following operations report it
	}
	a := s.Do(ctx, &core.Op{Kind: core.OpObserve})
	if a.Failure != core.FailNone || a.Quarantine == 0 {
		return ""
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	noted, _ := s.client.HGet(ctx, s.wire.opt.groupKey(), "doubt").Result()
	if why, ok := strings.CutPrefix(noted, a.Epoch+" "); ok {
		return why
	}
	if before == "" {
		return "it is not at a loopback address"
	}
	return ""
}
