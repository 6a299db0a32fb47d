package real

import (
	"context"
	"time"

	"github.com/leasestorm/leasestorm/sim/real/host"
)

// watchEvery is the interval at which sentinels or the cluster are queried for the master.
const watchEvery = 50 * time.Millisecond

func (p *replicated) watch() {
	defer close(p.done)
	host.Every(watchEvery, p.stop, func() {
		m := p.named()
		p.mu.Lock()
		tell := p.switched
		changes := m != nil && m != p.master
		if changes {
			p.master = m
			p.redis.client.Store(m.client.Load())
		}
		p.mu.Unlock()
		if changes && tell != nil {
			tell(m)
		}
	})
}

// named returns the master according to the cluster or most sentinels; nil: they disagree.
func (p *replicated) named() *member {
	if p.cluster != nil {
		return p.owner(p.voter())
	}
	votes := map[string]int{}
	for _, s := range p.sentinels {
		votes[s.says(context.Background())]++
	}
	for _, m := range p.members {
		if votes[m.door.Addr()] > sentinelCount/2 {
			return m
		}
	}
	return nil
}
