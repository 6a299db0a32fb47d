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
)

// cluster is what a replicated Redis that is a Redis Cluster has in the place of sentinels: two shards of a master and replicas, of which
// one has the leases' slot, and one more master, which votes and is under no fault.
type cluster struct {
	redisfixture.Cluster
	timeout atomic.Int64 // cluster-node-timeout, in milliseconds
	marks   [2]string    // keys that are of each shard for ever, by which taps know where they are in the stream
}

// nodeTimeout is after what time of silence a server of a cluster takes another for failed, unless a run draws more.
const nodeTimeout = sentinelDown

// clustered reports whether Redis is a cluster.
func (r *Redis) clustered() bool { return r.replicated != nil && r.replicated.cluster != nil }

// systemOf is the system with the keys that it has on this Redis; nil: there is none.
func (r *Redis) systemOf(name string) *system {
	switch {
	case !r.clustered():
		return systems[name]
	case name == systemPolling:
		return clusteredPolling
	}
	return nil
}

// deciders are who says which server the master is.
func (p *replicated) deciders() string {
	if p.cluster != nil {
		return "those who vote"
	}
	return "the sentinels"
}

// voter is the master without leases and faults.
func (p *replicated) voter() *member { return p.members[len(p.members)-1] }

// bus is the address of a server of a cluster for what the servers tell each other, with a line for each as a door has it. Nobody else
// may come there.
type bus struct {
	*door
	*cluster
}

func newBus(of *cluster, short func(error)) (*bus, error) {
	d, err := newDoor(short)
	return &bus{door: d, cluster: of}, err
}

// join makes the line from another server.
func (b *bus) join(from, to *member, short func(error)) error {
	at := netip.AddrPortFrom(loopback, to.busPort()).String()
	l, err := newLine(from.name+" to the bus of "+to.name, loopback, at, 0, uint64(from.number), short)
	if err == nil {
		l.up.counted = false
		b.servers[from.from] = l
	}
	return err
}

// busPort is where the server's own bus listens.
func (m *member) busPort() uint16 {
	at, _ := netip.ParseAddrPort(m.addr)
	return at.Port() + redisfixture.BusOffset
}

// clusterConf are the settings of a server of a cluster.
func (m *member) clusterConf() string {
	return fmt.Sprintf("cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-announce-ip %s\ncluster-announce-port %d\n"+
		"cluster-announce-bus-port %d\ncluster-node-timeout %d\ncluster-allow-replica-migration no\n"+
		"cluster-require-full-coverage no\ncluster-replica-validity-factor 0\n",
		loopback, m.Port, m.Bus, m.bus.timeout.Load())
}

// drawTimeout has a third of all runs take servers for failed as late as with Redis' own time-out of half a TTL of 30 s, or later: while a
// master that is cut off has not found out, it lives on.
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

// form makes a cluster of servers that know of no other, and finds the marks.
func (p *replicated) form(ctx context.Context, _ string) error {
	c := p.cluster
	for _, m := range p.members {
		c.Nodes = append(c.Nodes, &m.Node)
	}
	if err := c.Form(ctx, clusterTag); err != nil {
		return apart(err)
	}
	for n := 0; c.marks[0] == "" || c.marks[1] == ""; n++ {
		key := fmt.Sprint(tapChannel, ":", n)
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

// mark is witnessed.mark of a server.
func (p *replicated) mark(m *member) string {
	if p.cluster == nil {
		return ""
	}
	return p.cluster.marks[m.shard]
}

// serves reports whether a server of a cluster is with a majority, as far as it knows. Others always are.
func (m *member) serves(ctx context.Context) bool { return m.bus == nil || m.Serves(ctx) }

// servesWithin is more than a server that was started serves nobody (2 s).
const servesWithin = 4 * time.Second

// awaitServing waits until a server that was started serves, if a majority is there.
func (p *replicated) awaitServing(ctx context.Context, m *member) {
	p.renew(m.server)
	ctx, cancel := context.WithTimeout(ctx, servesWithin)
	defer cancel()
	_ = redisfixture.Await(ctx, m.serves)
}

// owner is whom a server takes for the master of the leases' slot; nil: it does not say.
func (p *replicated) owner(by *member) *member {
	if i := p.cluster.Owner(context.Background(), &by.Node); i >= 0 {
		return p.members[i]
	}
	return nil
}

// replace has a replica of the leases' shard take its master's place.
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
