package redisstore

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// heartbeats reads and writes the heartbeats of elections, whose keys the caller names.
type heartbeats struct{ *conn }

// Heartbeats sets each key of set to now, in ms since the Unix epoch, for ttl, and deletes the keys of del, in one request.
func (s heartbeats) Heartbeats(ctx context.Context, set []string, now time.Time, ttl time.Duration, del []string) error {
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

// Glance is one read of a lease's owner and of a heartbeat.
type Glance struct {
	Lease  string
	Prefix string

	Of        string // whose heartbeat to read; "": the owner's. Glances changes it to the actual owner
	Owner     string // "": none
	Fence     int64  // last fence granted; 0: none
	Beats     bool
	Heartbeat string // may be empty
}

// Glances fills in every element, with one command each and one more if the owner is not Of. A key of another type counts as missing.
func (s heartbeats) Glances(ctx context.Context, all []Glance) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	read := make([]*redis.SliceCmd, len(all))
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range all {
			k := newKeys(3)
			k.add(s.wire.opt.LeasePrefix, all[i].Lease)
			k.fence(s.wire.opt.LeasePrefix, all[i].Lease, s.wire.tagged)
			if all[i].Of != "" {
				k.add(all[i].Prefix, all[i].Of)
			}
			read[i] = p.MGet(ctx, k.list()...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var others []*Glance
	for i := range all {
		g := &all[i]
		v := read[i].Val()
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
	return s.readBeats(ctx, others)
}

// readBeats reads the heartbeats of owners that the caller did not know.
func (s heartbeats) readBeats(ctx context.Context, others []*Glance) error {
	if len(others) == 0 {
		return nil
	}
	beats := make([]*redis.SliceCmd, len(others))
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, g := range others {
			beats[i] = p.MGet(ctx, g.Prefix+g.Owner)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, g := range others {
		g.Of = g.Owner
		g.Heartbeat, g.Beats = beats[i].Val()[0].(string)
	}
	return nil
}

// Sweep is the progress of a sweep. The zero value is its beginning.
type Sweep struct{ cursor uint64 }

// SweepHeartbeats deletes dead heartbeats on the next page of the keys that begin with prefix, and reports whether there are more pages.
// A dead heartbeat does not expire and is older than age by Redis' clock. Its value has 13 digits, in ms since the Unix epoch.
func (s heartbeats) SweepHeartbeats(ctx context.Context, prefix string, w *Sweep, age time.Duration) (more bool, swept int, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	names, next, err := namesPage(ctx, s.client, prefix, w.cursor)
	if err != nil {
		return false, 0, err
	}
	w.cursor = next
	keys := make([]string, 0, len(names))
	for _, name := range names {
		keys = append(keys, prefix+name)
	}
	if len(keys) > 0 {
		swept, err = sweepScript.Run(ctx, s.client, keys, age.Milliseconds()).Int()
	}
	return next != 0 && err == nil, swept, err
}
