package lease

import (
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/leasedoor"
)

// opened shows this instance to lease/leasetest, if a test uses it. prefix precedes the names of leases in their keys.
func (s *shell) opened(client redis.UniversalClient, prefix string) {
	if leasedoor.Made == nil {
		return
	}
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
	})
}
