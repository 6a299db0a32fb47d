package real

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

// cluster turns a replicated Redis into a Redis Cluster: two shards, one with the leases' slot, and a third master that only votes.
type cluster struct {
	redisfixture.Cluster
	timeout atomic.Int64 // cluster-node-timeout, in milliseconds
	marks   [2]string    // one key per shard whose slot never moves, for the marks of streams
}

// nodeTimeout is the least cluster-node-timeout: after this silence a server considers another one failed. A run may draw more.
const nodeTimeout = sentinelDown

func (r *Redis) clustered() bool { return r.replicated != nil && r.replicated.cluster != nil }

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

func (p *replicated) voter() *member { return p.members[len(p.members)-1] }

// bus is the cluster-bus address of a server. Like a door, it has one line per peer; it refuses all other connections.
type bus struct {
	*proxy.Router
	*cluster
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

func (m *member) busPort() uint16 {
	at, _ := netip.ParseAddrPort(m.addr)
	return at.Port() + redisfixture.BusOffset
}

func (m *member) clusterConf() string {
	return fmt.Sprintf("cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-announce-ip %s\ncluster-announce-port %d\n"+
		"cluster-announce-bus-port %d\ncluster-node-timeout %d\ncluster-allow-replica-migration no\n"+
		"cluster-require-full-coverage no\ncluster-replica-validity-factor 0\n",
		loopback, m.Port, m.Bus, m.bus.timeout.Load())
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

func (m *member) serves(ctx context.Context) bool { return m.bus == nil || m.Serves(ctx) }

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
