package core

// This file is the core's whole boundary: what it is told (Event), what it asks of a store (Op) and of its shell (Tell),
// and what a store answers (Answer). Everything here is plain data, so that a shell over sockets, a model of Redis in
// virtual time and a text scenario drive the same rules.

// Time is a reading of the instance's own monotonic clock in nanoseconds. Only differences of one instance's readings
// mean anything. Zero is "never".
type Time int64

// Now is one reading of both clocks of an instance. Trust windows are held against both, because the monotonic clock of
// most systems stops while the machine is suspended and the wall clock may be stepped (G1, G4).
type Now struct {
	Mono Time
	Wall int64 // ns since the epoch
}

// EventKind says what an Event tells the core.
type EventKind uint8

// What the core can be told.
const (
	// EvTick: time has reached Core.Next (or passed; a shell may also tick early, which does nothing).
	EvTick EventKind = iota + 1
	// EvStart: take part. The first event of a core.
	EvStart
	// EvAnswer: Answer is what a store said to an Op, or that it said nothing.
	EvAnswer
	// EvNotice: Notice was heard on the channel. Notices may be lost, late, doubled and forged by bugs: they save time,
	// nothing relies on them.
	EvNotice
	// EvSubscribed: the channel is (again) being heard, so whatever was missed must be looked up.
	EvSubscribed
	// EvWant: acquire the lease ID now, and with Wait keep waiting until it is held or dropped.
	EvWant
	// EvDrop: the guarded work of ID has ended or never began; give the lease back, or stop wanting it.
	EvDrop
	// EvAbandon: the work under the term Fence of ID is stuck: never renew and never release that term, let it expire, and do not
	// acquire ID again. The term may be over.
	EvAbandon
	// EvRecovered: the stuck work under the term Fence of ID has returned; this instance may own ID again.
	EvRecovered
	// EvDoubt: what was read elsewhere may mean that Redis lost its data: its epoch is read now.
	EvDoubt
	// EvRenew: renew the lease ID now, not at the next tick, if it is held.
	EvRenew
	// EvDrain: stop taking, leave the registry. The shell drops each held lease when its work has ended.
	EvDrain
)

// Event is one thing the core is told, at one instant.
type Event struct {
	Kind   EventKind
	Now    Now
	ID     string   // lease
	Fence  int64    // EvAbandon, EvRecovered: the term's
	IDs    []string // EvDrop: more leases, so that many are released in few calls
	Wait   bool     // EvWant
	Cause  Cause    // EvDrop
	Answer Answer
	Notice Notice
}

// OpKind is a request to the store.
type OpKind uint8

// The requests. Those that extend something (OpAcquire, OpRenew, OpReassert, OpBeat) are never sent after an attempt
// without answer before a read (OpObserve, OpNodes, OpLook) was answered (G5).
const (
	OpAcquire   OpKind = iota + 1 // SET NX PX each item, adopt if the owner is the same and not Fresh, grant a fence
	OpRenew                       // extend each item that its owner still holds
	OpReassert                    // after a loss of data, in quarantine only: restore each item with its fence
	OpRelease                     // delete each item whose owner and fence match; publish, naming Item.Peer as heir
	OpObserve                     // read owner and PTTL of each item; with no item, only the epoch
	OpBeat                        // set the instance's heartbeat; publish when it was not there
	OpLeave                       // delete the instance's heartbeat; publish
	OpNodes                       // read the PTTL of the heartbeats of the instances named by the items
	OpLook                        // read everything: sessions, heartbeats, owners
	OpAsk                         // publish that Owner wants the items of Item.Peer (all items name one peer)
	OpSupersede                   // begin a new epoch, if the present one is still Op.Epoch: it must not be believed

	kinds // how many there are, and one more
)

// Extends reports whether an executed op of this kind lengthens what its instance holds.
func (k OpKind) Extends() bool {
	return k == OpAcquire || k == OpRenew || k == OpReassert || k == OpBeat
}

// writes reports whether Redis may refuse an op of this kind because it refuses to write.
func (k OpKind) writes() bool { return k.Extends() || k == OpRelease || k == OpLeave }

// reads reports whether an answered op of this kind ends a silence.
func (k OpKind) reads() bool { return k == OpObserve || k == OpNodes || k == OpLook }

