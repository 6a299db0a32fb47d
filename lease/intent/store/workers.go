package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// WorkerInfo is one worker of the registry.
type WorkerInfo struct {
	Instance string
	Info     string        // what it says of itself
	Age      time.Duration // since its last beat, by Redis' clock
	Left     bool          // it has signed off

	beat float64 // its last, as the registry has it
}

// Workers returns all workers of the registry, dead ones that were not dealt with yet included.
func (s *Store) Workers(ctx context.Context) ([]WorkerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	pipe := s.client.Pipeline()
	clock := pipe.Time(ctx)
	beats := pipe.ZRangeWithScores(ctx, s.opt.KeyPrefix+"workers", 0, -1)
	infos := pipe.HGetAll(ctx, s.opt.KeyPrefix+"worker:info")
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, unavailable(err)
	}
	var all []WorkerInfo
	for _, b := range beats.Val() {
		instance := fmt.Sprint(b.Member)
		age := clock.Val().Sub(time.UnixMilli(int64(b.Score)))
		all = append(all, WorkerInfo{Instance: instance, Info: infos.Val()[instance], Age: age, Left: b.Score == 0, beat: b.Score})
	}
	return all, nil
}

// ServicesOf returns the services whose leases a worker may hold: those of the sessions that it has begun, and of the entries
// it was given and is not done with. Some may be there twice. What a foreign hand has put in the place of one, at which no lease can be,
// is left out.
func (s *Store) ServicesOf(ctx context.Context, worker string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opt.OpTimeout)
	defer cancel()
	ids, err := s.client.ZRange(ctx, s.opt.KeyPrefix+"owned:"+worker, 0, -1).Result()
	if err != nil {
		return nil, unavailable(err)
	}
	pending, err := s.client.XPendingExt(ctx, &redis.XPendingExtArgs{Stream: s.bus, Group: group, Start: "-", End: "+",
		Count: pendingMax, Consumer: worker}).Result()
	if err != nil {
		return nil, unavailable(err)
	}
	if len(ids)+len(pending) == 0 {
		return nil, nil
	}
	pipe := s.client.Pipeline()
	var begun []*redis.StringCmd
	var given []*redis.XMessageSliceCmd
	for _, id := range ids {
		begun = append(begun, pipe.HGet(ctx, s.session(id), "service"))
	}
	for _, p := range pending {
		given = append(given, pipe.XRange(ctx, s.bus, p.ID, p.ID))
	}
	_, _ = pipe.Exec(ctx) // each answer has its own error
	var services []string
	for _, c := range begun {
		if err := c.Err(); err != nil && !errors.Is(err, redis.Nil) && !foreign(err) {
			return nil, unavailable(err)
		}
		services = append(services, c.Val())
	}
	for _, c := range given {
		if err := c.Err(); err != nil {
			return nil, unavailable(err)
		}
		for _, m := range c.Val() {
			services = append(services, fmt.Sprint(m.Values["service"]))
		}
	}
	return slices.DeleteFunc(services, func(ref string) bool { return !s.leasable(ServiceLease(ref)) }), nil
}

// leasable reports whether a lease can have that name.
func (s *Store) leasable(name string) bool {
	return redisstore.CheckLease(s.opt.leaseOptions(), name) == nil
}

// pendingMax is more than a worker takes from the bus before it has done with some.
const pendingMax = 10_000

// DeleteAllLeases deletes the leases on all services and slots, whoever holds them: for the only worker of an installation,
// at its start. The caller vouches that of the others that Workers has returned none lives. beats is another one that has come, or beaten,
// since: from then on nothing is deleted, in one step with looking for it (I1).
func (s *Store) DeleteAllLeases(ctx context.Context, worker string, others []WorkerInfo) (deleted int, beats string, err error) {
	ctx, cancel := context.WithTimeout(ctx, redisstore.WholeTimes*s.opt.OpTimeout) // the keys of others are read past
	defer cancel()
	for _, kind := range []string{ServiceLease(""), TunerLease("")} {
		var failed error
		err := redisstore.Names(ctx, s.client, s.opt.Leases.LeasePrefix+kind, func(names []string) {
			if len(names) == 0 || failed != nil || beats != "" {
				return
			}
			var n int
			n, beats, failed = s.deleteLeases(ctx, worker, others, kind, names)
			deleted += n
		})
		if err != nil {
			err = unavailable(err)
		}
		if err := cmp.Or(failed, err); err != nil {
			return deleted, "", err
		}
	}
	return deleted, beats, nil
}

// deleteLeases deletes those of a kind with such names, in one step with looking for who beats.
func (s *Store) deleteLeases(ctx context.Context, worker string, others []WorkerInfo, kind string, names []string) (
	deleted int, beats string, err error,
) {
	args := []any{worker, len(others)}
	for _, other := range others {
		args = append(args, other.Instance, other.beat)
	}
	for _, name := range names {
		if s.leasable(kind + name) {
			args = append(args, s.opt.Leases.LeasePrefix+kind+name)
		}
	}
	reply, err := s.run(ctx, deleteScript, args...)
	if err != nil {
		return 0, "", err
	}
	switch r := reply.(type) {
	case int64:
		return int(r), "", nil
	case string:
		return 0, r, nil
	}
	return 0, "", unavailable(errReply)
}
