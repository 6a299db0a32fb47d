package replicamodel

import "math"

// epoch is what a client knows of a marker. The zero value is that of a client that knows none.
type epoch struct{ life, attached, k, begin int }

func (m *marker) epoch() epoch { return epoch{m.life, m.attached, m.k, m.begin} }

// request is what a script is told beside what it is to do.
type request struct {
	epoch epoch
	k     int // the caller's own

	confirmed   epoch // Confirm: an epoch in which an answer to the caller was acknowledged,
	confirmedAt float64
}

// reply is what a client is told at the end of a call.
type reply struct {
	epoch       epoch // the op's
	now         epoch // the probe's
	num         int
	at          float64 // the master's time
	void        bool
	quarantined bool
	counts      bool // acknowledged, and the epoch is the same still
}

func (w *world) life(n *node) int {
	if w.p.Life == LifeRun {
		return n.run
	}
	return n.replid
}

// attachments is the part of the epoch that grows when a replica attaches itself. Who counts on no replica does not look.
func (w *world) attachments(n *node, k int) int {
	switch {
	case k == 0 || w.p.drops("attachments"):
		return 0
	case w.p.Attached == AttachedFull || w.p.drops("partial"):
		return n.full
	case w.p.Attached == AttachedAll:
		return n.full + n.partial
	}
	return 0
}

func (w *world) quarantine() float64 {
	switch {
	case w.p.drops("length"):
		return ttl / 2
	case w.p.drops("quarantine"):
		return 0
	case w.p.Ack == AckRecent:
		return ttl + recent + 20
	}
	return ttl
}

// mayAsk reports whether a script that brings k is let in at all.
func (w *world) mayAsk(m *marker, k int) bool {
	return w.p.K != KRefuse || m.life == 0 || m.k == k
}

// guard is epoch.lua: it begins an epoch where the marker is missing, or is another life's, or says another number of attachments, or
// a smaller k than the caller brings.
func (w *world) guard(n *node, s *store, q request) {
	m, now := &s.marker, w.time(n)
	k := q.k
	if w.p.K == KHigher && m.life != 0 {
		k = max(k, m.k)
	}
	if w.p.K == KIgnored {
		k = 1 // attachments are looked at
	}
	if m.life != w.life(n) || m.k != k || m.attached != w.attachments(n, k) || w.forgot(m, q, now) {
		w.begin(n, s, k)
	}
	if q.confirmed == m.epoch() && m.life != 0 {
		if math.IsInf(m.until, 1) {
			m.until = now + w.quarantine()
		}
		m.confirmed = max(m.confirmed, q.confirmedAt)
	}
	if m.until < now && m.confirmed == 0 {
		m.confirmed = now
	}
}

// forgot reports whether the epoch was confirmed too long ago.
func (w *world) forgot(m *marker, q request, now float64) bool {
	if w.p.Forget == 0 || math.IsInf(m.until, 1) || now-m.confirmed <= w.p.Forget {
		return false
	}
	return q.confirmed != m.epoch() || now-q.confirmedAt > w.p.Forget
}

// begin makes all that was granted before void.
func (w *world) begin(n *node, s *store, k int) {
	now := w.time(n)
	s.marker = marker{
		life: w.life(n), attached: w.attachments(n, k), k: k, begin: w.id(), num: s.marker.num + 1,
		until: now + w.quarantine(), confirmed: now,
	}
	if w.p.Confirm {
		s.marker.until = math.Inf(1)
	}
	w.books.epochs++
	w.say("%s: an epoch begins (k %d)", letter(n.id), k)
}

// script runs one at a master. Whatever it changed enters the stream.
func (w *world) script(n *node, q request, op func(s *store, quarantined bool)) (r reply, ok bool) {
	before := n.data()
	s := before
	if n.moved || !w.mayAsk(&s.marker, q.k) {
		return reply{}, false
	}
	w.guard(n, &s, q)
	r.epoch, r.num, r.at = s.marker.epoch(), s.marker.num, w.time(n)
	r.void = r.epoch != q.epoch && !w.p.drops("epoch")
	r.quarantined = r.at < s.marker.until
	if !r.void && op != nil {
		op(&s, r.quarantined)
	}
	if s != before {
		n.write(s)
	}
	return r, true
}