// Item is one lease (or, in OpNodes, one instance) in an Op.
type Item struct {
	ID    string
	Fence int64  // OpRenew, OpReassert, OpRelease: the term's fence
	Peer  string // OpRelease: heir, "" for none, Owner itself where nobody shall take it; OpAsk: the owner asked
	Fresh bool   // OpAcquire: no earlier attempt of this core can have left the lease in its name: adopt nothing
}

// Op is one attempt. A store executes it at most once; whoever carries it may not retry it.
type Op struct {
	Seq   uint64 // echoed in the Answer
	Kind  OpKind
	Epoch string // the epoch the instance knows; in another one the store does nothing (G9)

	Quarantine int64 // ns that an epoch begun by this op grants nothing; 0: as the store is configured
	Confirm    int64 // replicas that have to acknowledge what the op did; 0: none, and it counts as it is answered

	Owner    string // the instance
	TTL      int64  // ns, whole milliseconds
	Fence    int64  // OpAcquire: the highest fence the instance has seen
	Items    []Item // owned by whoever carries the op
	Sent     Time   // the stamp trust is counted from; it precedes the send
	Deadline Time   // the core takes the op as unanswered from here

	offset int64 // wall − mono when it was sent
}

// Probes reports whether the epoch is to be read again once the op is acknowledged.
func (op *Op) Probes() bool { return op.Confirm > 0 && op.Kind == OpAcquire }

// Failure says why an op has no result.
type Failure uint8

// The ways to fail. An op that may have been executed and extends something begins a silence (G5); the others differ in
// what a user is told.
const (
	FailNone      Failure = iota
	FailUnknown           // sent and not answered: it may have been executed
	FailUnsent            // not sent, for want of a connection or of time: certainly not executed
	FailRefused           // not executed: Redis, or the store, said why not
	FailUncounted         // executed, and not to be believed: too few replicas acknowledged it, or its epoch ended meanwhile
)

// Outcome is what became of one item.
type Outcome uint8

// The outcomes, with the fields of Result that they set.
const (
	OutUnknown    Outcome = iota // the op failed or was void
	OutGranted                   // acquire: Fence
	OutAdopted                   // acquire: the same owner held it; Fence, a new one if Op.Fence was not below it
	OutHeld                      // acquire, observe: Owner, PTTL (Fence if the store knows it)
	OutFree                      // observe: nobody holds it
	OutQuarantine                // acquire, free or own: nothing is granted until Answer.Quarantine is over
	OutRenewed                   // renew
	OutReasserted                // reassert
	OutLost                      // renew, release: this owner (and fence) does not hold it; Owner, PTTL if another does
	OutReleased                  // release
	OutSuperseded                // reassert: a higher fence was granted; Owner
	OutClosed                    // reassert: the quarantine is over; renew instead
	OutWrongType                 // the key holds no string: somebody else's key
	OutAlive                     // nodes: PTTL
	OutGone                      // nodes
)

// Result is what a store says of one item.
type Result struct {
	Outcome Outcome
	Owner   string
	Fence   int64
	PTTL    int64 // ns; 0: unknown or none
}

// Answer is what became of an Op.
type Answer struct {
	Seq        uint64
	Failure    Failure
	Text       string   // of a failure
	Err        error    // of a failure, for the shell: what Text says, to be told from others
	Epoch      string   // the present epoch, "" if the store did not say
	Stale      bool     // the op was void: its epoch is not the present one
	Quarantine int64    // ns of quarantine left when the store answered, 0 if none
	Acked      int64    // replicas that acknowledged what the op did, 0 if it is not known
	After      string   // the epoch after that, where the op probes; "" if it is not known
	Group      int64    // ns: the quarantine that the epoch's group has agreed on; 0 where the op's epoch is the present one
	RedisNow   int64    // Redis TIME in µs, 0 if the store did not say
	Results    []Result // one per item
	Look       *Look    // OpLook
}

// Look is one reading of the whole namespace. It is immutable and may be shared by many instances.
type Look struct {
	Sessions *Sessions
	Owners   []string // aligned with Sessions.IDs; "" free
	Nodes    []Seen   // live heartbeats, in any order
}

// Seen is a heartbeat.
type Seen struct {
	ID   string
	PTTL int64 // ns
}

// Sessions is the set of what is to be owned: unpaused sessions, ascending by ID. Immutable; NewSessions builds it.
type Sessions struct {
	IDs    []string
	hashes []uint64
	index  map[string]int32 // never ranged over
}

// NoticeKind is a message of one instance to all.
type NoticeKind uint8

