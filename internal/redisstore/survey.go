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

// survey reads state for the operator with commands that change nothing. Lease scripts could begin a new epoch.
type survey struct{ *conn }

// ErrFormat means that no version of this store wrote the value of a key of the group.
var ErrFormat = errors.New("another format")

// surveyPage is how many leases one round trip reads, in 2 ms of Redis time.
const surveyPage = 500

// Group is what the instances that share an epoch agreed on, and the state of their server.
type Group struct {
	Now           time.Time     // by Redis' clock
	Ahead, Within time.Duration // lead of Redis' clock over this machine's, and its error

	Info Info

	Epoch       string
	Left        time.Duration // rest of its quarantine; 0: over
	Acks        int
	Over        bool          // Redis restarted or a replica attached itself: the next request begins another epoch
	Agreed      time.Duration // the group's quarantine; 0: unknown
	RecordEpoch string
}

// Versions reports whether the epoch has no record. An old version began it, and the next request of a newer one ends it.
func (g *Group) Versions() bool { return g.Epoch != "" && (g.RecordEpoch != g.Epoch || g.Agreed == 0) }

// Acknowledging counts the replicas that acknowledge the server's writes. known is false if INFO is denied.
func (g *Group) Acknowledging() (n int, known bool) { return g.Info.Acknowledging, g.Info.Known() }

// Group reads what the group agreed on, and its state. It returns ErrFormat if a key holds another value.
func (s survey) Group(ctx context.Context) (Group, error) {
	var g Group
	if _, err := s.time(ctx); err != nil { // connects, so that the next call measures only the round trip
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

func (s survey) epoch(ctx context.Context) (string, error) {
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

func cut(text string) string { return text[:min(len(text), 100)] }

// attached counts how often a replica attached itself to the server, as life.lua does.
func attached(info map[string]string) string {
	full, _ := strconv.ParseInt(info["sync_full"], 10, 64)
	partial, _ := strconv.ParseInt(info["sync_partial_ok"], 10, 64)
	return strconv.FormatInt(full+partial, 10)
}

func (s survey) readRecord(ctx context.Context, g *Group) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	noted, err := s.client.HMGet(ctx, s.wire.opt.groupKey(), "epoch", "quarantine").Result()
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "WRONGTYPE"):
		return fmt.Errorf("%w: the key %s holds no record of a group; another program uses it: choose another EpochKey", ErrFormat,
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
	Owner string // "" if Foreign
	Fence int64  // 0: none, or invalid
	Left  time.Duration

	Foreign bool // the key holds no string
}

// Forever is the life of a key that does not expire.
const Forever = time.Duration(-1)

// Holdings reads the existing leases of ids. Without ids it reads all leases, sorted by ID, unless Options.ExactKeys is set. It reads a
// lease's owner and fence together, but each lease separately.
func (s survey) Holdings(ctx context.Context, ids ...string) ([]Holding, error) {
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

func (s survey) holdings(ctx context.Context, all []Holding, ids []string) ([]Holding, error) {
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
				continue
			}
			h.Foreign = true
		}
		all = append(all, h)
	}
	return all, nil
}

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

// Beats reads the existing heartbeats, sorted by instance.
func (s survey) Beats(ctx context.Context) ([]Beat, error) {
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

func (s survey) beats(ctx context.Context, beats []Beat, names []string) ([]Beat, error) {
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

// living returns the keys of live leases and heartbeats. Unless all is set, it reads heartbeats only if there is no lease.
func (s survey) living(ctx context.Context, leases []string, all bool) ([]string, error) {
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
