package check

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/timing"
)

// Params is what a run was: all that the judge must know beside the history to judge it, again and again. Its JSON form
// is the "config" of report.json (times in milliseconds) without the plan, which stands there as "faults".
type Params struct {
	System   string // what the nodes share: SystemPolling if empty
	Nodes    int    // at the start
	Sessions int    // at the start

	timing.Timings

	Duration time.Duration // storm and calm
	Speed    float64       // what the default timings were divided by; 0: not known

	Plan fault.Plan

	Topology string // of Redis: TopologySentinel; else it is one server
	Replicas int    // that Redis has, as the instances know it

	Tuners int // slots that the workers of intents share; 0 in other systems

	Tap         bool     // what Redis did was recorded
	Followed    bool     // of several servers: what was acknowledged was too, and whom each process was led to
	Counted     bool     // how many commands the nodes sent was recorded
	Interrupted bool     // the run was ended from outside before its time
	Foreign     bool     // the nodes are another program, known by the node protocol only
	Scenario    string   // its name
	Redis       string   // kind of Redis: server, embedded, url, …
	Criteria    []string // guarantees that decide the verdict; empty: Decides
	Least       int      // times that each of them must have been exercised for a pass
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

// millis is a duration in JSON: milliseconds, with a fraction only where there is one.
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

// UnmarshalJSON reads the config of report.json; Plan is left as it is. Unknown fields are ignored.
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

// Allowances of the guarantees: never divided by the speed of a run.
const (
	failoverAllowance = 250 * time.Millisecond // G5, G8, G9, G13: noticing and taking over
	handoverAllowance = 100 * time.Millisecond // G8: a graceful handover
	appearAllowance   = time.Second            // G8: a session that appears
	stampAllowance    = 5 * time.Millisecond   // G4: between a check and the stamp of what follows it
)

// settle is how long after a change of the fleet it must be balanced (G6). Looks may be far more frequent than repeated attempts, which
// wait for a quarter of a renewal interval, and than the turns of waiting instances.
func (p Params) settle() int64 { return max(int64(p.Discovery)*12/10, p.takeOver()) }

// settleSessions is the same after a change of the sessions, which is seen at the next look.
func (p Params) settleSessions() int64 {
	return int64(p.Discovery) + max(int64(p.Discovery), p.takeOver())
}

// takeOver is how long it takes to have what was seen to be free, or asked for, where the first attempts failed.
func (p Params) takeOver() int64 { return int64(p.Renew/4 + failoverAllowance) }

// probe is the longest pause between two questions of an instance that Redis does not answer.
func (p Params) probe() int64 { return max(int64(p.Renew)/20, int64(10*time.Millisecond)) }

// startDelay is the longest that an instance waits before it takes part: members of an election do.
func (p Params) startDelay() int64 {
	if p.System != SystemElection {
		return 0
	}
	return int64(p.TTL) / 3
}

// electionInterval is the time between two looks of a follower at the leader key, and between two attempts that are in vain.
func (p Params) electionInterval() int64 { return int64(p.TTL) / 2 }

// clockWithin is how soon an undisturbed instance hears that Redis' clock is another: by a renewal, a heartbeat or a new connection. A
// follower of an election has no renewals or heartbeats, and on a cluster nobody ends its connections: it asks when the lease that it waits
// for should end.
func (p Params) clockWithin() int64 {
	if p.System == SystemElection && p.Topology == TopologyCluster {
		return int64(p.TTL)
	}
	return int64(p.Renew)
}

// margin is what a trust window ends before its lease (error of clock rate, docs/guarantees.md): 1 % of the TTL, at least 5 ms.
func (p Params) margin() int64 { return max(int64(p.TTL)/100, int64(5*time.Millisecond)) }
