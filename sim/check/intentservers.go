package check

import "github.com/leasestorm/leasestorm/sim/history"

// With replicas, the state of intents is that of the master that the sentinels know. When another server takes its place, its tap
// shows the copied data. Everything else is lost, as in a loss of data. The judge expects nothing of sessions that only another
// server has, or of the answers about them.

// follow tracks the data that another master shows.
func (b *intents) follow(e *history.Event) {
	switch {
	case !b.w.replicated():
	case e.Kind == history.TapUp:
		b.showing = true
		for _, s := range b.order {
			s.seen, s.stopped = false, 0
		}
	case b.showing && (!e.Kind.OfRedis() && !e.Kind.OfRecords() || e.N != 1 && e.Reason != snapshotReason): // no such data
		b.showing = false
		b.copied()
	}
}

// copied handles the end of the copied data. For sessions that are not in order at the new master, the waits begin anew.
func (b *intents) copied() {
	for _, s := range b.order {
		if !s.seen && s.state != "" {
			b.set(s, "", "")
			s.starts, s.lost = 0, true
		}
		if b.w.servers.switched == b.w.now {
			s.disorder.from = b.w.now
		}
	}
	b.changed = b.order
}

// aside records the data of a server other than the master that the sentinels know.
func (b *intents) aside(e *history.Event) {
	switch e.Kind {
	case history.RedisState:
		if s := b.session(e.Session); s.state == "" {
			s.lost = true
		}
	case history.RedisIntent:
		if e.Reason == "start" {
			b.session(e.Session).published = true
		}
	case history.RedisKeyed:
		b.keyed(e)
	}
}

// published handles an event for the workers, or a stop in a record.
func (b *intents) published(e *history.Event) {
	s := b.session(e.Session)
	switch {
	case e.Reason == "start":
		s.starts++
		s.published = true
	case b.w.replicated():
		b.stops(s)
	}
}

func (b *intents) keyed(e *history.Event) {
	if v := b.key(e.Reason); v.first == nil {
		v.first, v.firstAt = b.session(e.Session), e.T
	}
}

// ledSince reports whether a process' requests since then went to the master that the sentinels know.
func (b *intents) ledSince(n *node, since int64) bool {
	x := &b.w.servers
	return !b.w.replicated() || !b.w.allows(otherMasters) || x.led(n) <= since && x.switched <= since
}

// staff tracks whether a worker is there. A process that gets requests for starts and has never acquired a lease is only an API.
func (b *intents) staff() {
	for _, n := range b.w.fleet.nodes {
		if i := n.current; i != nil && i.ready && !i.gone && !b.apis[n.name] {
			if b.staffedSince < 0 {
				b.staffedSince = b.w.now
			}
			return
		}
	}
	b.staffedSince = -1
}

// availableSince returns the earliest time, not before since, from which a worker has been there.
func (b *intents) availableSince(since int64) int64 {
	if b.staffedSince < 0 {
		return b.w.now
	}
	return max(since, b.staffedSince)
}

func (b *intents) lost() {
	b.lostAt = b.w.now
	b.unknown()
	for _, s := range b.order {
		b.set(s, "", "")
		s.stopped, s.disorder.from = 0, b.w.now
	}
	b.changed = b.order
}

func (b *intents) unknown() {
	for _, v := range b.wants {
		v.inForce = nil
	}
}
