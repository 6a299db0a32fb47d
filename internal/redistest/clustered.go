package redistest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/clusternodes"
)

// shardSize is how many servers a shard of a Clustered has.
const shardSize = 3

// Clustered is a cluster of two shards, of one master and two replicas each, and of one more master that votes. A silent master is
// taken for failed after a second. The last server of a shard never becomes its master.
type Clustered struct {
	Servers []*Server // one shard after the other, which begin with their masters at the start; then who votes

	t    testing.TB
	slot int64
}

// StartClustered starts all seven and waits until they know each other. The slot of tag, a hash tag, is the first shard's at the
// start. The options are the servers'; see Start.
func StartClustered(t testing.TB, tag string, opts ...Option) *Clustered {
	t.Helper()
	c := &Clustered{t: t}
	for i := range 2*shardSize + 1 {
		own := []Option{Args("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-allow-replica-migration", "no",
			"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0")}
		if i%shardSize == shardSize-1 {
			own = append(own, Args("--cluster-replica-no-failover", "yes"))
		}
		c.Servers = append(c.Servers, Start(t, append(own, opts...)...))
	}
	first, second, voter := c.Servers[0], c.Servers[shardSize], c.voter()
	c.slot, _ = first.Do("CLUSTER", "KEYSLOT", tag).(int64)
	const slots = 16384
	second.Do("CLUSTER", "ADDSLOTS", (c.slot+1)%slots) // a master without slots has no vote
	voter.Do("CLUSTER", "ADDSLOTS", (c.slot+2)%slots)
	rest := []any{"CLUSTER", "ADDSLOTS"}
	for i := range int64(slots - 2) {
		rest = append(rest, (c.slot+3+i)%slots)
	}
	first.Do(rest...)
	for i, s := range c.Servers {
		s.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
	}
	for _, s := range c.Servers[1:] {
		s.Do("CLUSTER", "MEET", "127.0.0.1", first.port)
	}
	await(t, "servers that know each other", func() bool {
		return !slices.ContainsFunc(c.Servers, func(s *Server) bool { return len(healthy(c.seen(s))) < len(c.Servers) })
	})
	for i, s := range c.Servers[:2*shardSize] {
		if i%shardSize > 0 {
			s.Do("CLUSTER", "REPLICATE", c.Servers[i-i%shardSize].id())
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the cluster as who votes sees it:\n%v", voter.Do("CLUSTER", "NODES"))
		}
	})
	c.AwaitSettled()
	return c
}

func (c *Clustered) voter() *Server { return c.Servers[len(c.Servers)-1] }

func (s *Server) id() string {
	id, _ := s.Do("CLUSTER", "MYID").(string)
	return id
}

// Client returns a new client of the cluster; the test closes it at its end.
func (c *Clustered) Client() redis.UniversalClient {
	o := &redis.ClusterOptions{}
	for _, s := range c.Servers {
		o.Addrs = append(o.Addrs, s.Addr())
	}
	client := redis.NewClusterClient(o)
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// node is a server as another one sees it.
type node struct {
	clusternodes.Node
	server *Server
}

// seen is what a server sees of all, nothing where it does not answer.
func (c *Clustered) seen(by *Server) (nodes []node) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	reply, _ := by.hand.ClusterNodes(ctx).Result()
	for _, n := range clusternodes.Read(reply) {
		if i := slices.IndexFunc(c.Servers, func(s *Server) bool { return s.Addr() == n.Addr }); i >= 0 {
			nodes = append(nodes, node{n, c.Servers[i]})
		}
	}
	return nodes
}

func healthy(nodes []node) []node {
	return slices.DeleteFunc(slices.Clone(nodes), func(n node) bool { return !n.Well() })
}

// owner is whom a server takes for the slot's master.
func (c *Clustered) owner(by *Server) *Server {
	for _, n := range healthy(c.seen(by)) {
		if n.Owns(c.slot) && n.Is("master") {
			return n.server
		}
	}
	return nil
}

