package redisstore

import (
	"context"
	"slices"
	"time"
)

// Pass moves owner's leases to heir for ttl, or frees them if heir is "". It returns the leases that owner held. The caller guarantees
// that owner no longer believes in them, and that heir acquires them before it believes in them.
func (s *Store) Pass(ctx context.Context, owner, heir string, ttl time.Duration, ids ...string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	if heir == "" {
		heir = nobody
	} else if err := CheckInstance(heir); err != nil {
		return nil, err
	}
	if err := CheckInstance(owner); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := s.CheckLease(id); err != nil {
			return nil, err
		}
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	var passed []string
	for page := range slices.Chunk(ids, ItemsMax) {
		k := newKeys(len(page))
		for _, id := range page {
			k.add(s.wire.opt.LeasePrefix, id)
		}
		reply, err := passScript.Run(ctx, s.client, k.list(), owner, heir, ttl.Milliseconds(), s.wire.opt.Channel,
			len(s.wire.opt.LeasePrefix)).StringSlice()
		if err != nil {
			return passed, Cause(err)
		}
		passed = append(passed, reply...)
	}
	return passed, nil
}
