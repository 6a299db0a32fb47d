package sim

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// Topologies of Redis.
const (
	TopologySingle   = "single" // one server
	TopologySentinel = check.TopologySentinel
	TopologyCluster  = check.TopologyCluster
)

// DefaultReplicas is the default number of replicas that instances know.
const DefaultReplicas = 2

// ErrTopology means that another setting contradicts the topology of Redis.
var ErrTopology = errors.New("not with this topology")

func (c Config) replicated() bool { return check.Replicated(c.Topology) }

// servers returns the topology's values in a scenario file, none for a single server.
func (c Config) servers() (topology string, replicas *int) {
	if !c.replicated() {
		return "", nil
	}
	return c.Topology, &c.Replicas
}

func (c Config) checkTopology() error {
	known := []string{TopologySingle, TopologySentinel, TopologyCluster}
	switch {
	case c.Topology == TopologyCluster && c.System == SystemElection && !c.onVirtual():
		return wrong("topology", "%w: %s: the keys of an election are whole, and nothing says that those of a real cluster are in one slot: "+
			"choose another system (flag --system), or add --engine virtual", ErrTopology, c.Topology)
	case c.Topology != "" && !slices.Contains(known, c.Topology):
		return wrong("topology", "%q: unknown topology: choose from %s (flag --topology)", c.Topology, strings.Join(known, ", "))
	case c.Replicas != 0 && !c.replicated():
		return wrong("replicas", "%d: one server has no replicas: add topology: %s or %s (flag --topology)", c.Replicas,
			TopologySentinel, TopologyCluster)
	case c.Replicas < 0 || c.Replicas > redisstore.ReplicasMax:
		return wrong("replicas", "%d is out of bounds: 0 to %d (flag --replicas)", c.Replicas, redisstore.ReplicasMax)
	case c.Topology == TopologyCluster && c.System == SystemIntents:
		return wrong("topology", "%w: %s: no engine storms intents there yet: add topology: %s (flag --topology), or choose another system "+
			"(flag --system)", ErrTopology, c.Topology, TopologySentinel)
	case c.replicated() && c.System == SystemIntents && !c.onVirtual():
		return wrong("topology", "%w: %s: intents are stormed there in virtual time alone: add --engine virtual, or choose another system "+
			"(flag --system)", ErrTopology, c.Topology)
	}
	return nil
}

// Servers returns the number of servers besides sentinels, in a cluster per shard that may have leases; 0 for a single server.
func (c Config) Servers() int {
	if !c.replicated() {
		return 0
	}
	return cmp.Or(c.Replicas, DefaultReplicas) + 1
}

func (c Config) misplaced(k fault.Kind) error {
	switch {
	case k.OfServers() && !c.replicated():
		return fmt.Errorf("%w: %q: Redis has no replicas: add topology: %s (flag --topology)", ErrPointless, string(k), TopologySentinel)
	case k.OfCluster() && c.Topology != TopologyCluster:
		return fmt.Errorf("%w: %q: Redis is no cluster: add topology: %s (flag --topology)", ErrPointless, string(k), TopologyCluster)
	case k == fault.RedisReadOnly && c.Topology == TopologyCluster && !c.onVirtual():
		return fmt.Errorf("%w: %q: a server of a real cluster that has slots cannot be told to follow another: leave it out", ErrPointless,
			string(k))
	case !c.replicated():
	case k == fault.RedisFailover:
		return fmt.Errorf("%w: %q: it is for one server: name %q", ErrPointless, string(k), string(fault.Failover))
	}
	return nil
}
