package store

import (
	"context"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/internal/redistest"
)

// longest is a hook that notes how many bytes the longest answer has as text.
type longest struct {
	redistest.Endless
	bytes *int
}

func (l longest) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		*l.bytes = max(*l.bytes, len(cmd.String()))
		return err
	}
}

// Whoever may write one key keeps a single worker that starts from deleting no lease by its name: Redis itself cuts what it sends of it. What
// has such a name is no lease, and stays.
func TestLeasesAreDeletedBesideALongName(t *testing.T) {
	f := setup(t)
	prefix := f.store.Options().Leases.LeasePrefix
	leases := []string{prefix + ServiceLease("a"), prefix + TunerLease("0")}
	long := prefix + ServiceLease(strings.Repeat("x", 1<<20))
	for _, key := range append(leases, long) {
		f.must(f.client.Set(t.Context(), key, "a", 0).Err())
	}
	bytes := 0
	f.client.AddHook(longest{bytes: &bytes})
	if n, err := f.store.DeleteAllLeases(t.Context()); err != nil || n != len(leases) {
		t.Errorf("%d leases deleted, %v; want %d", n, err, len(leases))
	}
	if most := 16 * redisstore.NameMax; bytes > most {
		t.Errorf("Redis sends %d bytes, want at most %d", bytes, most)
	}
	if n := f.client.Exists(t.Context(), append(leases, long)...).Val(); n != 1 {
		t.Errorf("%d keys are left, want the one with the long name", n)
	}
}
