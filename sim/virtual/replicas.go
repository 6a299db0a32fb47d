package virtual

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

func (p *peer) save() *dump {
	d := &dump{p.s.Copy(), p.backlog}
	d.records, d.written = slices.Clip(d.records), slices.Clip(d.written)
	return d
}

// reload restarts a replica from a dump. Half of the replicas need a full synchronization, as if the master's repl-backlog-size were too
// small. A server that is down or has become a master is left alone.
func (w *world) reload(s *server, d *dump) {
	p := s.peer
	if s.down || p.of == nil {
		return
	}
	w.killServer(s)
	s.Restore(d.data)
	p.backlog = d.backlog
	p.acked = min(p.acked, len(p.written))
	if w.sentinels.r.IntN(2) == 0 {
		p.id, p.id2 = w.sentinels.newID(), 0
	}
	w.startServer(s, false)
	w.note("%s is back out of a dump at %d", s.name(), p.offset())
}

// write appends a record to the stream and sends it to the replicas. A replica appends only its master's records.
func (p *peer) write(record redis.Change) {
	if p.of != nil && !p.applying {
		return
	}
	p.records, p.written = append(p.records, record), append(p.written, p.w.t)
	for _, x := range p.w.sentinels.peers {
		if x.of == p && x.linked {
			p.send(x)
		}
	}
}

// send sends x the missing part of the stream. One message at a time is in transit, which keeps their order.
func (p *peer) send(x *peer) {
	w := p.w
	if x.sent == 0 {
		x.sent = w.t
		link := x.link
		w.toServer(x, w.between(p, x), func() {
			if x.link == link {
				x.hear()
			}
		})
	}
	if x.sent == w.t {
		x.upTo = p.offset()
	}
}

func (p *peer) hear() {
	w, m := p.w, p.of
	p.sent = 0
	if !w.meet(p, m) {
		w.unlink(p)
		return
	}
	p.applying = true
	for p.offset() < p.upTo {
		before := p.offset()
		p.s.Apply(w.t, m.records[before-m.base])
		if p.offset() != before+1 {
			panic("virtual: a record of the stream is not one write")
		}
	}
	p.applying = false
	p.acknowledge()
	if m.offset() > p.upTo {
		m.send(p)
	}
}

func (p *peer) acknowledge() {
	w, m, link, offset := p.w, p.of, p.link, p.offset()
	w.toServer(m, w.between(p, m), func() {
		if a := &m.acks[p.s.number]; a.link == link && w.meet(p, m) {
			a.offset = max(a.offset, offset)
			w.tellAcked(m)
			w.wake(m)
		}
	})
}

func (p *peer) acknowledged(offset int) (n int64) {
	for _, a := range p.acks {
		if a.attached && a.offset >= offset {
			n++
		}
	}
	return n
}

func (w *world) thawStream(s *server) {
	p := s.peer
	due := p.frozen
	p.frozen = nil
	for _, f := range due { // arrivals race with the server's own timers
		w.after(upTo(w.sentinels.r, int64(40e3)), f)
	}
}

// confirm executes an op that needs acknowledgements in one pipeline: the script, WAIT and, after an acquisition, another read of the
// epoch.
func (w *world) confirm(s *server, m *message) {
	p := s.peer
	before := p.offset()
	s.Do(w.t, &m.op, &m.ans)
	x := &waiting{m: m}
	if p.offset() > before { // otherwise WAIT covers only earlier writes of the connection, acknowledged long ago
		x.offset = p.offset()
	}
	if p.of != nil || p.acknowledged(x.offset) >= m.op.Confirm {
		w.waited(p, x)
		return
	}
	m.refs++
	p.waits = append(p.waits, x)
	w.arm(m)
	w.toServer(p, int64(redisstore.Patience(time.Duration(m.op.Deadline-m.op.Sent))), func() {
		if i := slices.Index(p.waits, x); i >= 0 {
			p.waits = slices.Delete(p.waits, i, i+1)
			w.waited(p, x)
			w.release(m)
		}
	})
}

func (w *world) waited(p *peer, x *waiting) {
	m := x.m
	if p.of == nil { // a replica refuses WAIT
		m.ans.Acked = p.acknowledged(x.offset)
	}
	probe := core.Op{Kind: core.OpObserve, Owner: m.op.Owner, Epoch: m.op.Epoch, Quarantine: m.op.Quarantine}
	if m.op.Probes() && w.redirects(p, &probe) == "" {
		var after core.Answer
		p.s.Do(w.t, &probe, &after)
		m.ans.After = after.Epoch
	}
	w.reply(m)
}

