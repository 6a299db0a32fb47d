package core

// terms is the safety kernel: what makes a term trusted, and nothing else. It knows neither why a lease is wanted nor who should
// have it: placement, heartbeats and looks may be wrong in any way, and what follows holds all the same.
//
// Of Redis it takes for granted what its scripts do: a key is granted to one owner at a time until it expires by Redis' clock, each
// grant has a higher fence than the one before, and an op of another epoch does nothing. Of the shell it takes for granted that it
// believes in a term only before Until and UntilWall, and not while it is uncertain.
//
//   - I1 A window counts from the stamp of an op that was answered: until ≤ stamp + TTL − margin. The key outlives it, because Redis
//     counts the TTL from when it executes the op, which is later, by a clock that the margin allows for (G1).
//   - I2 Only an answer of the op that is under way for a term counts for it (term.op), and an op whose answer comes after its own
//     window, or was stamped before the own clocks stepped, begins nothing (G1, G4).
//   - I3 An attempt that failed makes its term uncertain, and only a window that Redis confirmed makes it certain again. What has
//     ended is not begun again under its fence (G4, G12).
//   - I4 What is in this instance's name at Redis is adopted only where an attempt or a term of its own left a trace (G1).
//   - I5 No answer is believed whose epoch was seen superseded, or whose group's quarantine ends before this instance's windows
//     (G1, G9).
//   - I6 In a new epoch a term is uncertain until it was reasserted with its fence, inside the quarantine; nothing is acquired
//     before the quarantine is over, for that is when every other's window has closed (G9).
//   - I7 A step of the own clocks closes windows as much earlier as the wall clock went ahead, makes them uncertain and voids what is
//     under way. After a jump of Redis' clock nothing is acquired for a TTL (G1, G4).
//   - I9 Where Redis is replicated, what opens or extends a window counts when a majority of its nodes has it, in the op's epoch still;
//     what opens one only if no replica has attached itself since that epoch began (docs/replicas.md).
//   - I8 Every acquisition carries the highest fence that was seen, so the next is higher, whatever Redis forgot (G3). A fence above that
//     on a lease of this instance's own is of an attempt that was not answered: it is kept, so that an attempt which is executed late
//     changes nothing of the term that followed but its end.
//
// Whoever drives it hands every answer to distrust and learn before anything else is done with it, and every held term to shift when
// advance returns a step and to forgot when learn tells of another epoch.
type terms struct {
	cfg    Config
	margin int64 // the part of each TTL that is not trusted
	self   string
	now    Now
	seq    uint64 // of the last op
	epoch  epochState
	clock  clockState
	traces traces
}

// phase is where a lease stands for this instance.
type phase uint8

const (
	idle      phase = iota // not ours; the entry exists because the lease is wanted, watched or blocked
	acquiring              // asked for, not answered
	owned                  // ours until term.until
	releasing              // given back, not confirmed: nothing is acquired meanwhile
)

// queued stands in term.op while the lease is in a queue of this step.
const queued = ^uint64(0)

// term is what trust in one lease rests on.
type term struct {
	id    string
	fence int64
	until Time   // owned: end of the window
	op    uint64 // the only op whose answer counts for it; 0 none
	phase phase

	uncertain bool // an attempt failed: not believed until renewed
	reassert  bool // Redis forgot since it was last confirmed
}

// stamp returns the next op, in the epoch that is known. Trust is counted from its Sent, which precedes the send (I1).
func (k *terms) stamp(kind OpKind, items []Item) Op {
	k.seq++
	op := Op{
		Seq: k.seq, Kind: kind, Epoch: k.epoch.value, Owner: k.self, TTL: k.cfg.TTL, Fence: k.epoch.fence,
		Quarantine: k.quarantine(),
		Items:      items, Sent: k.now.Mono, offset: k.clock.offset, Deadline: k.now.Mono + Time(k.cfg.OpTimeout),
	}
	switch kind {
	case OpSupersede:
		op.Epoch = k.epoch.rejected
	case OpAcquire, OpRenew, OpReassert:
		op.Confirm = k.epoch.acks
	}
	return op
}

