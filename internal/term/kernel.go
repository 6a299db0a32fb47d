// Package term is the safety kernel of leases: windows, epochs and fences. It imports no other package of this module.
package term

import "cmp"

// Kernel is the safety kernel: it decides whether a term is trusted, and nothing else. It does not depend on why a lease is wanted
// or which instance should have it. If placement, heartbeats or discoveries are wrong, the invariants below still hold.
//
// The kernel assumes that Redis' scripts grant a key to one owner at a time, until the key expires by Redis' clock. Each grant has
// a higher fence than the one before, and an op of another epoch does nothing. The kernel also assumes that the shell believes in a
// term only before Until and UntilWall, and not while the term is uncertain.
//
//   - I1 A window counts from the stamp of an op that was answered: until ≤ stamp + TTL − margin, with the TTL of that op. The key
//     outlives it, because Redis counts the TTL from when it executes the op, which is later, by a clock that the margin allows for.
//     An attempt that is executed late must not shorten a key, so the TTL of a lease does not grow while a trace of it is left (G1).
//   - I2 Only an answer of the op that is under way for a term counts for it (Term.op). An op whose answer comes after its own
//     window, or which was stamped before the own clocks stepped, begins no term (G1, G4).
//   - I3 A failed attempt makes its term uncertain, and only a window that Redis confirmed makes it certain again. A term that has
//     ended does not begin again under its fence (G4, G12).
//   - I4 A key in this instance's name is adopted only if an attempt or a term of its own left a trace (G1).
//   - I5 No answer is believed whose epoch was seen superseded, or whose group's quarantine ends before this instance's windows
//     (G1, G9).
//   - I6 In a new epoch a term is uncertain until it was reasserted with its fence, inside the quarantine. Nothing is acquired
//     before the quarantine is over, because only then have all windows of other instances closed (G9).
//   - I7 A step of the own clocks closes windows as much earlier as the wall clock went ahead, makes terms uncertain and voids ops
//     under way. After a jump of Redis' clock nothing is acquired for a TTL (G1, G4).
//   - I8 Every acquisition carries the highest fence that was seen, so the next is higher, whatever Redis forgot (G3). If a lease of this
//     instance has a higher fence still, one of its own unanswered attempts set it, so the instance keeps that fence. A late attempt can
//     extend the current term but cannot replace it.
//   - I9 If Redis is replicated, an op that opens or extends a window counts once a majority of the nodes has it, in the op's epoch. An
//     op that opens one counts only if no replica has attached itself since that epoch began (docs/replicas.md).
//
// The caller passes every answer to Judge, and every believed answer to Learn, before it uses the answer. It passes every held term
// to Shift when Advance returns a step, and to Forgot when Learn returns another epoch.
type Kernel struct {
	cfg    Config
	margin int64 // the part of each TTL that is not trusted; for a shorter TTL, too, because the clocks are watched with it
	now    Now
	seq    uint64 // of the last op
	epoch  epochState
	clock  clockState
	traces
}

// epochState is what the instance knows of the epoch of Redis' data (G9).
type epochState struct {
	value      string // poll:epoch as last read, "" before the first answer
	sent       Time   // stamp of the op that read it: an older op cannot bring an older epoch back
	quarantine Time   // until then nothing is granted; an upper bound
	fence      int64  // highest fence ever seen: every acquire carries it
	acks       int64  // replicas that must acknowledge an op in this epoch

	group    int64               // ns: quarantine that the epoch's group has agreed on
	outside  bool                // group is too short for this instance, which takes no part
	past     map[string]struct{} // epochs that were seen superseded; never ranged over
	rejected string              // epoch that a server must end

	disbelieved struct { // the last answer that was not believed
		sent  Time
		epoch string
	}
}

// clockState watches the clocks that trust rests on.
type clockState struct {
	known    bool
	offset   int64 // wall − mono as of the last event
	redis    bool
	lo, hi   int64  // Redis' clock − mono lies between
	at       Time   // when lo and hi were last narrowed
	acquires Time   // nothing is acquired before, because Redis' clock jumped
	stepped  uint64 // ops up to this one were stamped before the own clocks stepped
}

// Config configures a Kernel. All durations are in nanoseconds.
type Config struct {
	Instance   string // instance ID
	TTL        int64  // of leases and of the heartbeat
	Quarantine int64  // shortest quarantine that this instance accepts of a group, if longer than TTL
	OpTimeout  int64  // time to wait for an answer
	MarginPPM  int64  // clock rate error allowed for, parts per million of TTL
	MarginMin  int64  // smallest margin
}

// Margin returns the part of a TTL that is not trusted, because clocks run at different rates.
func (c *Config) Margin() int64 {
	return max(c.TTL/1_000_000*c.MarginPPM, c.MarginMin)
}

// timeout returns how long an op waits for an answer. For a lease with a shorter TTL, the timeout leaves room for a second attempt
// in the window.
func (c *Config) timeout(ttl int64) int64 {
	if ttl < c.TTL {
		return min(c.OpTimeout, ttl/10)
	}
	return c.OpTimeout
}

