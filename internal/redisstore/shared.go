package redisstore

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisclient"
)

// OwnClient returns a client to client's server that never retries and honours deadlines of contexts. OpTimeout, PoolSize and Hooks of
// options apply. The caller closes it.
func OwnClient(client redis.UniversalClient, options Options) (redis.UniversalClient, error) {
	opt := options.withDefaults()
	own, err := derive(client, &opt)
	if err != nil {
		return nil, err
	}
	for _, h := range opt.Hooks {
		own.AddHook(redisclient.Watch(opt.Calls, h))
	}
	own.AddHook(redisclient.Masking{}) // the innermost hook, so that the others see no password
	return own, nil
}

// EpochText returns epoch.lua, for a script that acquires a lease together with other data. KEYS[1] is the epoch key. The last of KEYS,
// which epoch.lua removes, is the group's. ARGV[1] is the caller's epoch ("" sets void), ARGV[2] the quarantine in µs.
func EpochText() string { return Lua(lua, "life", "doubt", "epoch") }

// LeaseKeys returns the keys for such a script, in order: the epoch, the lease, its fence and the group's record.
func LeaseKeys(options Options, id string) ([]string, error) {
	opt := options.withDefaults()
	if err := CheckLease(options, id); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	k := newKeys(4)
	k.add(opt.EpochKey, "")
	k.add(opt.LeasePrefix, id)
	k.fence(opt.LeasePrefix, id, hashTag(opt.LeasePrefix) != "")
	k.add(opt.groupKey(), "")
	return k.list(), nil
}

// FenceKeys returns the two fixed parts of the fence key of a lease whose name begins with begin. The rest of the name is between them.
func FenceKeys(options Options, begin string) (before, after string) {
	opt := options.withDefaults()
	if hashTag(opt.LeasePrefix) != "" {
		return opt.LeasePrefix + begin, fenceSuffix
	}
	return "{" + opt.LeasePrefix + begin, "}" + fenceSuffix
}

// CheckLease returns why id cannot be a lease's ID with these options, or nil if it can.
func CheckLease(options Options, id string) error {
	opt := options.withDefaults()
	return Wire{opt, hashTag(opt.LeasePrefix) != ""}.CheckLease(id)
}

// NewEpoch returns ARGV[2] of such a script.
func NewEpoch(options Options) any { return options.epoch(options.withDefaults().Quarantine) }
