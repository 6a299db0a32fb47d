package core

import "cmp"

// terms is the safety kernel: it decides whether a term is trusted, and nothing else. It does not depend on why a lease is wanted or
// who should have it: if placement, heartbeats or discoveries are wrong, the invariants below still hold.
//
// It assumes that Redis' scripts grant a key to one owner at a time, until the key expires by Redis' clock. Each grant has a higher fence
// than the one before, and an op of another epoch does nothing. It assumes that the shell believes in a term only before Until and
// UntilWall, and not while it is uncertain.
//
//   - I1 A window counts from the stamp of an op that was answered: until ≤ stamp + TTL − margin, with the TTL of that op. The key
//     outlives it, because Redis counts the TTL from when it executes the op, which is later, by a clock that the margin allows for.
//     An attempt that is executed late must not shorten a key, so the TTL of a lease does not grow while a trace of it is left (G1).
//   - I2 Only an answer of the op that is under way for a term counts for it (term.op). An op whose answer comes after its own
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
// Its caller passes every answer to distrust and learn before using it. It passes every held term to shift when advance returns a step,
// and to forgot when learn returns another epoch.
type terms struct {
	cfg    Config
	margin int64 // the part of each TTL that is not trusted; for a shorter TTL, too, because the clocks are watched with it
	self   string
	now    Now
	seq    uint64 // of the last op
	epoch  epochState
	clock  clockState
	traces traces
}

// phase is the state of a lease in this instance.
type phase uint8

const (
	idle      phase = iota // not ours; the entry exists because the lease is wanted, watched or blocked
	acquiring              // requested, not answered
	owned                  // ours until term.until
	releasing              // given back, not confirmed: it is not acquired meanwhile
)

// queued is the value of term.op while the lease is in a queue of this step.
const queued = ^uint64(0)

// term holds what trust in one lease depends on.
type term struct {
	id    string
	fence int64
	until Time   // owned: end of the window
	ttl   int64  // as wanted; owned: of the term
	op    uint64 // the only op whose answer counts for the term; 0 none
	phase phase

	uncertain bool // an attempt failed: not believed until renewed
	reassert  bool // Redis forgot since it was last confirmed
}

