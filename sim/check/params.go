package check

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// Params describes a run: everything beside the history that the judge needs. Its JSON form is the "config" of report.json (times in
// milliseconds) without Plan, which is the "faults" there.
type Params struct {
	System   string // system of the nodes; empty: SystemPolling
	Nodes    int    // at the start
	Sessions int    // at the start

	timing.Timings

	Duration time.Duration // of storm and calm
	Speed    float64       // divisor of the default timings; 0: unknown

	Plan fault.Plan

	Topology string // of Redis; empty: one server
	Replicas int    // configured replicas of Redis

	Tuners int // slots shared by the workers of intents; 0 in other systems

	Tap         bool // the history has Redis' stream
	Followed    bool // with several servers, the history has acknowledgements and the master that each process was led to
	Counted     bool // the history has the number of commands that nodes sent
	Interrupted bool // the run was stopped before its time
	Foreign     bool // the nodes are another program, known only by the node protocol
	Scenario    string
	Redis       string   // server, embedded, url, …
	Criteria    []string // guarantees that decide the verdict; empty: Decides
	Least       int      // minimum of judged changes of each of them for a pass
}

type paramsJSON struct {
	System         string   `json:"system,omitempty"`
	Topology       string   `json:"topology,omitempty"`
	Replicas       int      `json:"replicas,omitempty"`
	Tuners         int      `json:"tuners,omitempty"`
	Nodes          int      `json:"nodes"`
	Sessions       int      `json:"sessions"`
	TTLMs          millis   `json:"ttlMs"`
	RenewMs        millis   `json:"renewMs"`
	RenewTimeoutMs millis   `json:"renewTimeoutMs"`
	HeartbeatMs    millis   `json:"heartbeatMs"`
	DiscoveryMs    millis   `json:"discoveryMs"`
	PollMs         millis   `json:"pollMs"`
	PollTimeoutMs  millis   `json:"pollTimeoutMs"`
	ServeMs        millis   `json:"serveMs"`
	DurationMs     millis   `json:"durationMs"`
	Speed          float64  `json:"speed,omitempty"`
	Tap            bool     `json:"tap"`
	Followed       bool     `json:"followed,omitempty"`
	Counted        bool     `json:"counted,omitempty"`
	Interrupted    bool     `json:"interrupted"`
	Foreign        bool     `json:"foreign"`
	Scenario       string   `json:"scenario,omitempty"`
	Redis          string   `json:"redis,omitempty"`
	Criteria       []string `json:"criteria,omitempty"`
	Least          int      `json:"minExercised,omitempty"`
}

// millis is a duration that JSON holds in milliseconds, with a fraction only if needed.
type millis time.Duration

func (m millis) MarshalJSON() ([]byte, error) {
	if d := time.Duration(m); d%time.Millisecond == 0 {
		return json.Marshal(d.Milliseconds())
	}
	return json.Marshal(float64(m) / float64(time.Millisecond))
}

func (m *millis) UnmarshalJSON(data []byte) error {
	var f float64
	if err := json.Unmarshal(data, &f); err != nil {
		return fmt.Errorf("a time in milliseconds: %w", err)
	}
	ns := math.Round(f * float64(time.Millisecond))
	if math.Abs(ns) > math.MaxInt64/2 {
		return fmt.Errorf("a time in milliseconds: %v is out of range", f)
	}
	*m = millis(ns)
	return nil
}

// MarshalJSON writes the config of report.json.
func (p Params) MarshalJSON() ([]byte, error) {
	return json.Marshal(paramsJSON{
		System: p.System, Topology: p.Topology, Replicas: p.Replicas, Tuners: p.Tuners, Nodes: p.Nodes, Sessions: p.Sessions,
		TTLMs: millis(p.TTL), RenewMs: millis(p.Renew), RenewTimeoutMs: millis(p.RenewTimeout), HeartbeatMs: millis(p.Heartbeat),
		DiscoveryMs: millis(p.Discovery), PollMs: millis(p.Poll), PollTimeoutMs: millis(p.PollTimeout), ServeMs: millis(p.Serve),
		DurationMs: millis(p.Duration), Speed: p.Speed, Tap: p.Tap, Followed: p.Followed, Counted: p.Counted,
		Interrupted: p.Interrupted, Foreign: p.Foreign,
		Scenario: p.Scenario, Redis: p.Redis, Criteria: p.Criteria, Least: p.Least,
	})
}

