// Package history records a storm as one list of events on one clock: the nodes' messages, the grants of Redis, the work at the polled
// target, and the actions of the harness.
//
// Both engines write the history. The judge (sim/check) reads only the history and the nodes' logs. The package imports nothing of the
// tested library, so no error of that library can hide in the record.
package history

import "time"

// Kind is the kind of an event. Its text form (String) is the value of "ev" in history.jsonl, and never changes.
type Kind uint8

// The kinds, grouped by their witness. Comments name the fields of Event that a kind uses besides T.
const (
	// KindUnknown is a node's message that this version does not know: kept and shown, but never judged. Reason holds its name.
	KindUnknown Kind = iota

	// Messages of a node (docs/node-protocol.md). Node and Instance are always set.

	Ready         // the node takes part from now on. N: its protocol version; Reason: Asks, or nothing
	AcquireFailed // Session, Reason: an attempt to acquire was refused, failed or timed out
	Acquired      // Session, Fence, Until: the term begins, trusted until Until
	RenewStart    // Session, Fence: an attempt to renew is about to be sent
	Renewed       // Session, Fence, Until: the attempt succeeded
	RenewFailed   // Session, Fence, Reason: refused, failed or timed out; polling must stop
	Lost          // Session, Fence, Reason: the term ended without a release
	Released      // Session, Fence, Reason: the term was released
	PollStart     // Session, Fence: a poll begins
	PollCancelled // Session, Fence, Reason: the context of a running poll was cancelled
	PollEnd       // Session, Fence, Reason: the poll returned
	Paused        // Session, Fence: the node freezes itself between its check and its send
	Stopped       // the node has released everything and is about to exit

	// Events at the polled target, the independent witness. N is the arrival's number, which its Served or Aborted repeats.

	Arrived  // Session, Instance, Fence, N: a poll arrived and was accepted
	Rejected // Session, Instance, Fence, N, Reason: a poll with an older fence arrived and was refused
	Served   // Session, Instance, N: the accepted poll was answered
	Aborted  // Session, Instance, N: the client disconnected before the answer

	// Changes in Redis, read from its replication stream, outside the proxies.

	RedisGranted  // Session, Instance, Until: the lease key was set (Instance "": holder and end are unknown from here)
	RedisExtended // Session, Until: its expiry was moved (Instance: the holder as last set, "" if unknown)
	RedisDeleted  // Session: the key was released, expired or deleted by hand
	RedisFence    // Session, Fence: the lease's fence was set
	RedisBeat     // Instance, Until: a heartbeat was set or extended
	RedisBeatGone // Instance: a heartbeat was deleted or expired
	RedisFlushed  // all keys were deleted at once
	TapDown       // the view of Redis is lost from here (Reason: the server's later name in Node, with replicas)
	TapUp         // the view of Redis is complete from here (RedisGranted events with the existing leases follow)

	// Actions and observations of the harness.

	Phase          // Reason: "start" (T 0), "storm", "calm", "end"
	Spawned        // Node, N: a process was started with PID N
	Exited         // Node, N, Reason: the process ended (N: exit code, -1 by signal; Reason: "asked" if the plan ended it)
	FaultStart     // N: index in the plan; Reason: kind; Node, Session: the target, if any
	FaultEnd       // N, Reason, Node, Session as above: healed (instant faults have no end)
	SessionAdded   // Session
	SessionRemoved // Session
	SessionPaused  // Session
	SessionResumed // Session
	RedisDown      // the harness stopped Redis
	RedisUp        // Redis answers the harness again (Reason: "kept" or "empty", for its data)
	Stall          // Until: the harness' canary did not run from T to Until
	StreamLate     // Until: Redis' event times between T and Until are uncertain, because its stream was read late
	Malformed      // Node, Reason: an invalid line of a node (its first 200 bytes)
	Note           // Reason: a remark for readers

	// Additional messages of a node in an election: its state transitions, and the events that it publishes, in order.

	StateChanged       // Session, Fence (to or from LEADER), Reason: the two states, "FOLLOWER CANDIDATE"
	LeadershipAcquired // Session, Fence
	LeadershipLost     // Session, Fence, Reason
	ElectionFailed     // Session, Reason
	Leading            // Session, Fence (0: unknown), Reason: the instance that this node considers the leader from now on

	// Observations of clients of the intents API. N is the request's number. A start is identified by its content,
	// "service:profile:bucket", all others by their session.

	Asked    // N, Node: the slot of the API; Reason: "start", "stop" or "bad …"; Session: the content of a start, or the session to stop
	Answered // N, Node, Reason: the status ("202"), or "none …"; Session: the session given to a start
	Seen     // Session, Reason: its state, as the API reports it: "RUNNING", "ENDED R_STOPPED", "gone"

	// Changes of intents in Redis, read like leases. N is 1 for records that existed when the tap opened.

	RedisIntent  // Session, Reason: "start" or "stop": an event for the workers was published
	RedisKeyed   // Session, Reason: the idempotency key that returns the session from now on; Until
	RedisUnkeyed // Reason: the idempotency key that was deleted or expired
	RedisState   // Session, Reason: its record's state, as in Seen; Fence, Instance: fence and writer of the record

	// Traffic of the nodes to Redis. If a process sent nothing in a bucket (Bucket), there is no event.

	Commands // Node, N: number of commands that its process sent to Redis in the bucket that ends at T

	// Changes of the epoch of Redis' data, read like leases. N is 1 for an epoch that existed when the tap opened.

	RedisEpoch // Reason: the new value of the epoch key

	// Events with replicas. Node is empty for the master that the sentinels know, and the server's name for another server that may act
	// as a master.

	RedisAcked    // Node as above; Until: its writes until then are acknowledged by enough replicas
	RedisMajority // N: 1 if, from now on, the master that the sentinels know answers and enough replicas are attached; else 0
	RedisLife     // Reason: LifeSwitch, LifeRestart or LifeAttachment: why the epoch ended; the next script begins an epoch
	Routed        // Node, N: 1 if the process reaches the master that the sentinels know from now on, else 0

	kindCount
)

