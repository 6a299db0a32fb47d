package fault

import (
	"slices"
	"time"
)

// Kind names a fault in plans, scenario files and --faults.
type Kind string

// Faults of processes. Target is a node slot ("node-3", NodeTarget(3)).
const (
	Crash     Kind = "crash"      // SIGKILL; restarted after For (0: never)
	Terminate Kind = "terminate"  // SIGTERM, a clean stop; restarted after For
	CrashAll  Kind = "crash-all"  // SIGKILL to every node at once; all restarted after For
	Freeze    Kind = "freeze"     // SIGSTOP for For, then SIGCONT
	CheckSend Kind = "check-send" // freeze between a poll's check and its send; thawed once the lease has another owner
	Join      Kind = "join"       // a new node starts
	Leave     Kind = "leave"      // SIGTERM for good
)

// Faults of the network between one node (Target) and Redis. They heal after For.
const (
	Cut          Kind = "cut"           // connections reset, new ones refused
	BlackHole    Kind = "blackhole"     // both ways: messages are held back until it heals
	RequestsLost Kind = "requests-lost" // held back from node to Redis only
	RepliesLost  Kind = "replies-lost"  // held back from Redis to node only: Redis executes commands, but the node gets no answers
	Latency      Kind = "latency"       // Ms ± JitterMs each way
	Bandwidth    Kind = "bandwidth"     // KBps
	Fragments    Kind = "fragments"     // every answer and request torn into small pieces
	Flapping     Kind = "flapping"      // cut and healed every Ms
)

// Faults of Redis. Target is "redis".
const (
	RedisOutage  Kind = "redis-outage"      // killed, restarted with its data after For
	RedisRestart Kind = "redis-restart"     // restarted at once with its data
	RedisWipe    Kind = "redis-wipe"        // killed, restarted empty after For (the application restores the sessions)
	RedisFlush   Kind = "redis-flush"       // FLUSHALL (the application restores the sessions)
	RedisFreeze  Kind = "redis-freeze"      // SIGSTOP for For
	RedisSlow    Kind = "redis-slow-script" // a script that blocks Redis for Ms
	RedisLoading Kind = "redis-loading"     // restarted, and then answers -LOADING for about Ms
	ScriptFlush  Kind = "script-flush"      // SCRIPT FLUSH
	ClientKill   Kind = "client-kill"       // CLIENT KILL of all normal and pubsub connections
	KeyDelete    Kind = "key-delete"        // deletes the lease key of session Target
	BeatStale    Kind = "heartbeat-stale"   // sets the heartbeat of node Target to an old time again and again, for For
)

// Faults in which Redis answers reads and refuses writes for For. Target is "redis".
const (
	RedisReadOnly   Kind = "redis-readonly"   // -READONLY: it follows another server
	RedisMemory     Kind = "redis-oom"        // -OOM: out of memory; writes that need no memory succeed
	RedisNoPerm     Kind = "redis-noperm"     // -NOPERM: the ACL of the nodes' user denies Deny
	RedisNoReplicas Kind = "redis-noreplicas" // -NOREPLICAS: fewer replicas are attached than Redis requires
	RedisMisconf    Kind = "redis-misconf"    // -MISCONF: it cannot save its data
)

// Faults of the workload. Target is a session ("session-7", SessionTarget(7)), or "" for a random one.
const (
	SessionAdd    Kind = "session-add"    // Ms new sessions (at least 1)
	SessionRemove Kind = "session-remove" // the session disappears
	SessionPause  Kind = "session-pause"  // isPaused for For
	PollSlow      Kind = "poll-slow"      // the target takes Ms to serve the session, for For
	PollHang      Kind = "poll-hang"      // the target does not answer polls of the session, for For
)

// Faults of other engines or later versions. The real engine refuses each with a reason.
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

// Faults of a Redis with replicas (--topology sentinel or cluster). They take no target, because the engine chooses the server.
const (
	MasterCut     Kind = "master-cut"     // the master is cut off from replicas and sentinels, but not from all clients
	Failover      Kind = "failover"       // an operator's failover (SENTINEL FAILOVER)
	FailoverTwice Kind = "failover-twice" // a second failover Ms after the first
	ReplicaCut    Kind = "replica-cut"    // a replica is cut off from the other servers and the sentinels
	ReplicaFlip   Kind = "replica-flip"   // a replica follows another master, old or new, for For
	ReplicaLag    Kind = "replica-lag"    // messages to and from a replica are Ms late
	ReplicaWipe   Kind = "replica-wipe"   // a replica is killed, and restarted empty after For
	ReplicaDump   Kind = "replica-dump"   // a replica saves its data, is killed after For, and restarts with the saved data
)

