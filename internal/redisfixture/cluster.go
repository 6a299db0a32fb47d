package redisfixture

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/clusternodes"
)

// answerWithin bounds a query to a server, which may be frozen.
const answerWithin = 500 * time.Millisecond

// Node is a server of a group or a cluster.
type Node struct {
	Client    func() *redis.Client
	Port, Bus int // at Loopback, for the other servers: of the server and of its bus
	ID        string
}

// Replicas returns how many replicas are online. It does not count a witness, a replica that listens on no port.
func (n *Node) Replicas(ctx context.Context) (count int) {
	text, _ := n.Client().Info(ctx, "replication").Result()
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "slave") && strings.Contains(line, "state=online") && !strings.Contains(line, ",port=0,") {
			count++
		}
	}
	return count
}

// Sees returns the servers of the cluster in this server's view, or none if it does not answer.
func (n *Node) Sees(ctx context.Context) []clusternodes.Node {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	text, _ := n.Client().ClusterNodes(ctx).Result()
	return clusternodes.Read(text)
}

// Serves reports whether the server's cluster state is ok: it sees a majority of the masters.
func (n *Node) Serves(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	text, _ := n.Client().ClusterInfo(ctx).Result()
	return strings.Contains(text, "cluster_state:ok")
}

// Cluster is a Redis Cluster of two shards, each a master and its replicas, and a third master, the voter.
type Cluster struct {
	Nodes []*Node // shard by shard, each beginning with its first master; the voter last
	Size  int     // servers per shard
	Slot  int64
	slots [][2]int64
}

// ClusterSize returns the number of servers of a cluster with shard servers per shard.
func ClusterSize(shard int) int { return 2*shard + 1 }

// Voter returns the master without replicas, which only votes.
func (c *Cluster) Voter() *Node { return c.Nodes[len(c.Nodes)-1] }

// Form makes a cluster of servers that do not know each other yet. The first shard owns the slot of tag.
func (c *Cluster) Form(ctx context.Context, tag string) error {
	masters := []*Node{c.Nodes[0], c.Nodes[c.Size], c.Voter()}
	if err := c.share(ctx, masters, tag); err != nil {
		return fmt.Errorf("slots of a cluster: %w", err)
	}
	for i, n := range c.Nodes {
		var err error
		n.ID, err = n.Client().Do(ctx, "CLUSTER", "MYID").Text()
		if err == nil {
			err = n.Client().Do(ctx, "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err()
		}
		if err == nil && i > 0 {
			err = n.Client().Do(ctx, "CLUSTER", "MEET", Loopback.String(), masters[0].Port, masters[0].Bus).Err()
		}
		if err != nil {
			return fmt.Errorf("server %d joins a cluster: %w", i+1, err)
		}
	}
	if err := Await(ctx, func(ctx context.Context) bool {
		return !slices.ContainsFunc(c.Nodes, func(n *Node) bool { return !c.seesAll(n.Sees(ctx)) })
	}); err != nil {
		return err
	}
	for i, n := range c.Nodes {
		of := masters[i/c.Size]
		if n == of {
			continue
		}
		if err := n.Client().ClusterReplicate(ctx, of.ID).Err(); err != nil {
			return fmt.Errorf("server %d becomes a replica: %w", i+1, err)
		}
	}
	return Await(ctx, c.Settled)
}

// share assigns slots to the masters. The voter gets one, because a master without slots has no vote.
func (c *Cluster) share(ctx context.Context, masters []*Node, tag string) (err error) {
	if c.Slot, err = masters[0].Client().ClusterKeySlot(ctx, tag).Result(); err != nil {
		return err
	}
	const last = 16384 - 1
	c.slots = [][2]int64{{0, last / 2}, {last/2 + 1, last - 1}, {last, last}}
	if c.Slot > last/2 {
		c.slots[0], c.slots[1] = c.slots[1], c.slots[0]
	}
	for i, n := range masters {
		if err := n.Client().ClusterAddSlotsRange(ctx, int(c.slots[i][0]), int(c.slots[i][1])).Err(); err != nil {
			return err
		}
	}
	return nil
}

// Shard returns the initial owner of a slot: 0 or 1 for a shard, 2 for the voter.
func (c *Cluster) Shard(slot int64) int {
	return slices.IndexFunc(c.slots, func(of [2]int64) bool { return of[0] <= slot && slot <= of[1] })
}

func (c *Cluster) seesAll(seen []clusternodes.Node) bool {
	return len(seen) == len(c.Nodes) && !slices.ContainsFunc(seen, func(n clusternodes.Node) bool { return !n.Well() })
}

// Owner returns the index of the owner of the tag's slot in the view of by, or -1 if unknown.
func (c *Cluster) Owner(ctx context.Context, by *Node) int {
	for _, seen := range by.Sees(ctx) {
		if seen.Owns(c.Slot) {
			return slices.IndexFunc(c.Nodes, func(n *Node) bool { return n.ID == seen.ID })
		}
	}
	return -1
}

// Settled reports whether all servers serve, see the others healthy and agree on the slot's master, and all replicas are online.
func (c *Cluster) Settled(ctx context.Context) bool {
	owner, followers, replicas := c.Owner(ctx, c.Voter()), 2*(c.Size-1), 0
	for _, n := range c.Nodes {
		seen := n.Sees(ctx)
		slaves := slices.DeleteFunc(slices.Clone(seen), func(n clusternodes.Node) bool { return !n.Is("slave") })
		if !c.seesAll(seen) || len(slaves) != followers || c.Owner(ctx, n) != owner || !n.Serves(ctx) {
			return false
		}
		replicas += n.Replicas(ctx)
	}
	return owner >= 0 && replicas == followers
}

const awaitWithin = 2 * time.Minute

// Await polls so until it returns true, for at most two minutes. It returns the cause if the context ends first.
func Await(ctx context.Context, so func(context.Context) bool) error {
	ctx, cancel := context.WithTimeout(ctx, awaitWithin)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !so(ctx) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil
}