// wake ends each WAIT that has its acknowledgements, or whose server is no longer a master.
func (w *world) wake(p *peer) {
	var over []*waiting
	p.waits = slices.DeleteFunc(p.waits, func(x *waiting) bool {
		done := p.of != nil || p.acknowledged(x.offset) >= x.m.op.Confirm
		if done {
			over = append(over, x)
		}
		return done
	})
	for _, x := range over {
		w.waited(p, x)
		w.release(x.m)
	}
}

// unlink ends a replica's connection to its master. If it runs and has a master, it tries to reconnect.
func (w *world) unlink(p *peer) {
	p.link++
	p.linked, p.copying, p.sent = false, false, 0
	w.attachSoon(p)
}

func (w *world) dropReplicas(p *peer) {
	clear(p.acks)
	p.s.Connected = 0
	for _, x := range w.sentinels.peers {
		if x.of == p {
			w.unlink(x)
		}
	}
}

func (w *world) attachSoon(p *peer) {
	if !p.trying && p.of != nil && !p.s.down {
		p.trying = true
		w.toServer(p, 1+upTo(w.sentinels.r, w.sentinels.downAfter/4), func() { p.trying = false; w.attach(p) })
	}
}

// attach is PSYNC.
func (w *world) attach(p *peer) {
	m := p.of
	switch {
	case m == nil || p.linked || p.copying:
		return
	case !w.meet(p, m) || m.of != nil || m.s.hold > 0 || m.s.loading > 0:
		w.attachSoon(p)
		return
	}
	p.link++
	at, same := p.offset(), p.id == m.id
	if (same && at <= m.offset() || !same && p.id == m.id2 && at < m.shared) && at >= m.base {
		m.s.SyncPartial++
		if !same {
			p.id2, p.shared, p.id = p.id, at+1, m.id
			w.dropReplicas(p)
		}
		w.attached(p, m)
		return
	}
	m.s.SyncFull++
	m.s.Relive()
	p.copying = true
	link, id, offset, copied := p.link, m.id, m.offset(), m.s.Copy()
	w.toServer(p, w.between(m, p)+upTo(w.sentinels.r, w.sentinels.downAfter/2), func() {
		switch {
		case p.link != link:
		case !w.meet(p, m) || m.id != id:
			w.unlink(p)
		default:
			p.s.Restore(copied)
			p.backlog, p.acked = backlog{id: id, base: offset}, 0
			w.dropReplicas(p)
			w.attached(p, m)
		}
	})
}

func (w *world) attached(p, m *peer) {
	m.s.Relive()
	p.linked, p.copying, p.upTo = true, false, p.offset()
	a := &m.acks[p.s.number]
	if !a.attached {
		m.s.Connected++
	}
	*a = acknowledgement{attached: true, link: p.link, offset: -1}
	w.note("%s is attached to %s at %d", p.s.name(), m.s.name(), p.offset())
	if m.offset() > p.offset() {
		m.send(p)
	} else {
		p.acknowledge()
	}
}

func (w *world) promote(p *peer) {
	p.of = nil
	w.unlink(p)
	p.s.Readonly--
	p.id2, p.shared, p.id = p.id, p.offset()+1, w.sentinels.newID()
	w.dropReplicas(p)
	w.note("%s is promoted", p.s.name())
}

func (w *world) follow(p, m *peer) {
	if p == m || p.of == m {
		return
	}
	if p.of == nil {
		p.s.Readonly++
	}
	p.of, p.owns, p.owned = m, false, false
	w.unlink(p)
	w.wake(p)
	w.demoteBlocked(p)
	w.retap()
	w.note("%s is told to follow %s", p.s.name(), m.s.name())
}

func (w *world) endStream(s *server) {
	p := s.peer
	for _, x := range p.waits {
		w.release(x.m)
	}
	p.waits, p.frozen, p.trying = nil, nil, false
	w.unlink(p)
	w.dropReplicas(p)
	w.note("%s is gone", s.name())
	w.retap()
}

// beginStream starts a process, empty or with its predecessor's data. A replica keeps its role and master.
func (w *world) beginStream(s *server, empty bool) {
	p := s.peer
	if empty {
		p.backlog, p.acked = backlog{id: w.sentinels.newID()}, 0
	} else if p.of == nil {
		p.id2, p.shared, p.id = p.id, p.offset()+1, w.sentinels.newID()
	}
	w.attachSoon(p)
	w.unready(p)
	w.note("%s is back, empty: %v", s.name(), empty)
	w.retap()
}
