package core

import (
	"github.com/leasestorm/leasestorm/internal/member"
	"github.com/leasestorm/leasestorm/internal/place"
	"github.com/leasestorm/leasestorm/internal/term"
)

// This file is the core's whole boundary: its input (Event), its requests to a store (Op), their results (Answer) and its notifications
// to the shell (Tell). All of it is plain data, so that production, virtual time and text scenarios drive the same rules.

// The types of the safety kernel, explained there.
type (
	Time    = term.Time
	Now     = term.Now
	OpKind  = term.OpKind
	Op      = term.Op
	Item    = term.Item
	Failure = term.Failure
	Cause   = term.Cause
)

// The constants of package term.
const (
	Millisecond = term.Millisecond
	Second      = term.Second

	OpAcquire   = term.OpAcquire
	OpRenew     = term.OpRenew
	OpReassert  = term.OpReassert
	OpRelease   = term.OpRelease
	OpObserve   = term.OpObserve
	OpBeat      = term.OpBeat
	OpLeave     = term.OpLeave
	OpNodes     = term.OpNodes
	OpLook      = term.OpLook
	OpAsk       = term.OpAsk
	OpNews      = term.OpNews
	OpSupersede = term.OpSupersede

	FailNone      = term.FailNone
	FailUnknown   = term.FailUnknown
	FailUnsent    = term.FailUnsent
	FailRefused   = term.FailRefused
	FailUncounted = term.FailUncounted

	CauseNone       = term.CauseNone
	CauseExpired    = term.CauseExpired
	CauseTaken      = term.CauseTaken
	CauseGone       = term.CauseGone
	CauseSuperseded = term.CauseSuperseded
	CauseNoAnswer   = term.CauseNoAnswer
	CauseFailed     = term.CauseFailed
	CauseClock      = term.CauseClock
	CauseStuck      = term.CauseStuck
	CauseRequested  = term.CauseRequested
	CauseRebalance  = term.CauseRebalance
	CauseDrain      = term.CauseDrain
	CauseHeld       = term.CauseHeld
	CauseQuarantine = term.CauseQuarantine
	CauseWrongType  = term.CauseWrongType
	CauseUnwanted   = term.CauseUnwanted
	CauseForgot     = term.CauseForgot
	CauseGroup      = term.CauseGroup
	CauseUncounted  = term.CauseUncounted
	CauseAttached   = term.CauseAttached
	CauseOperator   = term.CauseOperator
)

// The types of the members and their placement, explained there.
type (
	Seen      = member.Seen
	Look      = place.Look
	News      = place.News
	Sessions  = place.Sessions
	Placement = place.Placement
	Placer    = place.Placer
)

// NewSessions is place.NewSessions.
func NewSessions(ids []string) *Sessions { return place.NewSessions(ids) }

// LifeOf is term.LifeOf.
func LifeOf(epoch string) (run, attachments string, acks int64) { return term.LifeOf(epoch) }

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	// EvTick: time has reached or passed Core.Next. An earlier tick does nothing.
	EvTick EventKind = iota + 1
	// EvStart: take part. The first event of a core.
	EvStart
	// EvAnswer: Answer is the result of an Op, or reports that the store did not answer.
	EvAnswer
	// EvNotice: Notice arrived on the channel. Notices may be lost, late or doubled: they save time, but no rule relies on them.
	EvNotice
	// EvSubscribed: the channel is subscribed (again), and notices may have been missed before.
	EvSubscribed
	// EvWant: acquire the lease ID now, and with Wait keep waiting until it is held or dropped.
	EvWant
	// EvDrop: the work under the lease ID has ended or never began. Release the lease, or cancel an EvWant.
	EvDrop
	// EvAbandon: the work under the term Fence of ID is stuck: never renew and never release that term, let it expire, and do not
	// acquire ID again. The term may be over.
	EvAbandon
	// EvRecovered: the stuck work under the term Fence of ID has returned; this instance may own ID again.
	EvRecovered
	// EvDoubt: the shell suspects that Redis lost its data: read the epoch now.
	EvDoubt
	// EvRenew: renew the lease ID now, not at the next tick, if it is held.
	EvRenew
	// EvDrain: acquire nothing more and leave the registry. The shell drops each held lease when its work has ended.
	EvDrain
)

// Event is one input of the core, at one instant.
type Event struct {
	Kind   EventKind
	Now    Now
	ID     string   // lease
	Fence  int64    // EvAbandon, EvRecovered: the term's
	IDs    []string // EvDrop: more leases, so that many are released in few calls
	Wait   bool     // EvWant
	TTL    int64    // EvWant: of the next term, in ns; 0: Config.TTL, which it must not exceed
	Cause  Cause    // EvDrop
	Answer Answer
	Notice Notice
}

// Outcome is the result of an op for one item.
type Outcome uint8

// The outcomes, the ops that have them, and the fields of Result that they set.
const (
	OutUnknown    Outcome = iota // any: the op failed or was void
	OutGranted                   // acquire: Fence
	OutAdopted                   // acquire: the same owner held it; Fence, a new one unless Op.Fence was below its fence
	OutHeld                      // acquire, observe: Owner, PTTL (Fence if the store knows it)
	OutFree                      // observe: nobody holds it
	OutQuarantine                // acquire: the lease is free or ours, but Redis grants nothing until Answer.Quarantine is over
	OutRenewed                   // renew
	OutReasserted                // reassert
	OutLost                      // renew, release: this owner (and fence) does not hold it; Owner, PTTL if another does
	OutReleased                  // release
	OutSuperseded                // reassert: a higher fence was granted; Owner
	OutClosed                    // reassert: the quarantine is over; renew instead
	OutWrongType                 // the key is not a string, so it belongs to another program
	OutAlive                     // nodes: PTTL
	OutGone                      // nodes
)