// needed is how many replicas have to acknowledge.
func (w *world) needed(q request, n *node, extends bool) int {
	k := q.k
	if w.p.K == KHigher {
		k = max(k, q.epoch.k)
	}
	switch {
	case w.p.Ack == AckNone, w.p.Ack == AckRecent, w.p.drops("wait"):
		return 0
	case w.p.Ack == AckAll:
		k = w.s.Nodes - 1
	case w.p.drops("configured"):
		k = min(k, len(n.attached))
	case w.p.drops("majority"):
		k--
	case w.p.drops("renewal") && extends:
		k--
	}
	return k
}

// call is one pipeline on one connection: a script, WAIT, and the probe. done is called when the client hears of its end, if ever.
func (w *world) call(c *client, extends bool, op func(n *node, s *store, quarantined bool), done func(reply)) {
	n, q := w.nodes[c.to], request{c.epoch, c.k, c.confirmed, c.confirmedAt}
	fate := w.r.IntN(20) // 0: lost on its way, 1: on its way back
	if w.calm {
		fate = 2
	}
	if fate == 0 {
		return
	}
	w.toNode(n, w.delay(), func() {
		if n.away || !w.clientMeets(c, n) {
			return
		}
		if !n.master() || n.moved { // READONLY, MOVED
			if c.to == n.id {
				w.retarget(c)
			}
			return
		}
		k := w.needed(q, n, extends)
		if w.p.Ack == AckRecent && n.acknowledgedSince(w.now-recent) < majority(w.s.Nodes) {
			return // NOREPLICAS
		}
		r, ok := w.script(n, q, func(s *store, quarantined bool) { op(n, s, quarantined) })
		if !ok {
			return
		}
		answer := func(r reply) {
			if fate != 1 && w.clientMeets(c, n) {
				w.toClient(c, w.delay(), func() { done(r) })
			}
		}
		if w.p.drops("pending") && extends {
			r.now, r.counts = r.epoch, true
			answer(r)
			return
		}
		w.wait(n, k, func(acknowledged bool) { answer(w.probed(n, q, extends, r, acknowledged)) })
	})
}

// probed ends a call: after WAIT the epoch is read again.
func (w *world) probed(n *node, q request, extends bool, r reply, acknowledged bool) reply {
	r.now = r.epoch
	if w.p.Ack == AckNone || w.p.drops("probe") || w.p.Lean && extends || w.needed(q, n, false) == 0 && w.p.Ack == AckMajority {
		r.counts = acknowledged
		return r
	}
	after, ok := w.script(n, q, nil)
	if ok {
		r.now = after.epoch
	}
	r.counts = acknowledged && ok && after.epoch == r.epoch
	return r
}

// wait is WAIT at a master. A demotion or the end of the process ends it without an answer.
func (w *world) wait(n *node, k int, end func(acknowledged bool)) {
	offset := n.offset
	if w.p.drops("connection") {
		offset = 0
	}
	if n.acknowledging(offset) >= k {
		end(true)
		return
	}
	x := &waiting{offset: offset, k: k}
	ended := false
	x.end = func(acknowledged bool) {
		if !ended {
			ended = true
			end(acknowledged)
		}
	}
	n.waits = append(n.waits, x)
	run := n.run
	w.toNode(n, ttl*(0.1+w.r.Float64()*0.4), func() {
		if n.master() && n.run == run {
			x.end(false)
		}
	})
}

func (w *world) retarget(c *client) {
	var masters []int
	for _, n := range w.nodes {
		if n.master() && !n.away && !n.moved {
			masters = append(masters, n.id)
		}
	}
	if len(masters) > 0 {
		c.to = masters[w.r.IntN(len(masters))]
	}
}

// majority is k for so many nodes: as many replicas as, with the master, are more than half.
func majority(nodes int) int { return nodes / 2 }