// item returns what t is asked for with (I4).
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

// stillFor reports whether t, queued for kind earlier in this step, is still to be asked for that: what came later in the
// step may have ended it, and one lease may stand in a queue twice.
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

// settles reports whether op is the one whose answer counts for t. It is under way no longer (I2).
func (k *terms) settles(op *Op, t *term) bool {
	if t.op != op.Seq {
		return false
	}
	t.op = 0
	return true
}

// window returns until when an answer to op gives trust (I1). What the wall clock gained meanwhile the monotonic one may have missed, also
// in pauses that are too short to be told as steps, however many.
func (k *terms) window(op *Op) Time {
	return op.Sent + Time(k.cfg.TTL-k.margin) - Time(max(0, k.clock.offset-op.offset))
}

// begin takes a grant. It reports whether a term began: where not, the key is ours all the same, and may be adopted.
func (k *terms) begin(t *term, op *Op, fence int64) bool {
	k.epoch.fence = max(k.epoch.fence, fence)
	until := k.window(op)
	if until <= k.now.Mono || op.Seq <= k.clock.stepped {
		k.traces.leave(t.id)
		return false
	}
	t.fence, t.until, t.phase = fence, until, owned
	t.uncertain, t.reassert = false, false
	return true
}

// extend takes a renewal, or a reassertion. An older answer shortens nothing. It reports whether the answer was worth anything.
func (k *terms) extend(t *term, op *Op) bool {
	until := k.window(op)
	if until <= k.now.Mono {
		return false
	}
	t.until = max(t.until, until)
	t.uncertain, t.reassert = false, false
	return true
}

// renewal returns how t is kept. After a quarantine it is too late to assert it; if the key is still there it can be renewed.
func (k *terms) renewal(t *term) OpKind {
	t.reassert = t.reassert && k.epoch.quarantine > k.now.Mono
	if t.reassert {
		return OpReassert
	}
	return OpRenew
}

// closed takes note that the quarantine is over for Redis: what is still there can be renewed.
func (k *terms) closed(t *term) { t.reassert = false }

// end ends t, which is no more ours as far as this instance is concerned. Whatever is still to be answered for it is void.
func (k *terms) end(t *term, to phase) {
	t.phase, t.op, t.until = to, 0, 0
	t.uncertain, t.reassert = false, false
}

// expiry is when a lease that had pttl left while op was under way expires, on the own clock.
func (k *terms) expiry(op *Op, pttl int64) Time {
	return op.Sent + (k.now.Mono-op.Sent)/2 + Time(pttl+Millisecond)
}

// heldUntil is when a lease that another holds is worth an attempt. A key without an end is a foreign hand's work: it is asked
// about once a TTL, not at the speed of the network.
func (k *terms) heldUntil(op *Op, pttl int64) Time {
	if pttl <= 0 {
		return k.now.Mono + Time(k.cfg.TTL)
	}
	return k.expiry(op, pttl)
}

// blocked returns until when safety allows no acquisition, and why; 0 if it does (I5, I6, I7).
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
// a term ended before its key. Only those are adopted. Any other lease in its name is that of another process with the same
// ID, or of an earlier life of this one, and is waited for as anybody else's (G1).
type traces struct {
	young, old map[string]struct{} // never ranged over
	aged       Time                // when old was last thrown away
}

// traceTTLs is how long a trace is kept at least, in TTLs: far longer than bytes are under way, and not for ever, because
// sessions come and go.
const traceTTLs = 100

func (t *traces) leave(id string) {
	if t.young == nil {
		t.young = map[string]struct{}{}
	}
	t.young[id] = struct{}{}
}

func (t *traces) has(id string) bool {
	if _, ok := t.young[id]; ok {
		return true
	}
	_, ok := t.old[id]
	return ok
}

func (t *traces) age(now Time, ttl int64) {
	if now-t.aged >= Time(traceTTLs*ttl) {
		t.young, t.old, t.aged = nil, t.young, now
	}
}
