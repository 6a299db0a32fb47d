package real

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

func (r *Redis) systemOf(name string) *system {
	switch {
	case !r.clustered():
		return systems[name]
	case name == systemPolling:
		return clusteredPolling
	}
	return nil
}

func (p *replicated) deciders() string {
	if p.cluster != nil {
		return "those who vote"
	}
	return "the sentinels"
}

func newBus(of *cluster, short func(error)) (*bus, error) {
	d, err := proxy.NewRouter(short)
	return &bus{Router: d, cluster: of}, err
}

func (b *bus) join(from, to *member, short func(error)) error {
	at := netip.AddrPortFrom(loopback, to.busPort()).String()
	l, err := proxy.New(from.name+" to the bus of "+to.name, loopback, at, 0, uint64(from.number), short)
	if err == nil {
		b.Servers[from.from] = l
	}
	return err
}

// drawTimeout sets the node timeout. A third of all runs adds up to 1.5 TTL to it: a cut-off master keeps serving until the timeout.
func (p *replicated) drawTimeout(ctx context.Context, seed uint64, ttl time.Duration) error {
	timeout := nodeTimeout
	if r := rand.New(rand.NewPCG(seed, streamServers-1)); r.IntN(3) == 0 {
		timeout += time.Duration(r.Int64N(int64(ttl) * 3 / 2))
	}
	p.cluster.timeout.Store(timeout.Milliseconds())
	var err error
	for _, m := range p.members {
		err = errors.Join(err, m.client.Load().ConfigSet(ctx, "cluster-node-timeout", fmt.Sprint(timeout.Milliseconds())).Err())
	}
	return err
}

func (p *replicated) form(ctx context.Context, _ string) error {
	c := p.cluster
	for _, m := range p.members {
		c.Nodes = append(c.Nodes, &m.Node)
	}
	if err := c.Form(ctx, clusterTag); err != nil {
		return apart(err)
	}
	for n := 0; c.marks[0] == "" || c.marks[1] == ""; n++ {
		key := fmt.Sprint(stream.Channel, ":", n)
		slot, err := c.Voter().Client().ClusterKeySlot(ctx, key).Result()
		if err != nil {
			return fmt.Errorf("%w: slots of a cluster: %w", ErrNoServer, err)
		}
		if shard := c.Shard(slot); slot != c.Slot && shard < len(c.marks) {
			c.marks[shard] = key
		}
	}
	return nil
}

func (p *replicated) mark(m *member) string {
	if p.cluster == nil {
		return ""
	}
	return p.cluster.marks[m.shard]
}

// servesWithin exceeds the 2 s during which a started server refuses to serve.
const servesWithin = 4 * time.Second

func (p *replicated) awaitServing(ctx context.Context, m *member) {
	p.renew(m.server)
	ctx, cancel := context.WithTimeout(ctx, servesWithin)
	defer cancel()
	_ = redisfixture.Await(ctx, m.serves)
}

func (p *replicated) owner(by *member) *member {
	if i := p.cluster.Owner(context.Background(), &by.Node); i >= 0 {
		return p.members[i]
	}
	return nil
}

func (p *replicated) replace(ctx context.Context, force bool) error {
	how := []any{"CLUSTER", "FAILOVER"}
	if force {
		how = append(how, "FORCE")
	}
	err := fmt.Errorf("no replica answers")
	for _, m := range p.shard() {
		if role, _ := m.role(ctx); role == "slave" {
			if err = m.client.Load().Do(ctx, how...).Err(); err == nil {
				return nil
			}
		}
	}
	return err
}

func (p *replicated) followAgain(ctx context.Context, m *member) error {
	if role, _ := m.role(ctx); role != "slave" || m.shard != p.present().shard {
		return nil
	}
	return m.followNow(ctx, p.present())
}
