package store

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/intentbus"
)

// ForeignKeyError names an indispensable key that another program has replaced
// by a key of another type.
type ForeignKeyError struct {
	Key string
	Err error

	_ struct{}
}

// Error implements error.
func (e *ForeignKeyError) Error() string {
	return fmt.Sprintf("%s holds the wrong type; rename or delete it: %v", e.Key, e.Err)
}

// Unwrap returns Redis' error.
func (e *ForeignKeyError) Unwrap() error { return e.Err }

func foreign(err error) bool { return intentbus.Refused(err) == "WRONGTYPE" }

// named adds the key to an error about a key's type, because Redis does not
// name it.
func (s *Store) named(ctx context.Context, err error) error {
	if !foreign(err) {
		return err
	}
	pipe := s.client.Pipeline() // only commands that an API's user may call
	lengths := map[string]*redis.IntCmd{s.bus: pipe.XLen(ctx, s.bus)}
	for _, name := range []string{"sessions", "waiting"} {
		lengths[s.opt.KeyPrefix+name] = pipe.ZCard(ctx, s.opt.KeyPrefix+name)
	}
	_, _ = pipe.Exec(ctx)
	for key, length := range lengths {
		if foreign(length.Err()) {
			return &ForeignKeyError{Key: key, Err: err}
		}
	}
	return err
}