// New returns the kernel of one instance.
func New(cfg Config) *Kernel { return &Kernel{cfg: cfg, margin: cfg.Margin()} }

// Now returns the present reading of the monotonic clock.
func (k *Kernel) Now() Time { return k.now.Mono }

// Seq returns the number of the last op.
func (k *Kernel) Seq() uint64 { return k.seq }

// Phase is the state of a lease in this instance.
type Phase uint8

// The phases.
const (
	Idle      Phase = iota // not ours; the entry exists because the lease is wanted, watched or blocked
	Acquiring              // requested, not answered
	Owned                  // ours until Term.Until
	Releasing              // given back, not confirmed: it is not acquired meanwhile
)

// queued is the value of Term.op while the lease waits in a queue for an op of this step.
const queued = ^uint64(0)

// Term holds what trust in one lease depends on.
type Term struct {
	id    string
	fence int64
	until Time   // owned: end of the window
	ttl   int64  // as wanted; owned: of the term
	op    uint64 // the only op whose answer counts for the term; 0 none
	phase Phase

	uncertain bool // an attempt failed: not believed until renewed
	reassert  bool // Redis forgot since it was last confirmed
}

// Stamp returns the next op, in the epoch that is known. Trust is counted from its Sent, which precedes the send (I1).
func (k *Kernel) Stamp(kind OpKind, ttl int64, items []Item) Op {
	k.seq++
	op := Op{
		Seq: k.seq, Kind: kind, Epoch: k.epoch.value, Owner: k.cfg.Instance, TTL: ttl, Fence: k.epoch.fence,
		Quarantine: k.quarantine(),
		Items:      items, Sent: k.now.Mono, offset: k.clock.offset, Deadline: k.now.Mono + Time(k.cfg.timeout(ttl)),
	}
	switch kind {
	case OpSupersede:
		op.Epoch = k.epoch.rejected
	case OpAcquire, OpRenew, OpReassert:
		op.Confirm = k.epoch.acks
	}
	return op
}

// quarantine returns how long a quarantine that this instance begins must last: until no instance of the group can still believe in
// a lease.
func (k *Kernel) quarantine() int64 {
	if k.epoch.outside {
		return k.epoch.group
	}
	return max(k.cfg.TTL, k.cfg.Quarantine, k.epoch.group)
}

// NewTerm returns the idle term of a lease.
func NewTerm(id string) Term { return Term{id: id} }

// ID returns the lease's name.
func (t *Term) ID() string { return t.id }

// Fence returns the fence of the present or last term.
func (t *Term) Fence() int64 { return t.fence }

// Until returns the end of the window of a held term.
func (t *Term) Until() Time { return t.until }

// TTL returns the TTL of a held term, or the one that is wanted of the next; 0 is Config.TTL.
func (t *Term) TTL() int64 { return t.ttl }

// Op returns the only op whose answer counts for t; 0 if there is none.
func (t *Term) Op() uint64 { return t.op }

// Phase returns the state of the lease.
func (t *Term) Phase() Phase { return t.phase }

// Uncertain reports whether an attempt failed, so that the term is not believed until it is renewed.
func (t *Term) Uncertain() bool { return t.uncertain }

// Forgotten reports whether Redis forgot the term, so that it must be reasserted.
func (t *Term) Forgotten() bool { return t.reassert }

// Want sets the TTL of t's next term; 0 is Config.TTL.
func (t *Term) Want(ttl int64) {
	if t.phase != Owned {
		t.ttl = ttl
	}
}

// Queue marks t as waiting for an op of this step, which Await names.
func (t *Term) Queue() { t.op = queued }

// Acquire begins an acquisition.
func (t *Term) Acquire() { t.phase = Acquiring }

// Cancel makes all answers to earlier ops void for t. It ends an acquisition, and reports whether there was one.
func (t *Term) Cancel() (acquiring bool) {
	t.op = 0
	if acquiring = t.phase == Acquiring; acquiring {
		t.phase = Idle
	}
	return acquiring
}

// Await makes t wait for the answer of the next op.
func (k *Kernel) Await(t *Term) { t.op = k.seq + 1 }

// TTLOf returns the TTL of an op for t (I1).
func (k *Kernel) TTLOf(kind OpKind, t *Term) int64 {
	ttl := cmp.Or(t.ttl, k.cfg.TTL)
	if kind != OpAcquire {
		return ttl
	}
	if left, ok := k.shortest(t.id); ok {
		ttl = min(ttl, left)
	}
	return ttl
}

// Item returns the item of an op for t (I4).
func (k *Kernel) Item(kind OpKind, t *Term) Item {
	it := Item{ID: t.id}
	switch kind {
	case OpAcquire:
		it.Fresh = !k.Traced(t.id)
	case OpRenew, OpReassert, OpRelease:
		it.Fence = t.fence
	}
	return it
}