// Faults of a Redis Cluster (--topology cluster).
const (
	ShardDown Kind = "shard-down" // all servers of the leases' shard are killed, and restarted with their data after For
	SlotMoved Kind = "slot-moved" // the leases' slot moves to another shard, key by key, once the shard is well within For
)

// row defines a kind: its valid faults, its effects, and how storms draw it. The zero value of a column is the common case.
type row struct {
	kind    Kind
	scope   Scope
	takes   takes
	does    Effect
	refuses Refusal
	cluster bool   // only a Redis Cluster has it
	notReal string // why the real engine refuses it; "": it does not. The virtual engine supports every kind with a scope

	usual   int                   // rank in DefaultKinds; 0: only if named
	first   int                   // rank among the kinds that hit alone before all others (drawer.lone); 0: none
	spare   int                   // rank among the firsts that a short storm omits, 1 first; 0: after those
	lone    lone                  // nil: moment
	mixed   mixed                 // nil: passing
	amounts func(*drawer, *Fault) // nil: none
	unit    string                // unit of Ms in print; "": ms
	ways    [2]string             // meanings of a zero and a nonzero Jitter; none: Jitter varies Ms
	room    func(*drawer) bool    // whether it may hit now; nil: by scope (drawer.fits)
}

// takes are the parameters of a kind besides time and target.
type takes uint16

const (
	takesFor  takes = 1 << iota // heals after For, which must be positive
	mayFor                      // For is optional; 0: for good
	takesMs                     // Ms must be positive
	lastsMs                     // lasts for Ms
	counts                      // Ms and Jitter are no times
	direction                   // Jitter is a direction, no time
	takesKBps                   // KBps must be positive
	takesDeny                   // Deny must be given
)

// lone returns how long a lone fault lasts, and how long no fault, or in a tight storm no delaying fault, may follow.
type lone func(d *drawer, tight bool) (dur, tail time.Duration)

// mixed returns how long an overlapping fault lasts, from a brief and a long draw, and for how long its target gets no other fault.
type mixed func(d *drawer, brief, long time.Duration) (dur, effect time.Duration)

const (
	onlyVirtual = "it needs the virtual engine (--engine virtual)"
	laterIssue  = "a later version brings it; --topology sentinel has replicas, sentinels and faults of them"
	modelOnly   = "the virtual engine has it (--engine virtual); real servers have failover (--topology sentinel)"
)

