package virtual

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// This file models replication: IDs, offsets, partial and full synchronization, acknowledgements, WAIT and INFO's counts. Tests check its
// assumptions on real servers (replicas_test.go, replication_test.go of internal/redisstore). Sentinels and clients are in sentinel.go.

// peer is a server's part in replication: its stream, written or received, and its replicas' acknowledgements.
type peer struct {
	w *world
	s *server

	shard *shard
	of    *peer // its master; nil: it is a master
	backlog
	acked    int    // number of its records that a majority has acknowledged, as recorded
	told     bool   // history includes this server,
	toldAs   string // under this name
	applying bool   // a record of the master is being applied

	// As a replica: the connection to its master.
	link    uint32 // number of the connection
	linked  bool   // attached
	copying bool   // a full synchronization is in progress
	trying  bool   // an attempt to attach is scheduled
	sent    int64  // true time at which the message in transit left the master; 0: none
	upTo    int    // offset at the end of that message
	lag     int64  // extra delay of each message
	zone    int32  // servers in the same zone reach each other; the sentinels are in 0
	pinned  int    // > 0: the sentinels do not change its master

	// As a master: its replicas.
	acks  []acknowledgement // by server number
	waits []*waiting

	frozen []func() // deferred while the process is frozen

	member // of a cluster
}

type backlog struct {
	id      int // of the stream (replication ID)
	id2     int // of the stream before the last promotion,
	shared  int // which is the same before this offset
	base    int // offset of the first record
	records []redis.Change
	written []int64 // time of each record
}

type acknowledgement struct {
	attached bool
	link     uint32 // connection that it belongs to
	offset   int    // highest acknowledged; -1: none
}

type waiting struct {
	m      *message
	offset int
}

func (b *backlog) offset() int { return b.base + len(b.records) }

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

func (w *world) between(a, b *peer) int64 {
	d := int64(w.cfg.Net.Delay) + upTo(w.sentinels.r, int64(w.cfg.Net.Delay+w.cfg.Net.Jitter))
	if w.sentinels.r.IntN(50) == 0 {
		d += upTo(w.sentinels.r, int64(w.cfg.OpTimeout))
	}
	return d + a.lag + b.lag
}

func (w *world) meet(a, b *peer) bool { return a.zone == b.zone && !a.s.down && !b.s.down }

// toServer calls f on a server after d. A frozen process runs f when thawed, and a process that has ended never does.
func (w *world) toServer(p *peer, d int64, f func()) {
	run := p.s.gen
	var due func()
	due = func() {
		switch {
		case p.s.gen != run || p.s.down:
		case p.s.hold > 0:
			p.frozen = append(p.frozen, due)
		default:
			f()
		}
	}
	w.after(d, due)
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

// wrote writes a record, which a replica repeats. If history includes the server, it gets the change.
func (p *peer) wrote(c redis.Change) {
	if c.Kind != redis.Added {
		p.write(c)
	}
	if p.told {
		p.w.show(p.s, c, false)
	}
}
