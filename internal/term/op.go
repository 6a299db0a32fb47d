package term

// Units of time in ns.
const (
	Millisecond = int64(1_000_000)
	Second      = 1000 * Millisecond
)

// Time is a reading of the instance's own monotonic clock in nanoseconds. Only differences of one instance's readings
// are meaningful. Zero means never.
type Time int64

// Now is one reading of both clocks of an instance. Trust windows are checked against both: on most systems the monotonic clock stops
// while the machine is suspended, and the wall clock may be stepped (G1, G4).
type Now struct {
	Mono Time
	Wall int64 // ns since the epoch
}

// OpKind is a request to the store.
type OpKind uint8

// The requests. After an attempt without an answer, those that extend (OpAcquire, OpRenew, OpReassert, OpBeat) wait until a read
// (OpObserve, OpNodes, OpLook) is answered (G5).
const (
	OpAcquire   OpKind = iota + 1 // SET NX PX each item, adopt if the owner is the same and not Fresh, grant a fence
	OpRenew                       // extend each item that its owner still holds
	OpReassert                    // after a loss of data, in quarantine only: restore each item with its fence
	OpRelease                     // delete each item whose owner and fence match; publish, naming Item.Peer as heir
	OpObserve                     // read owner and PTTL of each item; with no item, only the epoch
	OpBeat                        // set the instance's heartbeat; publish if it is new
	OpLeave                       // delete the instance's heartbeat; publish
	OpNodes                       // read the PTTL of the heartbeats of the instances in the items
	OpLook                        // read the sessions, the heartbeats and, unless Known, the owners
	OpAsk                         // publish that Owner wants the items of Item.Peer (all items name one peer)
	OpNews                        // read the news: Op.Done, Op.Sum
	OpSupersede                   // begin a new epoch in place of Op.Epoch, which must not be believed, if that is still the present one

	Kinds // number of kinds, plus one
)

// Extends reports whether an executed op of this kind begins or lengthens a lease or a heartbeat of its instance.
func (k OpKind) Extends() bool {
	return k == OpAcquire || k == OpRenew || k == OpReassert || k == OpBeat
}

// Writes reports whether Redis may refuse an op of this kind because it refuses to write.
func (k OpKind) Writes() bool { return k.Extends() || k == OpRelease || k == OpLeave }

// Reads reports whether an answered op of this kind ends a silence.
func (k OpKind) Reads() bool { return k == OpObserve || k == OpNodes || k == OpLook }

// Item is one lease (or, in OpNodes, one instance) in an Op.
type Item struct {
	ID    string
	Fence int64  // OpRenew, OpReassert, OpRelease: the term's fence
	Peer  string // OpRelease: heir, "" for anyone, Owner itself for nobody; OpAsk: the owner to publish the request to
	Fresh bool   // OpAcquire: do not adopt, because no earlier attempt or term of this core can have left the key in its name
}

// Op is one attempt. A store executes it at most once; the shell must not retry it.
type Op struct {
	Seq   uint64 // echoed in the Answer
	Kind  OpKind
	Epoch string // the epoch the instance knows; in any other the store does nothing (G9)

	Quarantine int64 // ns of quarantine, if this op begins an epoch; 0: as the store is configured
	Confirm    int64 // replicas that must acknowledge the op's writes before they count; 0: none

	Owner    string // the instance
	TTL      int64  // ns, whole milliseconds
	Fence    int64  // OpAcquire: the highest fence the instance has seen
	Items    []Item // owned by the shell once the op is returned
	Interval int64  // OpNews: ns after a reading at which the next one is due
	Done     bool   // OpNews: this instance has read the sessions
	Sum      uint64 // place.Sessions.Sum of the sessions: OpNews: that were read; OpLook: that are known, see Known
	Sent     Time   // stamp that trust counts from; it precedes the send
	Deadline Time   // when the core gives the op up as unanswered

	offset int64 // wall − mono when it was sent
}

// Probes reports whether the store must read the epoch again after replicas acknowledged op.
func (op *Op) Probes() bool { return op.Confirm > 0 && op.Kind == OpAcquire }

// Known reports whether a discovery that finds sessions with this sum reads no owners, because it has them already.
func (op *Op) Known(sum uint64) bool { return op.Sum != 0 && op.Sum == sum }

// Failure says why an op has no result.
type Failure uint8

// The failures. An unanswered op that extends begins a silence (G5).
const (
	FailNone      Failure = iota
	FailUnknown           // sent but not answered: it may have been executed
	FailUnsent            // not sent, because there was no connection or no time: certainly not executed
	FailRefused           // not executed: Redis or the store refused it
	FailUncounted         // executed, but not to be believed: too few replicas acknowledged it, or its epoch ended meanwhile
)
