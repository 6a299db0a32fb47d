package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Heartbeats sets each key of set to now, in ms since the epoch, for ttl, and deletes those of del: one request.
// It has nothing to do with leases: whoever sets a heartbeat owns nothing by it.
func (s *Store) Heartbeats(ctx context.Context, set []string, now time.Time, ttl time.Duration, del []string) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range set {
			p.Set(ctx, key, now.UnixMilli(), ttl)
		}
		if len(del) > 0 {
			p.Del(ctx, del...)
		}
		return nil
	})
	return err
}

// Glance is one reading of who holds a lease, and of a heartbeat.
type Glance struct {
	Lease  string // ID
	Prefix string // of heartbeats

	Of        string // whose heartbeat is read; "": the owner's. Where the owner is another, it becomes the owner
	Owner     string // "" nobody
	Fence     int64  // the last one granted, 0 if there is none
	Beats     bool   // there is a heartbeat
	Heartbeat string // what it says, which may be nothing
}

// Glances fills in all of them: one command for each, and one more where the owner is not the one expected. Keys of another
// type count as missing.
func (s *Store) Glances(ctx context.Context, all []Glance) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	read := make([]*redis.Cmd, len(all))
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range all {
			k := newKeys(3, 3*keyBytes)
			k.add(s.wire.opt.LeasePrefix, all[i].Lease)
			k.fence(s.wire.opt.LeasePrefix, all[i].Lease, s.wire.tagged)
			if all[i].Of != "" {
				k.add(all[i].Prefix, all[i].Of)
			}
			read[i] = mget(ctx, p, k.list()...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var others []*Glance
	for i := range all {
		g := &all[i]
		v, err := values(read[i])
		if err != nil {
			return err
		}
		g.Owner, _ = v[0].(string)
		text, _ := v[1].(string)
		g.Fence, _ = strconv.ParseInt(text, 10, 64)
		if g.Of != "" {
			g.Heartbeat, g.Beats = v[2].(string)
		}
		if g.Owner != "" && g.Owner != g.Of {
			others = append(others, g)
		}
	}
	if len(others) == 0 {
		return nil
	}
	beats := make([]*redis.Cmd, len(others))
	_, err = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, g := range others {
			beats[i] = mget(ctx, p, g.Prefix+g.Owner) // as GET, and another type is no error
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, g := range others {
		v, err := values(beats[i])
		if err != nil {
			return err
		}
		g.Of = g.Owner
		g.Heartbeat, g.Beats = v[0].(string)
	}
	return nil
}

// mget sends MGET by a client or in a pipeline. go-redis' own takes any number that is answered for the length of a list and makes room
// for it: with 12 bytes anything but Redis would end the process.
func mget(ctx context.Context, by interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}, keys ...string,
) *redis.Cmd {
	args := make([]any, 1, 1+len(keys))
	args[0] = "mget"
	for _, key := range keys {
		args = append(args, key)
	}
	return by.Do(ctx, args...)
}

// values returns what an MGET answered: a value for each key. Anything but Redis may answer with fewer, or with no list, which is
// ErrNotRedis.
func values(answered *redis.Cmd) ([]any, error) {
	reply, err := answered.Result()
	if err != nil {
		return nil, err
	}
	keys := len(answered.Args()) - 1
	v, list := reply.([]any)
	switch {
	case !list:
		return nil, fmt.Errorf("%w: it answered an MGET of %d keys with no list", ErrNotRedis, keys)
	case len(v) != keys:
		return nil, fmt.Errorf("%w: it answered an MGET of %d keys with %d values", ErrNotRedis, keys, len(v))
	}
	return v, nil
}

// SweepHeartbeats deletes heartbeats of the dead on one page of the keys that begin with prefix, and returns where the next
// begins, 0 for none. A heartbeat that expires goes by itself; one that does not, and is older than age by Redis' clock, was
// left behind. Only 13 digits, a time in ms since the epoch, are a heartbeat.
func (s *Store) SweepHeartbeats(ctx context.Context, prefix string, cursor uint64, age time.Duration) (next uint64,
	swept int, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	page, next, err := s.client.Scan(ctx, cursor, glob(prefix)+"*", scanCount).Result()
	if err != nil || len(page) == 0 {
		return next, 0, err
	}
	swept, err = sweepScript.Run(ctx, s.client, page, age.Milliseconds()).Int()
	return next, swept, err
}
