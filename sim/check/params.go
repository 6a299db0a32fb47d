package check

import (
	"encoding/json"
	"math"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/measure"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// Params describes a run: everything beside the history that the judge needs. Its JSON form is the "config" of report.json, with times in
// milliseconds.
type Params struct {
	System   string `json:"system,omitempty"`   // system of the nodes; empty: SystemPolling
	Topology string `json:"topology,omitempty"` // of Redis; empty: one server
	Replicas int    `json:"replicas,omitempty"` // configured replicas of Redis
	Tuners   int    `json:"tuners,omitempty"`   // slots shared by the workers of intents; 0 in other systems
	Nodes    int    `json:"nodes"`              // at the start
	Sessions int    `json:"sessions"`           // at the start

	timing.Timings `json:"-"`    // in paramsJSON
	Duration       time.Duration `json:"-"`               // of storm and calm; in paramsJSON
	Speed          float64       `json:"speed,omitempty"` // divisor of the default timings; 0: unknown
	Plan           fault.Plan    `json:"-"`               // the "faults" of report.json

	Tap         bool     `json:"tap"`                // the history has Redis' stream
	Followed    bool     `json:"followed,omitempty"` // the history has acknowledgements and the master that each process was led to
	Counted     bool     `json:"counted,omitempty"`  // the history has the number of commands that nodes sent
	Interrupted bool     `json:"interrupted"`        // the run was stopped before its time
	Foreign     bool     `json:"foreign"`            // the nodes are another program, known only by the node protocol
	Scenario    string   `json:"scenario,omitempty"`
	Redis       string   `json:"redis,omitempty"`        // server, embedded, url, …
	Criteria    []string `json:"criteria,omitempty"`     // guarantees that decide the verdict; empty: Decides
	Least       int      `json:"minExercised,omitempty"` // minimum of judged changes of each of them for a pass
}

// paramsJSON is the JSON form of Params. It points to the fields of one.
type paramsJSON struct {
	*untimed
	TTL          *measure.Millis `json:"ttlMs"`
	Renew        *measure.Millis `json:"renewMs"`
	RenewTimeout *measure.Millis `json:"renewTimeoutMs"`
	Heartbeat    *measure.Millis `json:"heartbeatMs"`
	Discovery    *measure.Millis `json:"discoveryMs"`
	Poll         *measure.Millis `json:"pollMs"`
	PollTimeout  *measure.Millis `json:"pollTimeoutMs"`
	Serve        *measure.Millis `json:"serveMs"`
	Duration     *measure.Millis `json:"durationMs"`
}

type untimed Params // without methods

func (p *Params) json() *paramsJSON {
	ms := func(d *time.Duration) *measure.Millis { return (*measure.Millis)(d) }
	return &paramsJSON{
		(*untimed)(p), ms(&p.TTL), ms(&p.Renew), ms(&p.RenewTimeout), ms(&p.Heartbeat), ms(&p.Discovery), ms(&p.Poll), ms(&p.PollTimeout),
		ms(&p.Serve), ms(&p.Duration),
	}
}

// MarshalJSON writes the config of report.json.
func (p Params) MarshalJSON() ([]byte, error) { return json.Marshal(p.json()) }

// UnmarshalJSON reads the config of report.json. It keeps Plan, and ignores unknown fields.
func (p *Params) UnmarshalJSON(data []byte) error {
	*p = Params{Plan: p.Plan}
	return json.Unmarshal(data, p.json())
}

// The systems that a run can have (Params.System).
const (
	SystemPolling  = "polling"  // many leases, each on a polling session
	SystemElection = "election" // one lease that all instances want: leadership
	SystemIntents  = "intents"  // leases on demand, acquired in pairs by workers
)

// TopologySentinel is a Redis of a master and replicas with sentinels. TopologyCluster is a Redis Cluster, of which one shard has
// the leases. With either, a grant by one server need not count, and a deposed master may go on running. So the judge uses the
// nodes' messages and the target's record for the guarantees that are never excused. It judges the others only if the history shows
// acknowledgements (Params.Followed).
const (
	TopologySentinel = "sentinel"
	TopologyCluster  = "cluster"
)

// Replicated reports whether the topology has several servers.
func Replicated(topo string) bool { return topo == TopologySentinel || topo == TopologyCluster }

func (p Params) replicated() bool { return Replicated(p.Topology) }

// shows reports whether the grants that Redis shows count, as they do with one server.
func (p Params) shows() bool { return p.Tap && !p.replicated() }

// Allowances of the guarantees. The speed of a run does not divide them.
const (
	FailoverAllowance = fault.FailoverAllowance // G5, G8, G9, G13: noticing and taking over
	handoverAllowance = 100 * time.Millisecond  // G8: a graceful handover
	appearAllowance   = time.Second             // G8: a session that appears
	stampAllowance    = 5 * time.Millisecond    // G4: between a check and the stamp of its consequence
)

// Settle returns the time, in ns, within which the fleet must be balanced after a change (G6). Discoveries may be far more frequent
// than repeated attempts, which wait for a quarter of a renewal interval, and than the turns of waiting instances.
func (p Params) Settle() int64 { return max(int64(p.Discovery)*12/10, p.takeOver()) }

// settleSessions is like Settle for a change of the sessions, which instances see at their next discovery.
func (p Params) settleSessions() int64 {
	return int64(p.Discovery) + max(int64(p.Discovery), p.takeOver())
}

// takeOver returns the longest time to acquire a free or requested lease after the first attempts failed.
func (p Params) takeOver() int64 { return int64(p.Renew/4 + FailoverAllowance) }

// probe returns the longest pause between two probes of an instance that Redis does not answer.
func (p Params) probe() int64 { return max(int64(p.Renew)/20, int64(10*time.Millisecond)) }

// startDelay returns the longest delay before a new instance takes part.
func (p Params) startDelay() int64 {
	switch p.System {
	case SystemElection:
		return int64(p.TTL) / 3
	case SystemPolling, "":
		return int64(p.Discovery) / 10
	default:
		return 0
	}
}

// electionInterval returns the time between two reads of the leader key by a follower, and between two failed attempts.
func (p Params) electionInterval() int64 { return int64(p.TTL) / 2 }

// clockWithin returns the time within which an undisturbed instance learns of a new clock of Redis, from a renewal, a heartbeat or
// a new connection. On a cluster, a follower of an election has none of these. It sends a request only at the end of the lease that
// it waits for.
func (p Params) clockWithin() int64 {
	if p.System == SystemElection && p.Topology == TopologyCluster {
		return int64(p.TTL)
	}
	return int64(p.Renew)
}

// margin returns how much earlier than its lease a trust window ends, for the error of the clock rate: 1 % of the TTL, at least 5 ms.
func (p Params) margin() int64 { return max(int64(p.TTL)/100, int64(5*time.Millisecond)) }

// Margin is margin for other packages.
func (p Params) Margin() int64 { return p.margin() }

// eventAllowance is the largest distance between a node's event and its effect in Redis' stream.
const eventAllowance = int64(250 * time.Millisecond)

// expirySlack is how much earlier than shown a key may expire: rounding, and the offset of the clocks.
const expirySlack = int64(20 * time.Millisecond)

// snapshotReason marks the leases that Redis held when the tap opened. These leases were granted earlier.
const snapshotReason = "snapshot"

// thawGrace is the time after a thaw within which a process must notice an overdue event.
const thawGrace = int64(100 * time.Millisecond)

const never = int64(math.MaxInt64)

// clockStep is the resolution of Redis' clock, which counts milliseconds.
const clockStep = int64(time.Millisecond)

// blur returns how late the history may show an event of Redis, because the harness reads the stream as it arrives. In virtual time
// no event is late.
func (p Params) blur() int64 {
	if p.Redis == "model" {
		return 0
	}
	return eventAllowance
}

// sentLate is how long after a thaw a poll from before the freeze may arrive.
const sentLate = int64(FailoverAllowance)

// assertAllowance is the time of an attempt without the pause before the attempt.
const assertAllowance = 250 * time.Millisecond

// settleAllowance is the fixed part of I3's limit.
const settleAllowance = time.Second

// slotAllowance is the time that a worker may need to find that one tuner slot is taken. A worker tries one slot after the other.
const slotAllowance = 50 * time.Millisecond

// settleIntents returns how long an intent may take if nothing delays it. A session whose answer was lost is found again with the second
// heartbeat of its worker, of which there are ten per TTL.
func (p Params) settleIntents() time.Duration {
	return p.TTL/5 + settleAllowance + time.Duration(p.Tuners)*slotAllowance
}
