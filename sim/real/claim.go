package real

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisurl"
)

// claimKey exists while a run uses a given database, so that a concurrent run finds it.
const claimKey = "poll:storm"

const (
	usedWithin  = time.Minute    // enough to scan all keys of a large database
	claimWithin = 2 * usedWithin // TTL of a claim until the database is known to be unused
	unclaim     = 5 * time.Second
)

// claim claims a given database for this run, or returns why it cannot. Only a claimed database may be cleaned.
func (r *Redis) claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, usedWithin)
	defer cancel()
	where, client := redisurl.Show(r.raw), r.client.Load()
	ours, err := client.SetNX(ctx, claimKey, os.Getpid(), claimWithin).Result()
	if err != nil {
		return explain(where, err)
	}
	if !ours {
		return fmt.Errorf("%w: another storm plays at %s, or was killed there and left %q; give another database, or remove the keys "+
			"like %s once no storm plays there", ErrNotEmpty, where, claimKey, strings.Join(runPatterns, " "))
	}
	if err := r.refuseUsed(ctx); err != nil {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), unclaim)
		defer cancel()
		_ = client.Del(back, claimKey).Err() // if this fails, the claim expires
		return err
	}
	r.claimed = true
	r.reaper.Add(reapKeys, r.raw)
	if err := client.Set(ctx, claimKey, os.Getpid(), 0).Err(); err != nil {
		return explain(where, err)
	}
	return nil
}

func (r *Redis) refuseUsed(ctx context.Context) error {
	for _, pattern := range runPatterns {
		it := r.client.Load().Scan(ctx, 0, pattern, 1000).Iterator()
		for it.Next(ctx) {
			if it.Val() != claimKey {
				return fmt.Errorf("%w: %s already holds keys like %.100q, and a run uses (and at its end removes) %s; "+
					"give an empty database", ErrNotEmpty, redisurl.Show(r.raw), it.Val(), strings.Join(runPatterns, " "))
			}
		}
		if err := it.Err(); err != nil {
			return explain(redisurl.Show(r.raw), err)
		}
	}
	return nil
}

// deleteRunKeys deletes a run's keys and returns their number. The claim goes last: otherwise a new storm could lose its own keys.
func deleteRunKeys(ctx context.Context, c *redis.Client) (int, error) {
	n := 0
	for _, pattern := range runPatterns {
		var cursor uint64
		for {
			keys, next, err := c.Scan(ctx, cursor, pattern, 1000).Result()
			if err != nil {
				return n, err
			}
			keys = slices.DeleteFunc(keys, func(key string) bool { return key == claimKey })
			if len(keys) > 0 {
				if err := c.Unlink(ctx, keys...).Err(); err != nil {
					return n, err
				}
				n += len(keys)
			}
			if cursor = next; cursor == 0 {
				break
			}
		}
	}
	claims, err := c.Unlink(ctx, claimKey).Result()
	return n + int(claims), err
}
