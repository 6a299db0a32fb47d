package core

import "github.com/leasestorm/leasestorm/internal/place"

// holder keeps the terms of the leases that this instance holds: it renews, doubts and loses them.
type holder struct {
	*base
	entries *entries
	silence *silence
}

// renew renews a held lease unless a request for it is under way. In a silence it doubts the lease.
func (h *holder) renew(l *lease) {
	switch {
	case h.silence.on:
		h.doubt(l, CauseNoAnswer, h.silence.text)
	case l.Op() == 0:
		h.requestRenew(l)
	}
}

// armHeld sets l's timer to the end of its window, or to its next renewal if its TTL is too short for the renewal tick.
func (h *holder) armHeld(l *lease) {
	at := l.Until()
	if l.TTL() < h.cfg.TTL {
		at = min(at, h.k.Now()+Time(l.TTL()/3))
	}
	h.timers.armLease(l, at)
}

// renewNow renews one held lease before its tick, unless a request for it is under way or Redis is silent.
func (h *holder) renewNow(id string) {
	if l := h.entries.leases[id]; l != nil && l.Phase() == owned && l.Op() == 0 && !h.silence.on {
		h.requestRenew(l)
	}
}

func (h *holder) requestRenew(l *lease) {
	h.req.add(h.k.Renewal(&l.Term), l)
}

func (h *holder) renewAnswered(in *inflight, a *Answer) {
	for i, l := range in.leases {
		if !h.k.Settles(&in.op, &l.Term) {
			continue
		}
		if a.Stale {
			h.requestRenew(l)
			continue
		}
		switch r := &a.Results[i]; r.Outcome {
		case OutRenewed, OutReasserted:
			h.renewed(l, in)
		case OutLost:
			cause := CauseGone
			if r.Owner != "" {
				cause = CauseTaken
			}
			h.lost(l, cause, r.Owner)
		case OutSuperseded:
			h.lost(l, CauseSuperseded, r.Owner)
		case OutClosed:
			l.Closed()
			h.requestRenew(l)
		case OutWrongType:
			h.lost(l, CauseWrongType, "")
		default:
			h.doubt(l, CauseFailed, a.Text)
			h.requestRenew(l)
		}
	}
}

// renewed extends a term. If the answer came after the end of the window that it gives, renewed doubts the term and renews it
// again.
func (h *holder) renewed(l *lease, in *inflight) {
	w, ok := h.k.Extend(&l.Term, &in.op)
	if !ok {
		h.doubt(l, CauseNoAnswer, "answered after its own window")
		h.requestRenew(l)
		return
	}
	h.tells.tell(Tell{Kind: TellRenewed, Doubted: w.Doubted, ID: w.ID, Fence: w.Fence, Until: w.Until, UntilWall: w.UntilWall,
		Sent: in.op.Sent})
}

// doubt makes a term uncertain: no work begins under it until it is renewed (G4).
func (h *holder) doubt(l *lease, cause Cause, text string) {
	if w, ok := h.k.Doubt(&l.Term); ok {
		h.tells.tell(Tell{Kind: TellUncertain, Cause: cause, Again: w.Doubted, ID: w.ID, Fence: w.Fence, Until: w.Until, UntilWall: w.UntilWall,
			Text: text})
	}
}

func (h *holder) lost(l *lease, cause Cause, owner string) {
	h.entries.unhold(l, idle)
	h.k.Trace(l.ID(), l.TTL())
	l.holder = owner
	h.tells.tell(Tell{Kind: TellLost, Cause: cause, ID: l.ID(), Fence: l.Fence(), Owner: owner})
	h.table.OwnedBy(l.session, owner)
	placed := l.place
	l.want, l.wait, l.place = false, false, false
	if !l.stuck {
		h.entries.forget(l)
	}
	if placed && !h.silence.on {
		h.table.Discover(place.DiscoverLost)
	}
}

// yield makes the shell end the work under l. The release follows with the shell's EvDrop, not before the work has ended: otherwise two
// instances would work under the lease.
func (h *holder) yield(l *lease, to string, cause Cause) {
	l.yielding = true
	l.heir, l.cause, l.since = to, cause, h.k.Now()
	h.tells.tell(Tell{Kind: TellYield, Cause: cause, ID: l.ID(), Fence: l.Fence(), Owner: to})
}

func (h *holder) keep(l *lease, cause Cause) {
	l.yielding, l.heir = false, ""
	h.tells.tell(Tell{Kind: TellKept, Cause: cause, ID: l.ID(), Fence: l.Fence()})
}

// stepped shortens and doubts all terms, because the own clocks stepped.
func (h *holder) stepped(step int64) {
	for _, l := range h.entries.held {
		if h.k.Shift(&l.Term, step) {
			h.timers.armLease(l, max(l.Until(), h.k.Now()))
		}
		h.doubt(l, CauseClock, "")
		h.requestRenew(l)
	}
}

// forgotten doubts all terms, because Redis lost its data and epoch began. It reasserts them, or renews them if the quarantine is over.
func (h *holder) forgotten(epoch string) {
	if h.k.Replicated() { // each attachment of a replica ends an epoch, so earlier failures are no reason to wait
		h.paces.of[OpReassert] = pace{}
	}
	for _, l := range h.entries.held {
		if l.yielding && l.cause == CauseRebalance && !h.own.Leaving() {
			h.keep(l, CauseForgot) // in a quarantine nobody could acquire it; a draining instance keeps nothing
		}
		l.Forgot()
		h.doubt(l, CauseForgot, epoch)
		h.requestRenew(l)
	}
}

// catchUp renews what a silence kept from being renewed.
func (h *holder) catchUp() {
	h.own.Refresh()
	for _, l := range h.entries.held {
		if (l.Uncertain() || l.Forgotten()) && l.Op() == 0 {
			h.requestRenew(l)
		}
	}
}