// Master returns the server that who votes takes for the slot's master.
func (c *Clustered) Master() *Server {
	c.t.Helper()
	var master *Server
	await(c.t, "a master of the slot", func() bool {
		master = c.owner(c.voter())
		return master != nil
	})
	return master
}

// Replicas are the other servers of the slot's shard.
func (c *Clustered) Replicas() []*Server {
	c.t.Helper()
	master := c.Master()
	shard := slices.Index(c.Servers, master) / shardSize * shardSize
	return slices.DeleteFunc(slices.Clone(c.Servers[shard:shard+shardSize]), func(s *Server) bool { return s == master })
}

// manualFailover is after what time Redis has forgotten a CLUSTER FAILOVER that came to nothing: those who vote do so for one shard twice
// in their time-out at the most.
const manualFailover = 5 * time.Second

// Failover has another server of the shard take the master's place, in agreement with it.
func (c *Clustered) Failover() *Server {
	c.t.Helper()
	old := c.Master()
	var asked time.Time
	await(c.t, "CLUSTER FAILOVER", func() bool {
		if old.replicas() == 2 && time.Since(asked) > manualFailover {
			asked = time.Now()
			_ = c.heir(old).hand.Do(context.Background(), "CLUSTER", "FAILOVER").Err() // refused: it is asked for again
		}
		return c.Master() != old
	})
	return c.Master()
}

// heir is the other one of the two servers that can be its shard's master.
func (c *Clustered) heir(of *Server) *Server {
	i := slices.Index(c.Servers, of)
	return c.Servers[i-i%shardSize+1-i%shardSize]
}

// AwaitSwitch waits until another one than old is the slot's master, and returns it.
func (c *Clustered) AwaitSwitch(old *Server) *Server {
	c.t.Helper()
	var master *Server
	await(c.t, "another master of the slot", func() bool {
		master = c.Master()
		return master != old
	})
	return master
}

// Move gives the slot, and all that is in it, to the other shard.
func (c *Clustered) Move() {
	c.t.Helper()
	from := c.Master()
	to := c.Servers[0]
	if slices.Index(c.Servers, from) < shardSize {
		to = c.Servers[shardSize]
	}
	if c.replica(to) {
		to = c.heir(to)
	}
	to.Do("CLUSTER", "SETSLOT", c.slot, "IMPORTING", from.id())
	from.Do("CLUSTER", "SETSLOT", c.slot, "MIGRATING", to.id())
	for {
		keys, _ := from.Do("CLUSTER", "GETKEYSINSLOT", c.slot, 1000).([]any)
		if len(keys) == 0 {
			break
		}
		from.Do(append([]any{"MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS"}, keys...)...)
	}
	for _, s := range []*Server{to, from, c.voter()} {
		s.Do("CLUSTER", "SETSLOT", c.slot, "NODE", to.id())
	}
}

func (c *Clustered) replica(s *Server) bool {
	return slices.ContainsFunc(c.seen(c.voter()), func(n node) bool { return n.server == s && n.Is("slave") })
}

// AwaitSettled waits until all servers are well, agree on the slot's master, and both shards have two replicas.
func (c *Clustered) AwaitSettled() {
	c.t.Helper()
	await(c.t, "two shards of one master with two replicas, and servers that agree", func() bool {
		master := c.owner(c.voter())
		return master != nil && master.replicas() == 2 && !slices.ContainsFunc(c.Servers, func(s *Server) bool {
			return c.owner(s) != master || !c.settled(s)
		})
	})
}

// settled says whether a server serves, and sees all others well, with two replicas in each shard.
func (c *Clustered) settled(s *Server) bool {
	all := healthy(c.seen(s))
	replicas := slices.DeleteFunc(slices.Clone(all), func(n node) bool { return !n.Is("slave") })
	info, _ := s.hand.ClusterInfo(context.Background()).Result()
	return len(all) == len(c.Servers) && len(replicas) == 4 && strings.Contains(info, "cluster_state:ok")
}
