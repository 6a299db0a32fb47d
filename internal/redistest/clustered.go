package redistest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/clusternodes"
	"github.com/leasestorm/leasestorm/internal/redisfixture"
)

const shardSize = 3

// Clustered is a cluster of two shards, each a master and two replicas, and a third master that votes. A master fails after one second of
// silence. The last server of a shard never becomes its master.
type Clustered struct {
	Servers []*Server // shard by shard, each beginning with its first master; the voter last

	t       testing.TB
	cluster redisfixture.Cluster
}

// StartClustered starts all seven servers and waits until they form a cluster. The first shard initially owns the tag's slot.
func StartClustered(t testing.TB, tag string, opts ...Option) *Clustered {
	t.Helper()
	c := &Clustered{t: t, cluster: redisfixture.Cluster{Size: shardSize}}
	for i := range redisfixture.ClusterSize(shardSize) {
		own := []Option{Args("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-allow-replica-migration", "no",
			"--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0")}
		if i%shardSize == shardSize-1 {
			own = append(own, Args("--cluster-replica-no-failover", "yes"))
		}
		s := Start(t, append(own, opts...)...)
		c.Servers, c.cluster.Nodes = append(c.Servers, s), append(c.cluster.Nodes, &s.node)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the cluster as who votes sees it:\n%v", c.voter().Do("CLUSTER", "NODES"))
		}
	})
	if err := c.cluster.Form(context.Background(), tag); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return c
}

func (c *Clustered) voter() *Server { return c.Servers[len(c.Servers)-1] }

// Client returns a new client of the cluster. The test closes it at its end.
func (c *Clustered) Client() redis.UniversalClient {
	o := &redis.ClusterOptions{}
	for _, s := range c.Servers {
		o.Addrs = append(o.Addrs, s.Addr())
	}
	client := redis.NewClusterClient(o)
	c.t.Cleanup(func() { _ = client.Close() })
	return client
}

// Master returns the slot's master in the voter's view.
func (c *Clustered) Master() *Server {
	c.t.Helper()
	owner := -1
	Eventually(c.t, "a master of the slot", func() bool {
		owner = c.cluster.Owner(context.Background(), &c.voter().node)
		return owner >= 0
	})
	return c.Servers[owner]
}

// Replicas returns the other servers of the slot's shard.
func (c *Clustered) Replicas() []*Server {
	c.t.Helper()
	master := c.Master()
	shard := slices.Index(c.Servers, master) / shardSize * shardSize
	return slices.DeleteFunc(slices.Clone(c.Servers[shard:shard+shardSize]), func(s *Server) bool { return s == master })
}

// manualFailover is how long Redis remembers an unsuccessful CLUSTER FAILOVER. Voters grant a shard one failover per two node timeouts.
const manualFailover = 5 * time.Second

// Failover replaces the slot's master with another server of its shard, in agreement with the old master, and returns the new one.
func (c *Clustered) Failover() *Server {
	c.t.Helper()
	old := c.Master()
	var asked time.Time
	Eventually(c.t, "CLUSTER FAILOVER", func() bool {
		if old.node.Replicas(context.Background()) == 2 && time.Since(asked) > manualFailover {
			asked = time.Now()
			_ = c.heir(old).hand.Do(context.Background(), "CLUSTER", "FAILOVER").Err() // retried if refused
		}
		return c.Master() != old
	})
	return c.Master()
}

// heir returns the other server of the shard that can become its master.
func (c *Clustered) heir(of *Server) *Server {
	i := slices.Index(c.Servers, of)
	return c.Servers[i-i%shardSize+1-i%shardSize]
}

// AwaitSwitch waits until the slot's master is not old, and returns it.
func (c *Clustered) AwaitSwitch(old *Server) *Server {
	c.t.Helper()
	var master *Server
	Eventually(c.t, "another master of the slot", func() bool {
		master = c.Master()
		return master != old
	})
	return master
}

// Move moves the slot and its keys to the other shard.
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
	to.Do("CLUSTER", "SETSLOT", c.cluster.Slot, "IMPORTING", from.node.ID)
	from.Do("CLUSTER", "SETSLOT", c.cluster.Slot, "MIGRATING", to.node.ID)
	for {
		keys, _ := from.Do("CLUSTER", "GETKEYSINSLOT", c.cluster.Slot, 1000).([]any)
		if len(keys) == 0 {
			break
		}
		from.Do(append([]any{"MIGRATE", "127.0.0.1", to.port, "", 0, 5000, "KEYS"}, keys...)...)
	}
	for _, s := range []*Server{to, from, c.voter()} {
		s.Do("CLUSTER", "SETSLOT", c.cluster.Slot, "NODE", to.node.ID)
	}
}

func (c *Clustered) replica(s *Server) bool {
	return slices.ContainsFunc(c.voter().node.Sees(context.Background()), func(n clusternodes.Node) bool {
		return n.ID == s.node.ID && n.Is("slave")
	})
}

// AwaitSettled waits until all servers are healthy and agree on the slot's master, and both shards have two replicas.
func (c *Clustered) AwaitSettled() {
	c.t.Helper()
	Eventually(c.t, "a settled cluster", func() bool { return c.cluster.Settled(context.Background()) })
}
