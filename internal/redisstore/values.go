package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// reading is a read of several keys, in a pipeline or by itself.
type reading struct {
	answer *redis.Cmd
	keys   int
}

type doer interface {
	Do(ctx context.Context, args ...any) *redis.Cmd
}

// readShown reads of each key what is Shown of it: whoever may write one of them cannot take the time in which the others are read. It
// sends the script itself, which is shorter than two of its answers: a pipeline does not hear in time that Redis has forgotten it.
func readShown(ctx context.Context, by doer, keys ...string) reading {
	return readBy(ctx, by, valuesText, NameMax+1, keys)
}

func readBy(ctx context.Context, by doer, script string, arg int, keys []string) reading {
	return reading{by.Do(ctx, append(command([]any{"eval", script, len(keys)}, keys), arg)...), len(keys)}
}

// Strings returns what keys hold, of each so many bytes at most: a string, which is empty too where there is no key, or an error in Redis'
// words, WRONGTYPE where it is no string. It takes one command, on a cluster one for each key.
func Strings(ctx context.Context, client redis.UniversalClient, most int, keys ...string) ([]any, error) {
	if _, cluster := client.(*redis.ClusterClient); !cluster {
		return readBy(ctx, client, stringsText, most-1, keys).values()
	}
	reads := make([]reading, len(keys))
	_, _ = client.Pipelined(ctx, func(pipe redis.Pipeliner) error { // each command has its own error
		for i := range keys {
			reads[i] = readBy(ctx, pipe, stringsText, most-1, keys[i:i+1])
		}
		return nil
	})
	all := make([]any, 0, len(keys))
	for _, r := range reads {
		held, err := r.values()
		if err != nil {
			return nil, err
		}
		all = append(all, held...)
	}
	return all, nil
}

func command(begin []any, keys []string) []any {
	args := append(make([]any, 0, len(begin)+len(keys)+1), begin...)
	for _, key := range keys {
		args = append(args, key)
	}
	return args
}

// values returns what was answered: a value for each key, a string or nil. Anything but Redis may answer with fewer, or with no list, which
// is ErrNotRedis.
func (r reading) values() ([]any, error) {
	reply, err := r.answer.Result()
	if err != nil {
		return nil, err
	}
	v, list := reply.([]any)
	switch {
	case !list:
		return nil, fmt.Errorf("%w: it answered a read of %d keys with no list", ErrNotRedis, r.keys)
	case len(v) != r.keys:
		return nil, fmt.Errorf("%w: it answered a read of %d keys with %d values", ErrNotRedis, r.keys, len(v))
	}
	return v, nil
}