// The notices.
const (
	NoticeTaken  NoticeKind = iota + 1 // From acquired IDs
	NoticeFreed                        // From released IDs; Peers[i] is the heir of IDs[i], "" for none, From itself for nobody
	NoticeJoined                       // From's heartbeat is new
	NoticeLeft                         // From deleted its heartbeat
	NoticeAsked                        // From wants IDs of Peers[0]
)

// Notice is a heard message.
type Notice struct {
	Kind  NoticeKind
	From  string
	IDs   []string
	Peers []string
}

// TellKind is what the core tells its shell.
type TellKind uint8

// What is told. For leases, ID, Fence and At are always set.
const (
	TellAcquired      TellKind = iota + 1 // a term begins: Until, UntilWall, Vacant
	TellRenewed                           // Until, UntilWall, Sent, Doubted
	TellUncertain                         // an attempt failed (Cause, Text): believe nothing until renewed
	TellLost                              // the term is over (Cause; Owner if another is known to hold it)
	TellReleased                          // the term was given back (Cause; Owner is the heir, if any)
	TellReleaseFailed                     // the release was not confirmed (Cause, Text); it is tried again until it cannot matter
	TellRefused                           // an acquisition did not succeed: Cause, Owner, Wait (ns until it may), Text
	TellYield                             // end the guarded work of ID, then send EvDrop (Owner: who asked)
	TellKept                              // TellYield is taken back: the guarded work of ID goes on
	TellSuspect                           // Owner's lease ID expired while its heartbeat lived
	TellEpoch                             // Redis lost data or restarted: Text is the new epoch, Wait the quarantine left
	TellClock                             // a clock stepped: Wait (ns, signed); Cause is CauseFailed and Text "redis" for Redis' clock
	TellRejected                          // an epoch is not believed, and another is asked for: Text, Cause, Wait its group's quarantine
	TellOutside                           // the group's quarantine (Wait) is too short for this instance: it takes no part
	TellSilent                            // Redis went silent for this instance (Text)
	TellHeard                             // Redis is heard again
	TellWithdrawn                         // this instance left the registry for a while: it cannot take what it is given
	TellRefusing                          // Redis answers, and refuses what it is asked to write (Text: its words)
	TellAccepting                         // it writes again (Text: what it had refused with)
	TellDrained                           // EvDrain is done: no lease is held and none is being released
)

// Cause says why something was told.
type Cause uint8

// The causes; String gives the form that stands in logs.
const (
	CauseNone       Cause = iota
	CauseExpired          // the trust window ended
	CauseTaken            // another owner holds it
	CauseGone             // the key is not there any more
	CauseSuperseded       // a higher fence was granted
	CauseNoAnswer         // an attempt was not answered in time
	CauseFailed           // an attempt failed
	CauseClock            // clocks stepped against each other
	CauseStuck            // the guarded work made no progress
	CauseRequested        // the user asked
	CauseRebalance        // another instance asked for it
	CauseDrain            // this instance stops
	CauseHeld             // another owner holds it
	CauseQuarantine       // Redis forgot; nothing is granted yet
	CauseWrongType        // the key holds another type
	CauseUnwanted         // its session went or was paused
	CauseForgot           // Redis may have forgotten it: to be asserted again
	CauseGroup            // the group's quarantine is shorter than this instance's TTL
	CauseUncounted        // too few replicas acknowledged it
	CauseAttached         // a replica attached itself
)

// Tell is one thing the core tells its shell. Tells of a step are carried out before its ops.
type Tell struct {
	Kind      TellKind
	Cause     Cause
	Again     bool // TellUncertain: nothing was renewed since the last one
	Doubted   bool // TellRenewed: the term was uncertain
	ID        string
	Fence     int64
	At        Time
	Until     Time  // end of the trust window on the monotonic clock
	UntilWall int64 // and on the wall clock: trust ends at whichever comes first
	Sent      Time  // when the attempt was sent that succeeded
	Owner     string
	Wait      int64 // ns
	Text      string
	Vacant    *Vacancy // nil: not known
}

// Vacancy is how a lease came to have no owner, as far as an instance that acquires it knows. It is told, and nothing is done by it.
type Vacancy struct {
	Since Time   // GivenBack: when that was heard; else when the key of the last owner expires, as it was last read
	Owner string // the last owner

	GivenBack bool
}

// Effects is what one step asks for. Both slices are valid until the next step; Op.Items stay valid for ever.
type Effects struct {
	Tells []Tell
	Ops   []Op
}
