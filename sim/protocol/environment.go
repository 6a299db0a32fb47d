package protocol

import (
	"strconv"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/timing"
)

// Keys are the names of the keys of the polling system in Redis: prefixes, the epoch's key, and the parts of a fence's key around the ID.
type Keys struct{ Sessions, Leases, Beats, Epoch, Fence, FenceEnd string }

// Polling are the keys of polling on one Redis.
var Polling = Keys{
	Sessions: "session:", Leases: "poll:lease:", Beats: "poll:node:", Epoch: "poll:epoch", Fence: "{poll:lease:", FenceEnd: "}:fence",
}

// Environment returns the variables that name the keys.
func (k Keys) Environment() []string {
	return []string{
		"LEASESTORM_SESSION_PREFIX=" + k.Sessions, "LEASESTORM_LEASE_PREFIX=" + k.Leases,
		"LEASESTORM_FENCE_PREFIX=" + k.Fence, "LEASESTORM_FENCE_SUFFIX=" + k.FenceEnd,
		"LEASESTORM_HEARTBEAT_PREFIX=" + k.Beats, "LEASESTORM_EPOCH_KEY=" + k.Epoch,
	}
}

// Timings returns the variables of a node's timings.
func Timings(t *timing.Timings) []string {
	return []string{
		Ms("TTL", t.TTL), Ms("RENEW", t.Renew), Ms("POLL", t.Poll), Ms("HEARTBEAT", t.Heartbeat), Ms("DISCOVERY", t.Discovery),
		Ms("POLL_TIMEOUT", t.PollTimeout),
	}
}

// Ms returns the variable of a duration.
func Ms(name string, d time.Duration) string {
	return "LEASESTORM_" + name + "_MS=" + strconv.FormatInt(d.Milliseconds(), 10)
}

// Node returns the variables that name a node and what it is to do.
func Node(name, system, redisURL, targetURL string) []string {
	return []string{
		"LEASESTORM_REDIS_URL=" + redisURL, "LEASESTORM_TARGET_URL=" + targetURL, "LEASESTORM_NODE=" + name, "LEASESTORM_SYSTEM=" + system,
		"LEASESTORM_PROTOCOL=" + strconv.Itoa(Version), "LEASESTORM_LOG=debug",
	}
}

// Sentinels returns the variables of a node whose Redis has sentinels. ways has, for each address that they name, the node's own.
func Sentinels(addrs []string, masterName string, ways []string) []string {
	return []string{
		"LEASESTORM_SENTINELS=" + strings.Join(addrs, ","), "LEASESTORM_MASTER_NAME=" + masterName,
		"LEASESTORM_WAYS=" + strings.Join(ways, ","),
	}
}

// Replicas returns the variable that says how many replicas Redis is meant to have.
func Replicas(n int) string { return "LEASESTORM_REPLICAS=" + strconv.Itoa(n) }

// ElectionBeats is the prefix of an election's heartbeats.
const ElectionBeats = "sovereign:heartbeat:"

// ElectionEpoch is the key of an election's epoch.
const ElectionEpoch = "sovereign:epoch"

// Election returns the variables of an election.
func Election(leaderKey string, ttl time.Duration) []string {
	return []string{
		Ms("ELECTION", ttl/2), Ms("START_DELAY", ttl/3), "LEASESTORM_LEADER_KEY=" + leaderKey,
		"LEASESTORM_HEARTBEAT_PREFIX=" + ElectionBeats, "LEASESTORM_EPOCH_KEY=" + ElectionEpoch,
	}
}
