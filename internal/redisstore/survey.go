package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
)

// This file reads the operator's view with commands that change nothing. It uses no lease scripts, because each begins a new epoch if
// the current one has ended.

// ErrFormat: a key of the group holds a value that no version of this store wrote.
var ErrFormat = errors.New("another format")

// surveyPage is how many leases one round trip reads: 2 ms of Redis.
const surveyPage = 500

// Group is the agreement of the instances that share an epoch, and the state of their server.
type Group struct {
	Now           time.Time     // by Redis' clock
	Ahead, Within time.Duration // how far Redis' clock is ahead of this machine's, and the error of that difference

	Info Info // of the server

	Epoch       string        // "": none has begun
	Left        time.Duration // rest of its quarantine; 0: over
	Acks        int           // replicas that must acknowledge a write
	Over        bool          // the server has restarted, or a replica attached itself: the next request begins another epoch
	Agreed      time.Duration // the group's quarantine; 0: unknown
	RecordEpoch string        // the epoch that Agreed belongs to
}

// Versions reports whether the epoch has no record: an instance of a version without records began it, and the next request of an
// instance with records begins another.
func (g *Group) Versions() bool { return g.Epoch != "" && (g.RecordEpoch != g.Epoch || g.Agreed == 0) }

// Acknowledging counts the replicas that acknowledge the server's writes. known is false if INFO is denied.
func (g *Group) Acknowledging() (n int, known bool) { return g.Info.Acknowledging, g.Info.Known() }

// Group reads the group's agreement and state. ErrFormat: a key holds another value.
func (s *Store) Group(ctx context.Context) (Group, error) {
	var g Group
	if _, err := s.time(ctx); err != nil { // connects, so that the next one measures only the round trip
		return g, err
	}
	sent := time.Now()
	now, err := s.time(ctx)
	if err != nil {
		return g, err
	}
	trip := time.Since(sent)
	g.Now, g.Within = now, trip/2
	g.Ahead = now.Sub(sent.Add(trip / 2).Round(0))
	if g.Info, err = s.info(ctx); err != nil && !Lacks(err) {
		return g, Diagnose(err)
	}
	if g.Epoch, err = s.epoch(ctx); err != nil {
		if strings.Contains(err.Error(), "WRONGTYPE") {
			return g, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		return g, Diagnose(err)
	}
	if err := g.readEpoch(s.wire.opt.EpochKey); err != nil {
		return g, err
	}
	return g, s.readRecord(ctx, &g)
}

func (s *Store) time(ctx context.Context) (time.Time, error) {
	server, err := s.server(ctx)
	if err != nil {
		return time.Time{}, Diagnose(err)
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	now, err := server.Time(ctx).Result()
	if err != nil {
		return now, Diagnose(err)
	}
	return now, nil
}

func (g *Group) readEpoch(key string) error {
	if g.Epoch == "" {
		return nil
	}
	life, until, ok := strings.Cut(g.Epoch, " ")
	us, err := strconv.ParseInt(until, 10, 64)
	if !ok || life == "" || err != nil || us < 0 {
		return fmt.Errorf("%w: the epoch key %s holds \"%s\", which is no epoch", ErrFormat, key, g.Epoch)
	}
	g.Left = max(0, time.UnixMicro(us).Sub(g.Now))
	run, attachments, acks := core.LifeOf(g.Epoch)
	g.Acks = int(acks)
	now, known := g.Info.Fields["run_id"]
	g.Over = known && now != run
	if g.Acks > 0 && known {
		g.Over = g.Over || attachments != attached(g.Info.Fields)
	}
	return nil
}

func cut(text string) string { return text[:min(len(text), 100)] }

// attached returns how often a replica attached itself to a server, as life.lua counts it.
func attached(info map[string]string) string {
	full, _ := strconv.ParseInt(info["sync_full"], 10, 64)
	partial, _ := strconv.ParseInt(info["sync_partial_ok"], 10, 64)
	return strconv.FormatInt(full+partial, 10)
}

func (s *Store) readRecord(ctx context.Context, g *Group) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	noted, err := s.client.HMGet(ctx, s.wire.opt.groupKey(), "epoch", "quarantine").Result()
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return fmt.Errorf("%w: the key %s holds no record of a group; it is somebody else's: choose another EpochKey", ErrFormat,
			s.wire.opt.groupKey())
	case err != nil:
		return Diagnose(err)
	}
	g.RecordEpoch, _ = noted[0].(string)
	text, _ := noted[1].(string)
	us, _ := strconv.ParseInt(text, 10, 64)
	g.Agreed = time.Duration(span(us, time.Microsecond))
	return nil
}

