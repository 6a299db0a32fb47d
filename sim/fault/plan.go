// Package fault holds the faults of a storm as data: a plan says what breaks when, before anything runs, so that a run
// can be repeated, judged, shrunk and moved to another engine. The package knows no engine.
package fault

import "time"

// Kind names a fault, as it is written in plans, scenario files and after --faults.
type Kind string

// Faults of processes. Target is a node slot (NodeTarget(3), "node-3", counted from 1).
const (
	Crash     Kind = "crash"      // SIGKILL; started again after For (0: stays dead)
	Terminate Kind = "terminate"  // SIGTERM, a clean stop; started again after For
	CrashAll  Kind = "crash-all"  // SIGKILL to every node at once; all started again after For
	Freeze    Kind = "freeze"     // SIGSTOP for For, then SIGCONT
	CheckSend Kind = "check-send" // freeze exactly between a poll's check and its send, thawed once the lease passed on
	Join      Kind = "join"       // a new node is started
	Leave     Kind = "leave"      // SIGTERM for good
)

// Faults of the network between one node (Target) and Redis, healed after For.
const (
	Cut          Kind = "cut"           // connections reset, new ones refused
	BlackHole    Kind = "blackhole"     // both ways: bytes are held back and arrive late on healing
	RequestsLost Kind = "requests-lost" // held back from node to Redis only
	RepliesLost  Kind = "replies-lost"  // held back from Redis to node only: commands are executed, answers are not seen
	Latency      Kind = "latency"       // Ms ± JitterMs each way
	Bandwidth    Kind = "bandwidth"     // KBps
	Fragments    Kind = "fragments"     // every answer and request torn into small pieces
	Flapping     Kind = "flapping"      // cut and healed every Ms
)

// Faults of Redis. Target is "redis".
const (
	RedisOutage  Kind = "redis-outage"      // killed, back with its data after For
	RedisRestart Kind = "redis-restart"     // restarted at once with its data
	RedisWipe    Kind = "redis-wipe"        // killed, back empty after For (the application puts sessions back)
	RedisFlush   Kind = "redis-flush"       // FLUSHALL (sessions are put back)
	RedisFreeze  Kind = "redis-freeze"      // SIGSTOP for For
	RedisSlow    Kind = "redis-slow-script" // a script that blocks Redis for Ms
	RedisLoading Kind = "redis-loading"     // restarted so that it answers -LOADING for about Ms
	ScriptFlush  Kind = "script-flush"      // SCRIPT FLUSH
	ClientKill   Kind = "client-kill"       // CLIENT KILL of all normal and pubsub connections
	KeyDelete    Kind = "key-delete"        // the lease key of session Target ("session-7") deleted by a foreign hand
	BeatStale    Kind = "heartbeat-stale"   // a foreign hand holds the heartbeat of node Target at a time long past for For
)

// Faults in which Redis answers reads and refuses writes for For, in its own words. Target is "redis".
const (
	RedisReadOnly   Kind = "redis-readonly"   // -READONLY: it follows another server
	RedisMemory     Kind = "redis-oom"        // -OOM: no memory is left; what needs none is written
	RedisNoPerm     Kind = "redis-noperm"     // -NOPERM: the ACL of the nodes' user lacks what Deny names
	RedisNoReplicas Kind = "redis-noreplicas" // -NOREPLICAS: fewer replicas are attached than it wants
	RedisMisconf    Kind = "redis-misconf"    // -MISCONF: it cannot save its data
)

// What RedisNoPerm takes away (Fault.Deny).
const (
	DenyFences = "fences" // the keys of the fences: every script that grants, extends or ends a lease is refused before it runs
	DenyLeases = "leases" // the keys of the leases: so are these, and those that read who holds one
	DenySet    = "set"    // the command SET: a script is refused in its middle, and what it did before stays
)

// denials are the values of Fault.Deny, in the order in which seeds draw them.
var denials = []string{DenyFences, DenyLeases, DenySet}

// Faults of the workload. Target is a session (SessionTarget(7), "session-7": the 7th created, counted from 1) or "" for
// the harness's choice.
const (
	SessionAdd    Kind = "session-add"    // Ms new sessions appear (at least 1)
	SessionRemove Kind = "session-remove" // it disappears
	SessionPause  Kind = "session-pause"  // isPaused for For
	PollSlow      Kind = "poll-slow"      // the target serves it in Ms for For
	PollHang      Kind = "poll-hang"      // the target does not answer it for For
)

// Faults that other engines or later versions have. Named by hand on the real engine, each is refused with its reason.
const (
	ClockStep     Kind = "clock-step"
	ClockDrift    Kind = "clock-drift"
	Suspend       Kind = "suspend"
	Duplicate     Kind = "duplicate-replies"
	Reorder       Kind = "reorder-replies"
	RedisFailover Kind = "redis-failover"
	RedisSentinel Kind = "redis-sentinel"
	RedisCluster  Kind = "redis-cluster"
)

// Fault is one thing that breaks.
type Fault struct {
	At     time.Duration // after the start of the storm
	Kind   Kind
	Target string        // "node-3", "owner" (see Owner), "redis", "session-7", or ""
	For    time.Duration // until it is healed; 0 for instant faults
	Ms     int64         // the kind's own amount in milliseconds (or count for session-add)
	Jitter int64         // milliseconds, latency only
	KBps   int64         // bandwidth only
	Deny   string        // redis-noperm only: DenyFences, DenyLeases or DenySet
	Lone   bool          // drawn so that nothing else overlaps it and its aftermath
}

// AmountsAt returns f with those of its amounts that are times divided by speed. What was given stays given: a millisecond at
// least.
func (f Fault) AmountsAt(speed float64) Fault {
	div := func(ms int64) int64 {
		if ms > lengthMax.Milliseconds() {
			return ms // it is refused as it was given
		}
		return max(min(ms, 1), int64(float64(ms)/speed))
	}
	switch f.Kind {
	case SessionAdd, ClockDrift: // sessions, parts per million
	case ClockStep: // its Jitter is a direction
		f.Ms = div(f.Ms)
	default:
		f.Ms, f.Jitter = div(f.Ms), div(f.Jitter)
	}
	return f
}

// Plan is a storm's faults in order of At.
type Plan struct {
	Version int    // of the format
	Seed    uint64 // the plan was drawn from it; 0: written by hand
	Faults  []Fault
}
