package check

import "github.com/leasestorm/leasestorm/sim/history"

// With replicas, the state of intents is that of the master that the sentinels know. When another server takes its place, its tap shows
// the copied data. Everything else is lost, as in a loss of data. What only another server has is due nowhere, and neither are its
// answers.

// follow tracks the data that another master shows.
func (b *intents) follow(e *history.Event) {
	b.shown = false
	switch {
	case !b.w.replicated():
	case e.Kind == history.TapUp:
		b.showing = true
		for _, s := range b.order {
			s.seen, s.stopped = false, 0
		}
	case b.showing && !shows(e):
		b.showing, b.shown = false, true
		b.copied()
	}
}

// shows reports whether the event shows data that existed when a tap opened.
func shows(e *history.Event) bool {
	return (e.Kind.OfRedis() || e.Kind.OfRecords()) && (e.N == 1 || e.Reason == snapshotReason)
}

// copied handles the end of that data. The waits for sessions that are not in order at another master begin anew.
func (b *intents) copied() {
	another := b.w.servers.switched == b.w.now
	for _, s := range b.order {
		s.starts = min(s.starts, 1)
		if !s.seen && s.state != "" {
			delete(b.running, s.id)
			s.state, s.reason, s.since, s.starts, s.lost = "", "", b.w.now, 0, true
			b.count(s)
		}
		if another && s.pending != nil {
			s.pending.from = b.w.now
		}
	}
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
	}
}

// published handles an event for the workers, or a stop in a record.
func (b *intents) published(e *history.Event) {
	s := b.session(e.Session)
	switch {
	case e.Reason == "start":
		s.starts++
		s.published = true
	case b.w.replicated() && s.stopped == 0:
		s.stopped = e.T
	}
}

// ledSince reports whether a process' requests since then went to the master that the sentinels know.
func (b *intents) ledSince(node string, since int64) bool {
	if !b.w.replicated() {
		return true
	}
	x, n := &b.w.servers, b.w.node(node)
	return x.led(n) <= since && x.switched <= since
}

// staff tracks whether a worker is there. A process that gets requests for starts and has never acquired a lease is only an API.
func (b *intents) staff() {
	for _, n := range b.w.nodes {
		if i := n.current; i != nil && i.ready && !i.gone && (b.acquirers[n.name] || !b.asked[n.name]) {
			if b.staffedSince < 0 {
				b.staffedSince = b.w.now
				b.detected()
			}
			return
		}
	}
	b.staffedSince = -1
}

func (b *intents) lost() {
	b.lostAt = b.w.now
	b.unknown()
	clear(b.running)
	for _, s := range b.order {
		s.state, s.reason, s.since, s.stopped = "", "", b.w.now, 0
		b.count(s)
		if s.pending != nil {
			s.pending.from = b.w.now
		}
	}
}

func (b *intents) unknown() {
	b.unknownAt = b.w.now
	for _, v := range b.wants {
		v.inForce = nil
	}
}
