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
	args := append(command([]any{"eval", valuesText, len(keys)}, keys), NameMax+1)
	return reading{by.Do(ctx, args...), len(keys)}
}

// readWhole reads all that the keys hold: for who may run no script. go-redis' own MGET takes any number that is answered for the length of
// a list and makes room for it: with 12 bytes anything but Redis would end the process.
func readWhole(ctx context.Context, by doer, keys ...string) reading {
	return reading{by.Do(ctx, command([]any{"mget"}, keys)...), len(keys)}
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
