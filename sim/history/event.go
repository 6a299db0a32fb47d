// Package history is the record of a storm: what each node said it believed, what Redis granted, when work really
// happened at the polled target, and what the harness did to them, as one list of events on one clock.
//
// Both engines write it; the judge (sim/check) reads nothing else but it and the nodes' logs. It imports nothing of the
// accused, so that a mistake in the library cannot hide itself in the record.
package history

import "time"

// Kind says what happened. The text form of a kind (String) is what stands in history.jsonl under "ev" and never changes.
type Kind uint8

// The kinds, grouped by who witnessed them. Each comment names the fields of Event that carry meaning beside T.
const (
	// KindUnknown is a node's word this version does not know: kept and shown, never judged. Reason holds the word.
	KindUnknown Kind = iota

	// What a node says (docs/node-protocol.md). Node and Instance are always set.

	Ready         // the node takes part from now on. N: the version of the protocol that it speaks; Reason: Asks, or nothing
	AcquireFailed // Session, Reason: an attempt to acquire was refused, failed or was not answered in time
	Acquired      // Session, Fence, Until: the term begins, trusted until Until
	RenewStart    // Session, Fence: an attempt to renew is about to be sent
	Renewed       // Session, Fence, Until: the attempt succeeded
	RenewFailed   // Session, Fence, Reason: refused, failed or unanswered in time: polling must stop
	Lost          // Session, Fence, Reason: the term is over without a release
	Released      // Session, Fence, Reason: the term was given back
	PollStart     // Session, Fence: a poll begins
	PollCancelled // Session, Fence, Reason: a running poll's context was ended
	PollEnd       // Session, Fence, Reason: the poll returned
	Paused        // Session, Fence: the node stops itself between its check and its send
	Stopped       // the node has released everything and is about to exit

	// What the polled target saw: the independent witness. N is the arrival's own number, shared by its Served or Aborted.

	Arrived  // Session, Instance, Fence, N: a poll arrived and was accepted
	Rejected // Session, Instance, Fence, N, Reason: a poll arrived with an older fence and was refused
	Served   // Session, Instance, N: the accepted poll was answered
	Aborted  // Session, Instance, N: the client went away before the answer

	// What Redis did, read from its replication stream, outside the proxies.

	RedisGranted  // Session, Instance, Until: the lease key was set (Instance "": what it holds from here, and until when, is unknown)
	RedisExtended // Session, Until: its expiry was moved (Instance: the holder as last set, "" if unknown)
	RedisDeleted  // Session: the key went (released, expired or deleted by hand)
	RedisFence    // Session, Fence: the lease's fence was set
	RedisBeat     // Instance, Until: a heartbeat was set or extended
	RedisBeatGone // Instance: a heartbeat was deleted or expired
	RedisFlushed  // all keys went at once
	TapDown       // what Redis grants is unknown from here (Reason: under which name it is read on, of a Redis with replicas)
	TapUp         // what Redis grants is known again from here (a snapshot of the leases follows as RedisGranted)

	// What the harness did and saw.

	Phase          // Reason: "start" (T 0), "storm", "calm", "end"
	Spawned        // Node, N: a process was started with PID N
	Exited         // Node, N, Reason: the process ended (N: exit code, -1 by signal; Reason "asked" if the plan did it)
	FaultStart     // N: index in the plan; Reason: kind; Node, Session: the target, if it is one
	FaultEnd       // N, Reason, Node, Session as above: healed (instant faults have none)
	SessionAdded   // Session
	SessionRemoved // Session
	SessionPaused  // Session
	SessionResumed // Session
	RedisDown      // Redis stopped answering by the harness's doing
	RedisUp        // Redis answers the harness again (Reason: "kept" or "empty": what it remembers)
	Stall          // Until: the harness's own canary was not scheduled from T to Until
	StreamLate     // Until: when Redis did what it did between T and Until is known no better, because its stream was read late
	Malformed      // Node, Reason: a line of a node that is no protocol line (its first 200 bytes)
	Note           // Reason: anything a reader should know

	// What a node of an election says beside: each transition and the events that its listeners are told, in their order.

	StateChanged       // Session, Fence (to or from LEADER), Reason: the two states, "FOLLOWER CANDIDATE"
	LeadershipAcquired // Session, Fence
	LeadershipLost     // Session, Fence, Reason
	ElectionFailed     // Session, Reason
	Leading            // Session, Fence (0: not known), Reason: the instance that this node takes for the leader from now on

	// What clients of the intents API saw. N is the request's own number. A start is known by what it asks for,
	// "service:profile:bucket", everything else by its session.

	Asked    // N, Node: the slot asked; Reason: "start", "stop" or "bad …"; Session: what is asked for, or to be stopped
	Answered // N, Node, Reason: the status ("202"), or "none …"; Session: the session that a start was given
	Seen     // Session, Reason: its state as the API told it: "RUNNING", "ENDED R_STOPPED", "gone"

	// What Redis did for intents, read as above. N is 1 for what stood there when the tap opened.

	RedisIntent  // Session, Reason: "start" or "stop": an event for the workers was published
	RedisKeyed   // Session, Reason: the idempotency key answers with that session from now on; Until
	RedisUnkeyed // Reason: the idempotency key went
	RedisState   // Session, Reason: its record's state, as with Seen; Fence: under which it was written, Instance: by whom

	// What the nodes' ways to Redis saw. A process that sent nothing in a bucket (Bucket) is not told of.

	Commands // Node, N: so many commands did its process send towards Redis in the bucket that ends at T

	// What Redis did to the epoch of its data, read as leases are. N is 1 for what stood there when the tap opened.

	RedisEpoch // Reason: the epoch key was set to that, which begins an epoch

	// Of a Redis with replicas. What is read of the master that the sentinels know has no Node, what is read of another that may act as
	// one has the server's name there.

	RedisAcked    // Node as above; Until: what it wrote by then was acknowledged by as many replicas as must
	RedisMajority // N: 1 from when on the master that the sentinels know answers and as many replicas are attached as must, 0 from when on not
	RedisLife     // Reason: LifeSwitch, LifeRestart or LifeAttachment: what ends the epoch at it, so that the next script begins one
	Routed        // Node: of a process; N: 1 from when on it was told of the master that sentinels know and can reach it, 0 from when on not

	kindCount
)