// stamp returns the next op, in the epoch that is known. Trust is counted from its Sent, which precedes the send (I1).
func (k *terms) stamp(kind OpKind, ttl int64, items []Item) Op {
	k.seq++
	op := Op{
		Seq: k.seq, Kind: kind, Epoch: k.epoch.value, Owner: k.self, TTL: ttl, Fence: k.epoch.fence,
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

// wanted sets the TTL of t's next term; 0 is Config.TTL.
func (k *terms) wanted(t *term, ttl int64) {
	if t.phase != owned {
		t.ttl = ttl
	}
}

// ttlOf returns the TTL of an op for t (I1).
func (k *terms) ttlOf(kind OpKind, t *term) int64 {
	ttl := cmp.Or(t.ttl, k.cfg.TTL)
	if kind != OpAcquire {
		return ttl
	}
	if left, ok := k.traces.ttl(t.id); ok {
		ttl = min(ttl, left)
	}
	return ttl
}

// item returns the item of an op for t (I4).
func (k *terms) item(kind OpKind, t *term) Item {
	it := Item{ID: t.id}
	switch kind {
	case OpAcquire:
		it.Fresh = !k.traces.has(t.id)
	case OpRenew, OpReassert, OpRelease:
		it.Fence = t.fence
	}
	return it
}

// stillFor reports whether t, which was queued for kind, still needs that request: a later change may have ended it, and a lease may be
// in a queue twice.
func (k *terms) stillFor(kind OpKind, t *term) bool {
	if t.op != queued {
		return false
	}
	switch kind {
	case OpAcquire:
		return t.phase == acquiring
	case OpRenew:
		return t.phase == owned && !t.reassert
	case OpReassert:
		return t.phase == owned && t.reassert
	case OpRelease:
		return t.phase == releasing
	default:
		return t.phase == idle
	}
}

// settles reports whether op is the one whose answer counts for t, and ends that op for t (I2).
func (k *terms) settles(op *Op, t *term) bool {
	if t.op != op.Seq {
		return false
	}
	t.op = 0
	return true
}

// window returns the end of the window that an answer to op gives (I1). It ends earlier by what the wall clock gained on the monotonic
// clock since the send: the monotonic clock may have stopped in pauses too short to count as steps.
func (k *terms) window(op *Op) Time {
	return op.Sent + Time(op.TTL-k.margin) - Time(max(0, k.clock.offset-op.offset))
}

// begin applies a grant. It reports whether a term began: if not, the key is ours all the same, and may be adopted.
func (k *terms) begin(t *term, op *Op, fence int64) bool {
	k.epoch.fence = max(k.epoch.fence, fence)
	until := k.window(op)
	if until <= k.now.Mono || op.Seq <= k.clock.stepped {
		k.traces.leave(t.id, op.TTL)
		return false
	}
	t.fence, t.until, t.ttl, t.phase = fence, until, op.TTL, owned
	t.uncertain, t.reassert = false, false
	return true
}

// extend applies a renewal or a reassertion; it never shortens the window. It returns false if the answer came after its own window.
func (k *terms) extend(t *term, op *Op) bool {
	until := k.window(op)
	if until <= k.now.Mono {
		return false
	}
	t.until = max(t.until, until)
	t.uncertain, t.reassert = false, false
	return true
}

// doubt makes a held term uncertain (I3). again reports whether it was uncertain already, ok whether it is held.
func (k *terms) doubt(t *term) (again, ok bool) {
	if t.phase != owned {
		return false, false
	}
	again, t.uncertain = t.uncertain, true
	return again, true
}

// renewal returns the kind of op that keeps t. After the quarantine it is too late to reassert t, but a key that still exists can be
// renewed.
func (k *terms) renewal(t *term) OpKind {
	t.reassert = t.reassert && k.epoch.quarantine > k.now.Mono
	if t.reassert {
		return OpReassert
	}
	return OpRenew
}

// closed makes t renew from now on, because the quarantine is over for Redis.
func (k *terms) closed(t *term) { t.reassert = false }

// end ends t for this instance. The answer of an op under way for it no longer counts.
func (k *terms) end(t *term, to phase) {
	t.phase, t.op, t.until = to, 0, 0
	t.uncertain, t.reassert = false, false
}

// expiry returns when a lease that had pttl left while op was under way expires, on the own clock.
func (k *terms) expiry(op *Op, pttl int64) Time {
	return op.Sent + (k.now.Mono-op.Sent)/2 + Time(pttl+Millisecond)
}

// heldUntil returns when to try again to acquire a lease that another owner holds. A key without expiry was set by another program: it
// is tried once a TTL, not at the speed of the network.
func (k *terms) heldUntil(op *Op, pttl int64) Time {
	if pttl <= 0 {
		return k.now.Mono + Time(k.cfg.TTL)
	}
	return k.expiry(op, pttl)
}

// blocked returns until when safety forbids acquisitions, and why; 0 if it allows them (I5, I6, I7).
func (k *terms) blocked() (Time, Cause) {
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

// traces are the leases that may be in this instance's name at Redis without a term here: an attempt was not answered, or
// a term ended before its key. Only those are adopted. Any other lease in its name belongs to another process with the same
// ID, or to an earlier life of this one, so the instance waits for it as for any other owner's (G1).
type traces struct {
	young, old map[string]int64 // the shortest TTL of a lease's traces; never ranged over
	aged       Time             // when old was last thrown away
}

// traceTTLs is how long a trace is kept at least, in TTLs: far longer than a request can be under way, but not forever, because
// sessions come and go.
const traceTTLs = 100

func (t *traces) leave(id string, ttl int64) {
	if t.young == nil {
		t.young = map[string]int64{}
	}
	if left, ok := t.ttl(id); ok {
		ttl = min(ttl, left)
	}
	t.young[id] = ttl
}

func (t *traces) ttl(id string) (ttl int64, ok bool) {
	if ttl, ok = t.young[id]; !ok {
		ttl, ok = t.old[id]
	}
	return ttl, ok
}

func (t *traces) has(id string) bool {
	_, ok := t.ttl(id)
	return ok
}

func (t *traces) age(now Time, ttl int64) {
	if now-t.aged >= Time(traceTTLs*ttl) {
		t.young, t.old, t.aged = nil, t.young, now
	}
}
