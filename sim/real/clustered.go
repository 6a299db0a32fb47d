package real

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leasestorm/leasestorm/internal/clusternodes"
)

// cluster is what a replicated Redis that is a Redis Cluster has in the place of sentinels: two shards of a master and replicas, of which
// one has the leases' slot, and one more master, which votes and is under no fault.
type cluster struct {
	shard   int          // servers of one
	slot    int64        // of leases
	timeout atomic.Int64 // cluster-node-timeout, in milliseconds
	marks   [2]string    // keys that are of each shard for ever, by which taps know where they are in the stream
}

const (
	clusterSlots = 16384
	// nodeTimeout is after what time of silence a server of a cluster takes another for failed, unless a run draws more.
	nodeTimeout = sentinelDown
)

// clusterServers is how many a cluster has of whose shards each has so many.
func clusterServers(shard int) int { return 2*shard + 1 }

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
	port int    // where the server itself listens
	id   string // of the server
}

func newBus(of *cluster, short func(error)) (*bus, error) {
	d, err := newDoor(short)
	return &bus{door: d, cluster: of}, err
}

// join makes the line from another server.
func (b *bus) join(from, to *member, short func(error)) error {
	at := endpoint{"tcp", netip.AddrPortFrom(loopback, uint16(b.port)).String()}
	l, err := newLine(from.name+" to the bus of "+to.name, loopback, at, 0, uint64(from.number), short)
	if err == nil {
		l.up.counted = false
		b.servers[from.from] = l
	}
	return err
}

// clusterConf are the settings of a server of a cluster. Who reaches a bus may be the master that it follows (SECURITY.md): forged data
// is looked at. Until it has been started its bus may be anywhere.
func (m *member) clusterConf() (string, error) {
	if m.client.Load() == nil {
		if err := listenLow(loopback, func(addr string) error {
			l, err := net.Listen("tcp", addr)
			if err != nil {
				return err
			}
			m.bus.port = l.Addr().(*net.TCPAddr).Port
			return l.Close()
		}); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-port %d\ncluster-announce-ip %s\n"+
		"cluster-announce-port %d\ncluster-announce-bus-port %d\ncluster-node-timeout %d\ncluster-allow-replica-migration no\n"+
		"cluster-require-full-coverage no\ncluster-replica-validity-factor 0\nsanitize-dump-payload yes\n",
		m.bus.port, loopback, m.door.port(), m.bus.door.port(), m.bus.timeout.Load()), nil
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

// form makes a cluster of servers that know of no other.
func (p *replicated) form(ctx context.Context, _ string) error {
	masters := []*member{p.members[0], p.members[p.cluster.shard], p.voter()}
	if err := p.share(ctx, masters); err != nil {
		return fmt.Errorf("%w: slots of a cluster: %w", ErrNoServer, err)
	}
	for i, m := range p.members {
		id, err := m.client.Load().Do(ctx, "CLUSTER", "MYID").Text()
		if err == nil {
			err = m.client.Load().Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
		}
		if err == nil && i > 0 {
			err = m.client.Load().Do(ctx, "CLUSTER", "MEET", loopback.String(), masters[0].door.port(), masters[0].bus.door.port()).Err()
		}
		if err != nil {
			return fmt.Errorf("%w: a cluster of %s: %w", ErrNoServer, m.name, err)
		}
		m.bus.id = id
	}
	all := func(so func(context.Context, *member) bool) error {
		return p.settle(ctx, func(ctx context.Context) bool {
			return !slices.ContainsFunc(p.members, func(m *member) bool { return !so(ctx, m) })
		})
	}
	if err := all(p.seesAll); err != nil {
		return err
	}
	for _, m := range p.members {
		if of := masters[m.shard]; m != of {
			if err := m.followNow(ctx, of); err != nil {
				return fmt.Errorf("%w: %s cannot be made a replica: %w", ErrNoServer, m.name, err)
			}
		}
	}
	return all(func(ctx context.Context, m *member) bool {
		return p.seesAll(ctx, m) && m.serves(ctx) && p.owner(m) == masters[0] &&
			(m != masters[m.shard] || m == p.voter() || m.replicas(ctx) == p.cluster.shard-1)
	})
}

// share gives the masters their slots, the first of them the leases', and finds the marks. Who votes needs one, else it has no vote.
func (p *replicated) share(ctx context.Context, masters []*member) error {
	c, client := p.cluster, masters[0].client.Load()
	slot, err := client.ClusterKeySlot(ctx, clusterTag).Result()
	if err != nil {
		return err
	}
	c.slot = slot
	const last = clusterSlots - 1
	ranges := [][2]int64{{0, last / 2}, {last/2 + 1, last - 1}, {last, last}}
	if slot > last/2 {
		ranges[0], ranges[1] = ranges[1], ranges[0]
	}
	for i, m := range masters {
		if err := m.client.Load().ClusterAddSlotsRange(ctx, int(ranges[i][0]), int(ranges[i][1])).Err(); err != nil {
			return err
		}
	}
	for n := 0; c.marks[0] == "" || c.marks[1] == ""; n++ {
		key := fmt.Sprint(tapChannel, ":", n)
		at, err := client.ClusterKeySlot(ctx, key).Result()
		if err != nil {
			return err
		}
		for i := range c.marks {
			if at != slot && ranges[i][0] <= at && at <= ranges[i][1] {
				c.marks[i] = key
			}
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
func (m *member) serves(ctx context.Context) bool {
	if m.bus == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, sentinelAnswer)
	defer cancel()
	text, err := m.client.Load().ClusterInfo(ctx).Result()
	return err == nil && infoFields(text)["cluster_state"] == "ok"
}

// servesWithin is more than a server that was started serves nobody (2 s).
const servesWithin = 4 * time.Second

// awaitServing waits until a server that was started serves, if a majority is there.
func (p *replicated) awaitServing(ctx context.Context, m *member) {
	p.renew(m.server)
	ctx, cancel := context.WithTimeout(ctx, servesWithin)
	defer cancel()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for !m.serves(ctx) && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// seesAll reports whether a server sees all others, and none of them failed.
func (p *replicated) seesAll(_ context.Context, by *member) bool {
	all := by.sees()
	return len(all) == len(p.members) && !slices.ContainsFunc(all, func(n clusternodes.Node) bool { return !n.Well() })
}

// sees is what a server tells of each. It is empty if it does not answer.
func (m *member) sees() []clusternodes.Node {
	ctx, cancel := context.WithTimeout(context.Background(), sentinelAnswer)
	defer cancel()
	text, _ := m.client.Load().ClusterNodes(ctx).Result()
	return clusternodes.Read(text)
}

// owner is whom a server takes for the master of the leases' slot; nil: it does not say.
func (p *replicated) owner(by *member) *member {
	for _, n := range by.sees() {
		if n.Owns(p.cluster.slot) {
			if i := slices.IndexFunc(p.members, func(m *member) bool { return m.bus.id == n.ID }); i >= 0 {
				return p.members[i]
			}
		}
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
