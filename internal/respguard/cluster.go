package respguard

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// serversMax is how many servers of a cluster are believed in: four times as many as Redis Cluster is made for. go-redis makes a client for
// each that a map of slots names, and compares each with all that came before.
const serversMax = 4000

// NewClusterClient is redis.NewClusterClient with guarded connections. opt must have a Dialer. Errors of its commands do not show the
// password.
func NewClusterClient(opt *redis.ClusterOptions) *redis.ClusterClient {
	o := *opt
	o.Dialer = guarding(o.Dialer)
	c := redis.NewClusterClient(&o)
	HideInCluster(c)
	return c
}

// HideInCluster has c keep its password out of the errors of its commands, also where they are given to one server of the cluster, whose
// client has hooks of its own, and refuse a map of slots that no cluster has.
func HideInCluster(c *redis.ClusterClient) {
	password := c.Options().Password
	c.AddHook(Hide(password))
	c.OnNewNode(func(server *redis.Client) {
		server.AddHook(Hide(password))
		server.AddHook(mapped{})
	})
}

// mapped looks at maps of slots.
type mapped struct{}

// DialHook changes nothing.
func (mapped) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook refuses a map of too many servers.
func (mapped) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if slots, ok := cmd.(*redis.ClusterSlotsCmd); ok && err == nil && tooMany(slots.Val()) {
			err = refuse("a cluster of more than %d servers", serversMax)
			slots.SetVal(nil)
			slots.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook changes nothing: nobody asks for the map among others.
func (mapped) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func tooMany(slots []redis.ClusterSlot) bool {
	servers := map[string]struct{}{}
	for _, slot := range slots {
		for _, server := range slot.Nodes {
			if servers[server.Addr] = struct{}{}; len(servers) > serversMax {
				return true
			}
		}
	}
	return false
}