// Asks is the Reason of a Ready whose node asks Redis before each use instead of trusting a window.
const Asks = "asks before each use"

// Reasons of a RedisLife.
const (
	LifeSwitch     = "switch"     // the sentinels know another server as the master
	LifeRestart    = "restart"    // its process is another
	LifeAttachment = "attachment" // a replica attached itself to it
)

// Fell begins the Reason of an Exited whose process the engine ended because its rules panicked, or went on without an end.
const Fell = "fell: "

// Bucket is how long the time is over which Commands sums up: a tenth of the renewal interval, at least 10 ms. Both engines
// count in it, and the judge expects it.
func Bucket(renew time.Duration) time.Duration { return max(renew/10, 10*time.Millisecond) }

// Event is one thing that happened. A field that a kind does not use is zero.
type Event struct {
	T        int64  // ns since the run's start, on the harness's one clock
	Kind     Kind   //
	Node     string // the slot the harness started ("node-3"), "" if none
	Instance string // the instance ID as the witness knows it
	Session  string // session ID
	Fence    int64  // 0: none
	Until    int64  // ns on the same clock as T; 0: none
	N        int64  // number whose meaning the kind gives
	Reason   string //
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

// Said reports whether the kind is a word of a node.
func (k Kind) Said() bool { return k >= Ready && k <= Stopped || k >= StateChanged && k <= Leading }

// Words returns the kinds that a node can say, in order.
func Words() (words []Kind) {
	for k := range kindCount {
		if k.Said() {
			words = append(words, k)
		}
	}
	return words
}

// OfRedis reports whether the kind is what a server of Redis did to leases, heartbeats and its epoch, as its stream shows.
func (k Kind) OfRedis() bool { return k >= RedisGranted && k <= TapUp || k == RedisEpoch }

// OfRecords reports whether the kind is what a server of Redis did to what intents keep beside their leases.
func (k Kind) OfRecords() bool { return k >= RedisIntent && k <= RedisState }

// Aside reports whether the event is of a server beside the one that the sentinels know as the master.
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
