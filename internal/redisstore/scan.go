package redisstore

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

const scanCount = 1000 // keys of one SCAN, which takes 0.3 ms

// Names finds the keys that begin with prefix and passes their names, without the prefix, to take, one page at a time. It never calls
// take concurrently. On a cluster it reads all masters. A name may occur twice.
func Names(ctx context.Context, client redis.UniversalClient, prefix string, take func(names []string)) error {
	c, cluster := client.(*redis.ClusterClient)
	if !cluster {
		return pages(func(cursor uint64) ([]string, uint64, error) { return namesPage(ctx, client, prefix, cursor) }, take)
	}
	var mu sync.Mutex
	return c.ForEachMaster(ctx, func(ctx context.Context, server *redis.Client) error {
		return pages(func(cursor uint64) ([]string, uint64, error) { return namesPage(ctx, server, prefix, cursor) },
			func(names []string) {
				mu.Lock()
				defer mu.Unlock()
				take(names)
			})
	})
}

func namesPage(ctx context.Context, server redis.Cmdable, prefix string, cursor uint64) (names []string, next uint64, err error) {
	names, next, err = server.Scan(ctx, cursor, Glob(prefix)+"*", scanCount).Result()
	for i := range names {
		names[i] = strings.TrimPrefix(names[i], prefix)
	}
	return names, next, err
}

// Strings reads the values of keys. errs has redis.Nil for a missing key and WRONGTYPE for one of another type. Strings sends one MGET,
// and a GET for each missing or empty key, because a program may be rewriting it. On a cluster, it sends only GETs.
func Strings(ctx context.Context, client redis.UniversalClient, keys ...string) (texts []string, errs []error) {
	texts, errs = make([]string, len(keys)), make([]error, len(keys))
	values := make([]any, len(keys))
	if _, cluster := client.(*redis.ClusterClient); !cluster {
		read, err := client.MGet(ctx, keys...).Result()
		if refusal := redis.Error(nil); err != nil && !errors.As(err, &refusal) { // after a refusal, GET shows the refused key
			return texts, slices.Repeat([]error{err}, len(keys))
		}
		copy(values, read)
	}
	var rest []int
	for i, value := range values {
		if texts[i], _ = value.(string); texts[i] == "" {
			rest = append(rest, i)
		}
	}
	cmds, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, i := range rest {
			pipe.Get(ctx, keys[i])
		}
		return nil
	})
	unsaid := true // if the login failed, no command has the error
	for n, cmd := range cmds {
		i := rest[n]
		texts[i], errs[i] = cmd.(*redis.StringCmd).Result()
		unsaid = unsaid && errs[i] == nil
	}
	if unsaid && err != nil {
		for _, i := range rest {
			errs[i] = err
		}
	}
	return texts, errs
}

// ScanDenied returns the error of a scan of the keys that begin with prefix. It reads no names.
func ScanDenied(ctx context.Context, client redis.UniversalClient, prefix string) error {
	return client.Scan(ctx, 0, Glob(prefix)+"probe", 1).Err()
}

// pages reads a scan to its end. next returns the page at a cursor, and the next cursor.
func pages(next func(cursor uint64) ([]string, uint64, error), take func(page []string)) error {
	for cursor := uint64(0); ; {
		page, then, err := next(cursor)
		if err != nil {
			return err
		}
		take(page)
		if cursor = then; cursor == 0 {
			return nil
		}
	}
}

// scan returns the distinct names of the keys with a prefix, without it. With a hash tag, it drops fences, which have that prefix too.
func (s *conn) scan(ctx context.Context, prefix string) ([]string, error) {
	server, err := s.server(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	known := map[string]bool{}
	err = pages(func(cursor uint64) ([]string, uint64, error) {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		ctx, cancel := s.deadline(ctx)
		defer cancel()
		return namesPage(ctx, server, prefix, cursor)
	}, func(page []string) {
		for _, name := range page {
			if !known[name] && name != "" && !(s.wire.tagged && strings.HasSuffix(name, fenceSuffix)) {
				known[name] = true
				names = append(names, name)
			}
		}
	})
	return names, err
}
