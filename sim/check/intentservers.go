package check

import "github.com/leasestorm/leasestorm/sim/history"

// The book of intents, of a Redis with replicas, is of the master that the sentinels know. Another master has its data as far as they were
// copied to it, and what its tap shows when it opens says how far that is: what it does not show is lost, as by a loss of data, and what it
// does is due. What only another server knows, as an old master that lives on, nobody else can; so are its answers.

// follow records what another master holds.
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

// shows reports whether the event is of what stood there when a tap opened.
func shows(e *history.Event) bool {
	return (e.Kind.OfRedis() || e.Kind.OfRecords()) && (e.N == 1 || e.Reason == snapshotReason)
}

// copied: all that the master holds has been shown. What is not in order at another master is waited for anew.
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
			s.pending.since = b.w.now
		}
	}
}

// aside records what a server holds that is not the master that the sentinels know.
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

// published: an event for the workers, or a stop that stands in a record.
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

// ledSince reports whether what a process asked since then it asked the master that the sentinels know.
func (b *intents) ledSince(node string, since int64) bool {
	if !b.w.replicated() {
		return true
	}
	x, n := &b.w.servers, b.w.node(node)
	return x.astray[n] == nil && x.led[n] <= since && x.switched <= since
}