// Result is a store's answer for one item.
type Result struct {
	Outcome Outcome
	Owner   string
	Fence   int64
	PTTL    int64 // ns; 0: unknown or none
}

// Answer is the result of an Op.
type Answer struct {
	Seq        uint64
	Failure    Failure
	Text       string   // why it failed
	Err        error    // the same as an error, for the shell
	Epoch      string   // present epoch, "" if unknown
	Stale      bool     // the op was void: its epoch is not the present one
	Quarantine int64    // ns of quarantine left when the store answered, 0 if none
	Acked      int64    // replicas that acknowledged the op's writes, 0 if unknown
	After      string   // epoch after the acknowledgement, for an op that probes; "" if unknown
	Group      int64    // ns: quarantine that the epoch's group has agreed on; 0 if the op's epoch is the present one
	Operator   bool     // with Group: an operator's command began the epoch
	RedisNow   int64    // Redis TIME in µs, 0 if unknown
	Results    []Result // one per item
	Look       *Look    // OpLook
	News       *News    // OpNews, unless Done
}

// NoticeKind is the kind of a Notice.
type NoticeKind uint8

// The notices.
const (
	NoticeTaken  NoticeKind = iota + 1 // From acquired IDs
	NoticeFreed                        // From released IDs; Peers[i] is the heir of IDs[i], "" for anyone, From itself for nobody
	NoticeJoined                       // From's heartbeat is new
	NoticeLeft                         // From deleted its heartbeat
	NoticeAsked                        // From wants IDs of Peers[0]
	NoticeNumber                       // the number of the notice before it
)

// Notice is a message that an instance published to all.
type Notice struct {
	Kind   NoticeKind
	From   string
	IDs    []string
	Peers  []string
	Number int64  // of this notice, or of the one before; 0: it follows, or there is none
	Epoch  string // the end of the epoch in which it has this number
}

// TellKind is the kind of a Tell.
type TellKind uint8

// The notifications, with the fields of Tell that they set. Those about leases always set ID, Fence and At.
const (
	TellAcquired      TellKind = iota + 1 // a term begins: Until, UntilWall, TTL, RedisNow, Vacant
	TellRenewed                           // Until, UntilWall, Sent, Doubted
	TellUncertain                         // an attempt failed (Cause, Text): believe nothing until renewed
	TellLost                              // the term is over (Cause; Owner if another is known to hold it)
	TellReleased                          // the term was given back (Cause; Owner is the heir, if any)
	TellReleaseFailed                     // the release was not confirmed (Cause, Text); it is retried until the key has expired
	TellRefused                           // an acquisition did not succeed: Cause, Owner, Wait (ns until it may), Text
	TellYield                             // end the guarded work of ID, then send EvDrop (Owner: the instance that asked for the lease)
	TellKept                              // TellYield is revoked: the guarded work of ID goes on
	TellSuspect                           // Owner's lease ID expired while its heartbeat lived
	TellEpoch                             // Redis has another epoch, Text (Cause, if known); Wait is the quarantine left
	TellClock                             // a clock stepped: Wait (ns, signed); Cause is CauseFailed and Text "redis" for Redis' clock
	TellRejected                          // an epoch (Text) is not believed, and will be superseded: Cause, Wait (its group's quarantine)
	TellOutside                           // the group's quarantine (Wait) is too short for this instance: it takes no part
	TellSilent                            // Redis stopped answering this instance (Text)
	TellHeard                             // Redis answers again
	TellWithdrawn                         // this instance left the registry for Wait ns, because its acquisitions fail
	TellRefusing                          // Redis answers, but refuses writes (Text: its error)
	TellAccepting                         // Redis accepts writes again (Text: its earlier error)
	TellDrained                           // EvDrain is done: no lease is held and none is being released
)

// Tell is one notification of the core to its shell. The shell carries out the tells of a step before its ops.
type Tell struct {
	Kind      TellKind
	Cause     Cause
	Again     bool // TellUncertain: the term was uncertain already
	Doubted   bool // TellRenewed: the term was uncertain
	ID        string
	Fence     int64
	At        Time
	Until     Time  // end of the trust window on the monotonic clock
	UntilWall int64 // and on the wall clock: trust ends at whichever comes first
	TTL       int64 // ns
	Sent      Time  // stamp of the attempt that succeeded
	RedisNow  int64 // Redis TIME in µs as it granted the term, 0 if unknown
	Owner     string
	Wait      int64 // ns
	Text      string
	Vacant    *Vacancy // nil: unknown
}

// Vacancy is how a lease came to have no owner, as far as its next owner knows. It is for reports only: no rule uses it.
type Vacancy struct {
	Since Time   // GivenBack: when the notice arrived; else when the last owner's key expires, by the last read
	Owner string // the last owner

	GivenBack bool
}

// Effects is the output of one step. Both slices are valid until the next step; Op.Items stay valid forever.
type Effects struct {
	Tells []Tell
	Ops   []Op
}

// tells are the notifications of a step.
type tells struct {
	at  Time
	all []Tell
}

func (o *tells) tell(t Tell) {
	t.At = o.at
	o.all = append(o.all, t)
}
