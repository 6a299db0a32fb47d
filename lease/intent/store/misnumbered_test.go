package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/lease"
)

// misnumbered is a server that numbers entries by its password.
type misnumbered struct{}

func (misnumbered) DialHook(next redis.DialHook) redis.DialHook { return next }
func (misnumbered) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (misnumbered) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		switch c := cmd.(type) {
		case *redis.XStreamSliceCmd:
			c.SetVal([]redis.XStream{{Stream: "v3:bus", Messages: []redis.XMessage{{ID: "hunter2"}}}})
		case *redis.Cmd:
			c.SetVal([]any{int64(0), []any{"hunter2", int64(1), "", "start", "", "", "", "0", "", ""}})
		default:
			return next(ctx, cmd)
		}
		return nil
	}
}

// What is no ID of an entry comes from no Redis, may be the password, and goes no further.
func TestEntriesAreNumberedByRedis(t *testing.T) {
	f := setup(t)
	st := f.open(Options{Leases: lease.Config{Hooks: []redis.Hook{misnumbered{}}}})
	b, err := st.Bus("w")
	f.must(err)
	defer b.Close()
	fetched, err := b.Fetch(t.Context(), 1, time.Second)
	if len(fetched) > 0 || !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("fetched %+v, %v", fetched, err)
	}
	swept, _, err := b.Sweep(t.Context(), time.Second, time.Second)
	if len(swept) > 0 || !errors.Is(err, ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("swept %+v, %v", swept, err)
	}
}