// Asks is the Reason of a Ready from a node that queries Redis before each use, and trusts no window.
const Asks = "asks before each use"

// Reasons of a RedisLife.
const (
	LifeSwitch     = "switch"     // the sentinels know another server as the master
	LifeRestart    = "restart"    // the server's process was replaced
	LifeAttachment = "attachment" // a replica attached itself
)

// Fell is the prefix of the Reason of an Exited if the engine ended the process, because the rules of that process panicked or
// looped.
const Fell = "fell: "

// Bucket returns the duration that Commands counts: a tenth of the renewal interval, at least 10 ms.
func Bucket(renew time.Duration) time.Duration { return max(renew/10, 10*time.Millisecond) }

// Event is one event. Fields that its kind does not use are zero.
type Event struct {
	T        int64 // ns since the run's start, on the clock of the harness
	Kind     Kind
	Node     string // slot ("node-3"), "" if none
	Instance string // instance ID, as the witness knows it
	Session  string
	Fence    int64 // 0: none
	Until    int64 // ns on the same clock as T; 0: none
	N        int64 // meaning depends on Kind
	Reason   string
}

var kindNames = [kindCount]string{
	KindUnknown: "unknown",
	Ready:       "ready", AcquireFailed: "acquireFailed", Acquired: "acquired",
	RenewStart: "renewStart", Renewed: "renewed", RenewFailed: "renewFailed",
	Lost: "lost", Released: "released", PollStart: "pollStart", PollCancelled: "pollCancelled", PollEnd: "pollEnd",
	Paused: "paused", Stopped: "stopped",
	Arrived: "arrived", Rejected: "rejected", Served: "served", Aborted: "aborted",
	RedisGranted: "redisGranted", RedisExtended: "redisExtended", RedisDeleted: "redisDeleted", RedisFence: "redisFence",
	RedisBeat: "redisBeat", RedisBeatGone: "redisBeatGone", RedisFlushed: "redisFlushed", TapDown: "tapDown", TapUp: "tapUp",
	Phase: "phase", Spawned: "spawned", Exited: "exited", FaultStart: "faultStart", FaultEnd: "faultEnd",
	SessionAdded: "sessionAdded", SessionRemoved: "sessionRemoved", SessionPaused: "sessionPaused",
	SessionResumed: "sessionResumed", RedisDown: "redisDown", RedisUp: "redisUp", Stall: "stall", StreamLate: "streamLate",
	Malformed: "malformed", Note: "note",
	StateChanged: "stateChanged", LeadershipAcquired: "leadershipAcquired", LeadershipLost: "leadershipLost",
	ElectionFailed: "electionFailed", Leading: "leading",
	Asked: "asked", Answered: "answered", Seen: "seen",
	RedisIntent: "redisIntent", RedisKeyed: "redisKeyed", RedisUnkeyed: "redisUnkeyed", RedisState: "redisState",
	Commands: "commands", RedisEpoch: "redisEpoch",
	RedisAcked: "redisAcked", RedisMajority: "redisMajority", RedisLife: "redisLife", Routed: "routed",
}

// Said reports whether the kind is a message of a node.
func (k Kind) Said() bool { return k >= Ready && k <= Stopped || k >= StateChanged && k <= Leading }

// Words returns the kinds that are messages of nodes, in order.
func Words() (words []Kind) {
	for k := range kindCount {
		if k.Said() {
			words = append(words, k)
		}
	}
	return words
}

// OfRedis reports whether the kind is a change of leases, heartbeats or the epoch, as a Redis server's stream shows.
func (k Kind) OfRedis() bool { return k >= RedisGranted && k <= TapUp || k == RedisEpoch }

// OfRecords reports whether the kind is a change of intents' records in Redis, besides their leases.
func (k Kind) OfRecords() bool { return k >= RedisIntent && k <= RedisState }

// Aside reports whether the event belongs to a server other than the master that the sentinels know.
func (e *Event) Aside() bool {
	return e.Node != "" && (e.Kind.OfRedis() || e.Kind.OfRecords() || e.Kind == RedisAcked)
}

// String returns the kind's name in history.jsonl.
func (k Kind) String() string {
	if k >= kindCount {
		return kindNames[KindUnknown]
	}
	return kindNames[k]
}

var kindByName = func() map[string]Kind {
	m := make(map[string]Kind, kindCount)
	for k, name := range kindNames {
		m[name] = Kind(k)
	}
	return m
}()

// ParseKind returns the kind with that name, or KindUnknown and false.
func ParseKind(name string) (Kind, bool) {
	k, ok := kindByName[name]
	return k, ok
}
