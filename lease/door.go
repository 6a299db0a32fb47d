package lease

import (
	"context"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/leasedoor"
	"github.com/leasestorm/leasestorm/internal/redisstore"
)

// opened registers this instance with lease/leasetest, if a test uses it.
func (s *shell) opened(client redis.UniversalClient, st *redisstore.Store) {
	if leasedoor.Made == nil {
		return
	}
	prefix := st.Options().LeasePrefix
	leasedoor.Made(client, leasedoor.Instance{
		Renew: func(key string) {
			if name, ours := strings.CutPrefix(key, prefix); ours {
				s.event(core.Event{Kind: core.EvRenew, ID: name})
			}
		},
		Fence: func(key string) int64 {
			name, ours := strings.CutPrefix(key, prefix)
			if h := s.table.get(name); ours && h != nil && h.Valid() {
				return h.fence
			}
			return 0
		},
		Bootstrap: func(ctx context.Context) error { return st.Bootstrap(ctx) },
	})
}
