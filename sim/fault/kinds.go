package fault

import (
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Faults of a Redis with replicas (--topology sentinel or cluster). They take no target, because the engine chooses the server. In virtual
// time, MasterCut may name an owner that alone stays with the master.
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

// Scope is what a kind of fault hits. It determines the form of Target.
type Scope uint8

// The scopes.
const (
	ScopeNone      Scope = iota // no target: the whole fleet (crash-all)
	ScopeNode                   // Target is a node slot, NodeTarget(i)
	ScopeRedis                  // Target is "redis" or empty
	ScopeSession                // Target is a session, SessionTarget(i), or empty for the harness's choice
	ScopeServers                // no target, except of MasterCut: the engine chooses servers of a replicated Redis
	ScopeElsewhere              // a fault of another engine or a later version; the real engine never injects it
)

// Errors of this package. Their text has the given value and the allowed ones.
var (
	// ErrUnknownKind means that no fault has this name.
	ErrUnknownKind = errors.New("unknown fault")
	// ErrUnavailable means that this engine or version cannot inject the fault.
	ErrUnavailable = errors.New("fault not available")
	// ErrInvalid means that a fault contradicts itself, its kind or the run's size.
	ErrInvalid = errors.New("invalid fault")
	// ErrFormat means that a text is not a plan, or a plan of a version that this program cannot read.
	ErrFormat = errors.New("invalid plan")
)

// Refusal says which writes Redis refuses while it answers reads.
type Refusal uint8

// The refusals: of no, some or all writes.
const (
	RefusesNothing Refusal = iota
	RefusesSome
	RefusesAll
)

// Kinds returns the kinds that the real engine can inject, in a fixed order. The caller owns the slice.
func Kinds() []Kind { return kindsOf(false) }

// VirtualKinds returns the kinds that the virtual engine can inject, in a fixed order. The caller owns the slice.
func VirtualKinds() []Kind { return kindsOf(true) }

func kindsOf(virtual bool) []Kind {
	return slices.DeleteFunc(slices.Clone(order), func(k Kind) bool { return k.OfServers() || k.AvailableOn(virtual) != nil })
}

// ServerKinds returns the kinds that need a Redis with replicas, in a fixed order. The caller owns the slice.
func ServerKinds() []Kind {
	return slices.DeleteFunc(slices.Clone(order), func(k Kind) bool { return !k.OfServers() })
}

// OfServers reports whether the kind needs a Redis with replicas.
func (k Kind) OfServers() bool { return k.Scope() == ScopeServers }

// OfCluster reports whether the kind needs a Redis Cluster. It implies OfServers.
func (k Kind) OfCluster() bool { return k.row().cluster }

// Known reports whether any engine or version has the kind.
func (k Kind) Known() bool { return rows[k] != nil }

// Scope returns what the kind hits, ScopeElsewhere for an unknown kind.
func (k Kind) Scope() Scope { return k.row().scope }

// TakesMs reports whether the kind needs an amount (Fault.Ms).
func (k Kind) TakesMs() bool { return k.row().takes&takesMs != 0 }

// Refuses returns which writes Redis refuses during such a fault while it answers reads.
func (k Kind) Refuses() Refusal { return k.row().refuses }

// Available returns nil if the real engine has the kind. Otherwise it wraps ErrUnknownKind or, with the reason, ErrUnavailable.
func (k Kind) Available() error { return k.AvailableOn(false) }

// AvailableOn is like Available, but for the virtual engine if virtual is true.
func (k Kind) AvailableOn(virtual bool) error {
	switch r := k.row(); {
	case r == &unknown:
		return fmt.Errorf("%w %q: choose from %s", ErrUnknownKind, string(k), knownKinds())
	case r.notReal != "" && !(virtual && r.scope != ScopeElsewhere):
		return fmt.Errorf("%w: %q cannot be injected: %s", ErrUnavailable, string(k), r.notReal)
	}
	return nil
}

func knownKinds() string {
	only := slices.DeleteFunc(VirtualKinds(), func(k Kind) bool { return k.Available() == nil })
	several := slices.DeleteFunc(ServerKinds(), Kind.OfCluster)
	ofCluster := slices.DeleteFunc(ServerKinds(), func(k Kind) bool { return !k.OfCluster() })
	return joinKinds(Kinds()) + "; with --engine virtual also " + joinKinds(only) + "; with --topology sentinel also " +
		joinKinds(several) + "; with --topology cluster also those and " + joinKinds(ofCluster)
}

func joinKinds(ks []Kind) string {
	names := make([]string, len(ks))
	for i, k := range ks {
		names[i] = string(k)
	}
	return strings.Join(names, ", ")
}

// Unit returns the unit of such a fault's amount, and what a zero and a nonzero Jitter mean. If ways is empty, Jitter varies the amount.
func (k Kind) Unit() (unit string, ways [2]string) {
	r := k.row()
	if r.unit == "" {
		return "ms", r.ways
	}
	return r.unit, r.ways
}

// Effects returns all effects of the kind, 0 for an unknown kind.
func (k Kind) Effects() Effect { return k.row().does }

// Has reports whether the kind has at least one of the effects.
func (k Kind) Has(any Effect) bool { return k.row().does&any != 0 }

// Having returns the kinds of either engine that have at least one of the effects, in a fixed order. The caller owns the slice.
func Having(any Effect) (out []Kind) {
	for _, k := range order {
		if k.Has(any) {
			out = append(out, k)
		}
	}
	return out
}

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

// The rows of the table, and the kinds in its order.
var (
	rows    = map[Kind]*row{}
	order   []Kind
	unknown = row{scope: ScopeElsewhere}
)

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