// table lists every kind once, in display order. Seeds draw in this order, so append new kinds.
//
// Kinds that a guarantee needs come first: changes of the fleet (G7 needs a quiet TTL around each), then silent owners, then Redis, whose
// quarantines delay every later change. They exercise: session-add G8; join G6, G7, G8, G11; leave also G13; crash G5; check-send G2;
// black hole G4; the three losses of Redis G9. Other kinds also exercise the guarantees of the spare ones. Kinds are not usual if they
// involve the harness in the verdict (key-delete), leave no fleet to judge (crash-all), or cause rare states of Redis.
var table = []row{
	{kind: Crash, scope: ScopeNode, takes: mayFor, does: Kills | Instant, usual: 3, first: 4, lone: crashing, mixed: comingBack},
	{kind: Terminate, scope: ScopeNode, takes: mayFor, does: Stops | Instant, usual: 10, lone: restarting, mixed: comingBack},
	{kind: CrashAll, scope: ScopeNone, takes: mayFor, does: Kills | Instant, lone: restarting, mixed: comingBack},
	{kind: Freeze, scope: ScopeNode, takes: takesFor, does: Freezes, usual: 11, lone: silent, mixed: silence},
	{
		kind: CheckSend, scope: ScopeNode, does: Freezes,
		usual: 4, first: 5, spare: 5, lone: checkSend, mixed: stopping, room: roomToOutlast,
	},
	{kind: Join, scope: ScopeNode, does: Starts | Instant, usual: 1, first: 2, spare: 7, lone: changing, room: roomToJoin},
	{kind: Leave, scope: ScopeNode, does: Stops | Instant, usual: 2, first: 3, spare: 6, lone: changing, room: roomToLeave},

	{kind: Cut, scope: ScopeNode, takes: takesFor, does: Partitions, usual: 12, lone: silent, mixed: silence},
	{kind: BlackHole, scope: ScopeNode, takes: takesFor, does: Partitions, usual: 5, first: 6, spare: 3, lone: silent, mixed: silence},
	{kind: RequestsLost, scope: ScopeNode, takes: takesFor, does: Partitions, usual: 13, lone: silent, mixed: silence},
	{kind: RepliesLost, scope: ScopeNode, takes: takesFor, does: Partitions, usual: 14, lone: silent, mixed: silence},
	{
		kind: Latency, scope: ScopeNode, takes: takesFor | takesMs, does: Degrades | Lingers,
		usual: 15, lone: slow, mixed: lasting, amounts: delaying,
	},
	{kind: Bandwidth, scope: ScopeNode, takes: takesFor | takesKBps, does: Degrades, lone: slow, mixed: lasting, amounts: narrowing},
	{kind: Fragments, scope: ScopeNode, takes: takesFor, does: Degrades, usual: 16, lone: slow, mixed: lasting},
	{
		kind: Flapping, scope: ScopeNode, takes: takesFor | takesMs, does: Degrades,
		usual: 17, lone: silent, mixed: lasting, amounts: flapping,
	},

	{
		kind: RedisOutage, scope: ScopeRedis, takes: takesFor, does: Denies | Forgets,
		usual: 7, first: 7, spare: 4, lone: losing, mixed: loss,
	},
	{kind: RedisRestart, scope: ScopeRedis, does: Denies | Forgets, mixed: forgetting},
	{kind: RedisWipe, scope: ScopeRedis, takes: mayFor, does: Denies | Forgets, usual: 8, first: 8, spare: 8, lone: losing, mixed: loss},
	{
		kind: RedisFlush, scope: ScopeRedis, does: Denies | Forgets | Instant,
		usual: 9, first: 9, spare: 2, lone: flushing, mixed: forgetting,
	},
	{kind: RedisFreeze, scope: ScopeRedis, takes: takesFor, does: Denies, usual: 20, lone: freezingRedis, mixed: refusing},
	{kind: RedisSlow, scope: ScopeRedis, takes: takesMs | lastsMs, does: Denies, lone: renewing, amounts: blocking},
	{kind: RedisLoading, scope: ScopeRedis, takes: takesMs | lastsMs, does: Denies | Forgets, mixed: forgetting, amounts: loadingFor},
	{
		kind: RedisReadOnly, scope: ScopeRedis, takes: takesFor, does: Denies, refuses: RefusesAll,
		usual: 24, lone: refused, mixed: refusing,
	},

	{kind: ScriptFlush, scope: ScopeRedis, does: Aside | Instant, usual: 18, lone: renewing},
	{kind: ClientKill, scope: ScopeRedis, does: Disconnects | Instant, usual: 19, lone: renewing},
	{kind: KeyDelete, scope: ScopeSession, does: Deletes | Instant, lone: renewing},

	{
		kind: SessionAdd, scope: ScopeSession, takes: counts, does: Alters | Instant,
		usual: 6, first: 1, spare: 1, lone: adding, amounts: added, room: roomForSessions, unit: " sessions",
	},
	{kind: SessionRemove, scope: ScopeSession, does: Alters | Instant, usual: 22, lone: pausing, room: roomToRemove},
	{kind: SessionPause, scope: ScopeSession, takes: takesFor, does: Alters, usual: 21, lone: pausing, mixed: lasting},
	{
		kind: PollSlow, scope: ScopeSession, takes: takesFor | takesMs, does: Holds | Aside,
		usual: 23, lone: polling, mixed: lasting, amounts: serving,
	},
	{kind: PollHang, scope: ScopeSession, takes: takesFor, does: Holds | Aside, lone: polling, mixed: lasting},

	{
		kind: ClockStep, scope: ScopeNode, takes: takesMs | direction, does: StepsClock, notReal: onlyVirtual, amounts: stepping,
		ways: [2]string{"forward", "back"},
	},
	{
		kind: ClockDrift, scope: ScopeNode, takes: takesFor | takesMs | counts, notReal: onlyVirtual,
		lone: slow, mixed: lasting, amounts: drifting, unit: " ppm", ways: [2]string{"fast", "slow"},
	},
	{kind: Suspend, scope: ScopeNode, takes: takesFor, does: Freezes | BlocksAcquire, notReal: onlyVirtual, lone: silent, mixed: silence},
	{kind: Duplicate, scope: ScopeNode, takes: takesFor, notReal: onlyVirtual, lone: slow, mixed: lasting},
	{
		kind: Reorder, scope: ScopeNode, takes: takesFor | takesMs, does: Degrades | Lingers, notReal: onlyVirtual,
		lone: slow, mixed: lasting, amounts: reordering,
	},
	{
		kind: RedisFailover, scope: ScopeRedis, takes: mayFor | takesMs, does: Denies | Forgets | FailsOver, notReal: modelOnly,
		lone: losing, mixed: loss, amounts: failingOver,
	},
	{kind: RedisSentinel, scope: ScopeElsewhere, notReal: laterIssue},
	{kind: RedisCluster, scope: ScopeElsewhere, notReal: laterIssue},

	{kind: RedisMemory, scope: ScopeRedis, takes: takesFor, does: Denies, refuses: RefusesSome, usual: 25, lone: refused, mixed: refusing},
	{kind: BeatStale, scope: ScopeNode, takes: takesFor},
	{
		kind: RedisNoPerm, scope: ScopeRedis, takes: takesFor | takesDeny, does: Denies, refuses: RefusesSome,
		usual: 26, lone: refused, mixed: refusing, amounts: denying,
	},
	{
		kind: RedisNoReplicas, scope: ScopeRedis, takes: takesFor, does: Denies, refuses: RefusesAll,
		usual: 27, lone: refused, mixed: refusing,
	},
	{kind: RedisMisconf, scope: ScopeRedis, takes: takesFor, does: Denies, refuses: RefusesAll, usual: 28, lone: refused, mixed: refusing},

	{
		kind: MasterCut, scope: ScopeServers, takes: takesFor, does: Denies | Forgets | FailsOver,
		lone: outliving, mixed: outlasting,
	},
	{kind: Failover, scope: ScopeServers, does: Denies | Forgets | FailsOver | Instant},
	{
		kind: FailoverTwice, scope: ScopeServers, takes: takesMs | lastsMs, does: Denies | Forgets | FailsOver,
		amounts: failingOverAgain,
	},
	{kind: ReplicaCut, scope: ScopeServers, takes: takesFor, does: Denies | Forgets, lone: silent, mixed: silence},
	{kind: ReplicaFlip, scope: ScopeServers, takes: takesFor, does: Denies | Forgets, lone: silent, mixed: silence},
	{
		kind: ReplicaLag, scope: ScopeServers, takes: takesFor | takesMs, does: Denies,
		lone: slow, mixed: lasting, amounts: lagging,
	},
	{kind: ReplicaWipe, scope: ScopeServers, takes: takesFor, does: Denies | Forgets, lone: losing, mixed: silence},
	{
		kind: ShardDown, scope: ScopeServers, takes: takesFor, does: Denies | Forgets, cluster: true,
		lone: losing, mixed: loss,
	},
	{
		kind: SlotMoved, scope: ScopeServers, takes: takesFor, does: Denies | Forgets | FailsOver, cluster: true,
		lone: outliving, mixed: outlasting,
	},
	{kind: ReplicaDump, scope: ScopeServers, takes: takesFor, does: Denies | Forgets, lone: losing, mixed: silence},
}

var order, rows = func() (order []Kind, rows map[Kind]*row) {
	rows = make(map[Kind]*row, len(table))
	for i := range table {
		order, rows[table[i].kind] = append(order, table[i].kind), &table[i]
	}
	return order, rows
}()

var unknown = row{scope: ScopeElsewhere}

func (k Kind) row() *row {
	if r := rows[k]; r != nil {
		return r
	}
	return &unknown
}

// ranked lists the kinds with a rank in a column, in order of rank.
func ranked(place func(*row) int) []Kind {
	ks := slices.DeleteFunc(slices.Clone(order), func(k Kind) bool { return place(k.row()) == 0 })
	slices.SortFunc(ks, func(a, b Kind) int { return place(a.row()) - place(b.row()) })
	return ks
}