// StillFor reports whether t, which was queued for kind, still needs that request: a later change may have ended it, and a lease may be
// in a queue twice.
func (k *Kernel) StillFor(kind OpKind, t *Term) bool {
	if t.op != queued {
		return false
	}
	switch kind {
	case OpAcquire:
		return t.phase == Acquiring
	case OpRenew:
		return t.phase == Owned && !t.reassert
	case OpReassert:
		return t.phase == Owned && t.reassert
	case OpRelease:
		return t.phase == Releasing
	default:
		return t.phase == Idle
	}
}

// Settles reports whether op is the one whose answer counts for t, and ends that op for t (I2).
func (k *Kernel) Settles(op *Op, t *Term) bool {
	if t.op != op.Seq {
		return false
	}
	t.op = 0
	return true
}

// window returns the end of the window that an answer to op gives (I1). If the wall clock has gained on the monotonic clock since
// the send, the window ends earlier by this gain: the monotonic clock may have stopped in pauses too short to count as steps.
func (k *Kernel) window(op *Op) Time {
	return op.Sent + Time(op.TTL-k.margin) - Time(max(0, k.clock.offset-op.offset))
}

// Window is the trust in a held term.
type Window struct {
	ID        string
	Fence     int64
	TTL       int64
	Until     Time  // its end on the monotonic clock
	UntilWall int64 // and on the wall clock: trust ends at whichever comes first
	Doubted   bool  // the term was uncertain before the latest change
}

// trust returns the trust in t; doubted says whether t was uncertain before.
func (k *Kernel) trust(t *Term, doubted bool) Window {
	return Window{ID: t.id, Fence: t.fence, TTL: t.ttl, Until: t.until, UntilWall: int64(t.until) + k.clock.offset, Doubted: doubted}
}

// Begin applies a grant. It reports whether a term began. If not, the key is still in this instance's name, so a later attempt may
// adopt it.
func (k *Kernel) Begin(t *Term, op *Op, fence int64) (w Window, began bool) {
	k.epoch.fence = max(k.epoch.fence, fence)
	until := k.window(op)
	if until <= k.now.Mono || op.Seq <= k.clock.stepped {
		k.Trace(t.id, op.TTL)
		return Window{}, false
	}
	t.fence, t.until, t.ttl, t.phase = fence, until, op.TTL, Owned
	t.uncertain, t.reassert = false, false
	return k.trust(t, false), true
}

// Extend applies a renewal or a reassertion; it never shortens the window. It returns false if the answer came after the end of the
// window that the answer gives.
func (k *Kernel) Extend(t *Term, op *Op) (w Window, extended bool) {
	until := k.window(op)
	if until <= k.now.Mono {
		return Window{}, false
	}
	doubted := t.uncertain
	t.until = max(t.until, until)
	t.uncertain, t.reassert = false, false
	return k.trust(t, doubted), true
}

// Doubt makes a held term uncertain (I3). held is false, and nothing changes, if t is not held.
func (k *Kernel) Doubt(t *Term) (w Window, held bool) {
	if t.phase != Owned {
		return Window{}, false
	}
	w = k.trust(t, t.uncertain)
	t.uncertain = true
	return w, true
}

// Renewal returns the kind of op that keeps t. After the quarantine it is too late to reassert t, but a key that still exists can be
// renewed.
func (k *Kernel) Renewal(t *Term) OpKind {
	t.reassert = t.reassert && k.epoch.quarantine > k.now.Mono
	if t.reassert {
		return OpReassert
	}
	return OpRenew
}

// Closed makes t renew from now on, because the quarantine is over for Redis.
func (t *Term) Closed() { t.reassert = false }

// End ends t for this instance. The answer of an op under way for it no longer counts.
func (t *Term) End(to Phase) {
	t.phase, t.op, t.until = to, 0, 0
	t.uncertain, t.reassert = false, false
}

// Expiry returns when a lease that had pttl left while op was under way expires, on the own clock.
func (k *Kernel) Expiry(op *Op, pttl int64) Time {
	return op.Sent + (k.now.Mono-op.Sent)/2 + Time(pttl+Millisecond)
}

// HeldUntil returns when to try again to acquire a lease that another owner holds. A key without expiry was set by another program.
// The instance tries such a key once a TTL, not at the speed of the network.
func (k *Kernel) HeldUntil(op *Op, pttl int64) Time {
	if pttl <= 0 {
		return k.now.Mono + Time(k.cfg.TTL)
	}
	return k.Expiry(op, pttl)
}

// AgeTraces forgets old traces.
func (k *Kernel) AgeTraces() { k.age(k.now.Mono, k.cfg.TTL) }

// Blocked returns until when safety forbids acquisitions, and why; 0 if it allows them (I5, I6, I7).
func (k *Kernel) Blocked() (Time, Cause) {
	switch {
	case k.epoch.outside:
		return k.now.Mono + Time(k.cfg.TTL), CauseGroup
	case k.epoch.quarantine > k.now.Mono:
		return k.epoch.quarantine, CauseQuarantine
	case k.clock.acquires > k.now.Mono:
		return k.clock.acquires, CauseClock
	}
	return 0, CauseNone
}