// UnmarshalJSON reads the config of report.json. It keeps Plan, and ignores unknown fields.
func (p *Params) UnmarshalJSON(data []byte) error {
	var j paramsJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*p = Params{
		System: j.System, Topology: j.Topology, Replicas: j.Replicas, Tuners: j.Tuners, Nodes: j.Nodes, Sessions: j.Sessions,
		Timings: timing.Timings{
			TTL: time.Duration(j.TTLMs), Renew: time.Duration(j.RenewMs), RenewTimeout: time.Duration(j.RenewTimeoutMs),
			Heartbeat: time.Duration(j.HeartbeatMs), Discovery: time.Duration(j.DiscoveryMs), Poll: time.Duration(j.PollMs),
			PollTimeout: time.Duration(j.PollTimeoutMs), Serve: time.Duration(j.ServeMs),
		},
		Duration: time.Duration(j.DurationMs), Speed: j.Speed, Plan: p.Plan, Tap: j.Tap, Followed: j.Followed, Counted: j.Counted,
		Interrupted: j.Interrupted, Foreign: j.Foreign, Scenario: j.Scenario, Redis: j.Redis, Criteria: j.Criteria, Least: j.Least,
	}
	return nil
}

// Allowances of the guarantees. The speed of a run does not divide them.
const (
	failoverAllowance = 250 * time.Millisecond // G5, G8, G9, G13: noticing and taking over
	handoverAllowance = 100 * time.Millisecond // G8: a graceful handover
	appearAllowance   = time.Second            // G8: a session that appears
	stampAllowance    = 5 * time.Millisecond   // G4: between a check and the stamp of its consequence
)

// settle returns how long after a change the fleet must be balanced (G6). Discoveries may be far more frequent than repeated attempts,
// which wait for a quarter of a renewal interval, and than the turns of waiting instances.
func (p Params) settle() int64 { return max(int64(p.Discovery)*12/10, p.takeOver()) }

// settleSessions is the same for a change of the sessions, which instances see at their next discovery.
func (p Params) settleSessions() int64 {
	return int64(p.Discovery) + max(int64(p.Discovery), p.takeOver())
}

// takeOver returns how long it takes to acquire a free or requested lease if the first attempts failed.
func (p Params) takeOver() int64 { return int64(p.Renew/4 + failoverAllowance) }

// probe returns the longest pause between two probes of an instance that Redis does not answer.
func (p Params) probe() int64 { return max(int64(p.Renew)/20, int64(10*time.Millisecond)) }

// startDelay returns the longest delay before a new instance takes part. Only elections have one.
func (p Params) startDelay() int64 {
	if p.System != SystemElection {
		return 0
	}
	return int64(p.TTL) / 3
}

// electionInterval returns the time between two reads of the leader key by a follower, and between two failed attempts.
func (p Params) electionInterval() int64 { return int64(p.TTL) / 2 }

// clockWithin returns how soon an undisturbed instance hears of a new clock of Redis: by a renewal, a heartbeat or a new connection. On a
// cluster, a follower of an election has none of these and asks only at the end of the lease that it waits for.
func (p Params) clockWithin() int64 {
	if p.System == SystemElection && p.Topology == TopologyCluster {
		return int64(p.TTL)
	}
	return int64(p.Renew)
}

// margin returns how much earlier than its lease a trust window ends, for the error of the clock rate: 1 % of the TTL, at least 5 ms.
func (p Params) margin() int64 { return max(int64(p.TTL)/100, int64(5*time.Millisecond)) }

// eventAllowance is the largest distance between a node's event and its effect in Redis' stream.
const eventAllowance = int64(250 * time.Millisecond)

// expirySlack is how much earlier than shown a key may expire: rounding, and the offset of the clocks.
const expirySlack = int64(20 * time.Millisecond)

// snapshotReason marks the leases that Redis held when the tap opened. They are no grants of that moment.
const snapshotReason = "snapshot"

// thawGrace is the time after a thaw within which a process must notice an overdue event.
const thawGrace = int64(100 * time.Millisecond)

const never = int64(math.MaxInt64)

// clockStep is the resolution of Redis' clock, which counts milliseconds.
const clockStep = int64(time.Millisecond)

// blur returns how late an event of Redis may be shown: its stream is read as it comes. In virtual time nothing is late.
func (p Params) blur() int64 {
	if p.Redis == "model" {
		return 0
	}
	return eventAllowance
}
