package fault

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

func init() {
	for i := range table {
		order, rows[table[i].kind] = append(order, table[i].kind), &table[i]
	}
}
