package redisstore

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// Done reports whether Redis still records the work of a lease as done.
func (s *Store) Done(ctx context.Context, lease string) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	err := s.client.Get(ctx, s.doneKeys(lease)[2]).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, Cause(err)
}

// NoteDone records for life, at least 1 ms, that the work of a lease is done. If h no longer holds the lease, it does nothing.
func (s *Store) NoteDone(ctx context.Context, h Holding, life time.Duration) (bool, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	noted, err := doneScript.Run(ctx, s.client, s.doneKeys(h.ID), h.Owner, h.Fence, life.Milliseconds()).Int()
	if err != nil {
		return false, Cause(err)
	}
	return noted == 1, nil
}

// doneKeys returns the keys of a lease, its fence and the record, in one slot. The record's key has the form of askKey's.
func (s *Store) doneKeys(lease string) []string {
	prefix, tagged := s.wire.opt.LeasePrefix, s.wire.tagged
	k := newKeys(3)
	k.add(prefix, lease)
	k.fence(prefix, lease, tagged)
	if tagged {
		k.fence(prefix, lease+" done", tagged)
	} else {
		k.fence(prefix, lease+"} done", tagged)
	}
	return k.list()
}
