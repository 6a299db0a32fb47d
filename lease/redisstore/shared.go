package redisstore

import (
	"fmt"

	"github.com/redis/go-redis/v9"
)

// OwnClient returns a client to the server of client that sends every command at most once and honours deadlines of
// contexts, as the stores of this module need. OpTimeout, PoolSize and Hooks of options apply. The caller closes it.
func OwnClient(client redis.UniversalClient, options Options) (redis.UniversalClient, error) {
	opt := options.withDefaults()
	own, err := derive(client, &opt)
	if err != nil {
		return nil, err
	}
	for _, h := range opt.Hooks {
		own.AddHook(h)
	}
	return own, nil
}

// EpochText returns epoch.lua, for a script that takes a lease together with something else: KEYS[1] is the epoch key,
// ARGV[1] the epoch that the caller knows ("" for none: then void is always set), ARGV[2] the length of a quarantine in µs.
func EpochText() string { return epochText }

// LeaseKeys returns the key of a lease, of its fence, and of the epoch, for such a script.
func LeaseKeys(options Options, id string) (lease, fence, epoch string, err error) {
	opt := options.withDefaults()
	if err := checkName("lease", id); err != nil {
		return "", "", "", fmt.Errorf("%w: %w", ErrInvalidOptions, err)
	}
	k := newKeys(2, 2*keyBytes)
	k.add(opt.LeasePrefix, id)
	k.fence(opt.LeasePrefix, id, hashTag(opt.LeasePrefix) != "")
	keys := k.list()
	return keys[0], keys[1], opt.EpochKey, nil
}