// Holding is an existing lease.
type Holding struct {
	ID    string
	Owner string        // "" with Foreign
	Fence int64         // 0: none, or an invalid value
	Left  time.Duration // until it expires, or Forever

	Foreign bool // its key holds no string, so nothing more is known of it
}

// Forever is the life of a key that does not expire.
const Forever = time.Duration(-1)

// Holdings reads the existing leases, ascending by ID. It reads owner and fence of a lease together, but each lease separately. If
// Options.ExactKeys leaves no prefix to find leases, it reads those of ids.
func (s *Store) Holdings(ctx context.Context, ids ...string) ([]Holding, error) {
	if !s.wire.opt.ExactKeys && len(ids) == 0 {
		var err error
		if ids, err = s.scan(ctx, s.wire.opt.LeasePrefix); err != nil {
			return nil, Diagnose(err)
		}
		slices.Sort(ids)
	}
	all := make([]Holding, 0, len(ids))
	for page := range slices.Chunk(ids, surveyPage) {
		var err error
		if all, err = s.holdings(ctx, all, page); err != nil {
			return nil, Diagnose(err)
		}
	}
	return all, nil
}

func (s *Store) holdings(ctx context.Context, all []Holding, ids []string) ([]Holding, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	k := newKeys(2 * len(ids))
	for _, id := range ids {
		k.add(s.wire.opt.LeasePrefix, id)
		k.fence(s.wire.opt.LeasePrefix, id, s.wire.tagged)
	}
	pipe := s.client.Pipeline()
	keys := k.list()
	values, left := pipe.MGet(ctx, keys...), make([]*redis.DurationCmd, len(ids))
	for i := range ids {
		left[i] = pipe.PTTL(ctx, keys[2*i])
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	v := values.Val()
	for i, id := range ids {
		h := Holding{ID: id, Left: lifeOf(left[i])}
		text, _ := v[2*i+1].(string)
		// Only a value that the scripts could have written is a fence.
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n > 0 && n < 1<<53 && strconv.FormatInt(n, 10) == text {
			h.Fence = n
		}
		var held bool
		if h.Owner, held = v[2*i].(string); !held {
			if h.Left == 0 {
				continue // a free lease
			}
			h.Foreign = true
		}
		all = append(all, h)
	}
	return all, nil
}

// lifeOf is the result of PTTL, 0 if the key does not exist.
func lifeOf(pttl *redis.DurationCmd) time.Duration {
	switch d := pttl.Val(); {
	case d == -1:
		return Forever
	case d < 0:
		return 0
	default:
		return min(d, time.Duration(spanMax))
	}
}

// Beat is a heartbeat of an instance.
type Beat struct {
	ID   string
	Left time.Duration // until it expires, or Forever
}

// Beats reads the existing heartbeats, ascending by instance.
func (s *Store) Beats(ctx context.Context) ([]Beat, error) {
	names, err := s.scan(ctx, s.wire.opt.NodePrefix)
	if err != nil {
		return nil, Diagnose(err)
	}
	slices.Sort(names)
	beats := make([]Beat, 0, len(names))
	for page := range slices.Chunk(names, surveyPage) {
		if beats, err = s.beats(ctx, beats, page); err != nil {
			return nil, Diagnose(err)
		}
	}
	return beats, nil
}

func (s *Store) beats(ctx context.Context, beats []Beat, names []string) ([]Beat, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	pipe := s.client.Pipeline()
	left := make([]*redis.DurationCmd, len(names))
	for i, name := range names {
		left[i] = pipe.PTTL(ctx, s.wire.opt.NodePrefix+name)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	for i, name := range names {
		if life := lifeOf(left[i]); life != 0 {
			beats = append(beats, Beat{ID: name, Left: life})
		}
	}
	return beats, nil
}
