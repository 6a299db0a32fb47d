package core

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/place"
)

// heartbeats sets this instance's heartbeat and reads those of the others.
type heartbeats struct {
	*base
	entries  *entries
	balancer *balancer
}

// beat sets the heartbeat once the renewals under way are answered, so that it expires no later than any held lease. The others watch
// it in place of the leases, so it must not outlive them (G5).
func (h *heartbeats) beat() {
	if !h.own.BeatDue() || h.paces.paced(OpBeat) || h.req.underWay.any(OpRenew, OpReassert) {
		return
	}
	if !h.own.Beat() {
		return
	}
	ttl := h.cfg.TTL
	for _, l := range h.entries.held {
		if l.Until() > h.k.Now() {
			ttl = min(ttl, int64(l.Until()-h.k.Now())+h.cfg.Margin())
		}
	}
	h.req.send(OpBeat, nil, nil, func(in *inflight) {
		in.op.TTL = ttl / Millisecond * Millisecond
		h.own.BeatSent(in.op.Deadline + Time(ttl))
	})
}

// read requests the heartbeats that may have expired or changed.
func (h *heartbeats) read() {
	if !h.members.Reading(h.req.underWay.any) || h.paces.paced(OpNodes) {
		return
	}
	for items := range slices.Chunk(h.members.Reads(), h.cfg.Batch) {
		h.req.send(OpNodes, items, nil)
	}
}

func (h *heartbeats) answered(in *inflight, a *Answer) {
	for k, it := range in.op.Items {
		switch r := &a.Results[k]; r.Outcome {
		case OutUnknown:
			h.members.Unread(it.ID)
		case OutGone:
			if i, gone := h.members.Absent(&in.op, it.ID); gone {
				h.balancer.watch(i)
				h.table.Discover(place.DiscoverGone)
			}
		default:
			i, news, overdue := h.members.Present(&in.op, it.ID, r.PTTL)
			if overdue {
				h.balancer.watch(i)
			}
			if news {
				h.table.Discover(place.DiscoverJoined)
			}
		}
	}
}
