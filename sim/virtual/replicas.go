package virtual

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// This file models replication: IDs, offsets, partial and full synchronization, acknowledgements, WAIT and INFO's counts. Tests check its
// assumptions on real servers (replicas_test.go, replication_test.go of internal/redisstore). Sentinels and clients are in sentinel.go.

// peer is a server's part in replication: its stream, written or received, and its replicas' acknowledgements.
type peer struct {
	se *sentinels
	s  *server

	shard *shard
	of    *peer // its master; nil: it is a master
	attachment
	backlog
	applying bool  // a record of the master is being applied
	lag      int64 // extra delay of each message
	zone     int32 // servers in the same zone reach each other; the sentinels are in 0
	pinned   int   // > 0: the sentinels do not change its master

	// As a master: its replicas.
	acks  []acknowledgement // by server number
	waits []*waiting

	frozen []func() // deferred while the process is frozen

	recorded
	member // of a cluster
}

// recorded is what history includes of a server.
type recorded struct {
	told   bool   // its stream,
	toldAs string // under this name
	acked  int    // number of its records that a majority has acknowledged
}

// attachment is a replica's connection to its master.
type attachment struct {
	link    uint32 // number of the connection
	linked  bool   // attached
	copying bool   // a full synchronization is in progress
	trying  bool   // an attempt to attach is scheduled
	sent    int64  // true time at which the message in transit left the master; 0: none
	upTo    int    // offset at the end of that message
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

// dump is a replica's data and offset on disk, where it resumes if its master still has the rest (TestOldDump of internal/redisstore).
type dump struct {
	data *redis.Data
	backlog
}

func (p *peer) save() *dump {
	d := &dump{p.s.Copy(), p.backlog}
	d.records, d.written = slices.Clip(d.records), slices.Clip(d.written)
	return d
}

// reload restarts a replica from a dump. Half of the replicas need a full synchronization, as if the master's repl-backlog-size
// were too small. reload does nothing if the server is down or has become a master.
func (p *peer) reload(d *dump) {
	s := p.s
	if s.down || p.of == nil {
		return
	}
	s.kill()
	s.Restore(d.data)
	p.backlog = d.backlog
	p.acked = min(p.acked, len(p.written))
	if p.se.r.IntN(2) == 0 {
		p.id, p.id2 = p.se.newID(), 0
	}
	s.start(false)
	p.se.note("%s is back out of a dump at %d", s.name(), p.offset())
}

// write appends a record to the stream and sends it to the replicas. A replica appends only its master's records.
func (p *peer) write(record redis.Change) {
	if p.of != nil && !p.applying {
		return
	}
	p.records, p.written = append(p.records, record), append(p.written, p.se.t)
	for _, x := range p.se.peers {
		if x.of == p && x.linked {
			p.send(x)
		}
	}
}

// send sends x the missing part of the stream. One message at a time is in transit, which keeps their order.
func (p *peer) send(x *peer) {
	if x.sent == 0 {
		x.sent = p.se.t
		link := x.link
		x.later(p.between(x), func() {
			if x.link == link {
				x.hear()
			}
		})
	}
	if x.sent == p.se.t {
		x.upTo = p.offset()
	}
}

func (p *peer) hear() {
	m := p.of
	p.sent = 0
	if !p.meets(m) {
		p.unlink()
		return
	}
	p.applying = true
	for p.offset() < p.upTo {
		before := p.offset()
		p.s.Apply(p.se.t, m.records[before-m.base])
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
	m, link, offset := p.of, p.link, p.offset()
	m.later(p.between(m), func() {
		if a := &m.acks[p.s.number]; a.link == link && p.meets(m) {
			a.offset = max(a.offset, offset)
			m.tellAcked()
			m.wake()
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

func (p *peer) thaw() {
	due := p.frozen
	p.frozen = nil
	for _, f := range due { // arrivals race with the server's own timers
		p.se.after(upTo(p.se.r, int64(40e3)), f)
	}
}

// confirm executes an op that needs acknowledgements in one pipeline: the script, WAIT and, after an acquisition, another read of the
// epoch.
func (p *peer) confirm(m *message) {
	before := p.offset()
	p.s.Do(p.se.t, &m.op, &m.ans)
	x := &waiting{m: m}
	if p.offset() > before { // otherwise WAIT covers only earlier writes of the connection, acknowledged long ago
		x.offset = p.offset()
	}
	if p.of != nil || p.acknowledged(x.offset) >= m.op.Confirm {
		p.waited(x)
		return
	}
	m.refs++
	p.waits = append(p.waits, x)
	p.se.servers.net.arm(m)
	p.later(int64(redisstore.Patience(time.Duration(m.op.Deadline-m.op.Sent))), func() {
		if i := slices.Index(p.waits, x); i >= 0 {
			p.waits = slices.Delete(p.waits, i, i+1)
			p.waited(x)
			p.se.servers.net.release(m)
		}
	})
}

func (p *peer) waited(x *waiting) {
	m := x.m
	if p.of == nil { // a replica refuses WAIT
		m.ans.Acked = p.acknowledged(x.offset)
	}
	probe := core.Op{Kind: core.OpObserve, Owner: m.op.Owner, Epoch: m.op.Epoch, Quarantine: m.op.Quarantine}
	if m.op.Probes() && p.redirects(&probe) == "" {
		var after core.Answer
		p.s.Do(p.se.t, &probe, &after)
		m.ans.After = after.Epoch
	}
	p.se.servers.reply(m)
}

// wake ends each WAIT that has its acknowledgements, or whose server is no longer a master.
func (p *peer) wake() {
	var over []*waiting
	p.waits = slices.DeleteFunc(p.waits, func(x *waiting) bool {
		done := p.of != nil || p.acknowledged(x.offset) >= x.m.op.Confirm
		if done {
			over = append(over, x)
		}
		return done
	})
	for _, x := range over {
		p.waited(x)
		p.se.servers.net.release(x.m)
	}
}

// unlink ends a replica's connection to its master. If it runs and has a master, it tries to reconnect.
func (p *peer) unlink() {
	p.link++
	p.linked, p.copying, p.sent = false, false, 0
	p.attachSoon()
}

func (p *peer) dropReplicas() {
	clear(p.acks)
	p.s.Connected = 0
	for _, x := range p.se.peers {
		if x.of == p {
			x.unlink()
		}
	}
}

func (p *peer) attachSoon() {
	if !p.trying && p.of != nil && !p.s.down {
		p.trying = true
		p.later(1+upTo(p.se.r, p.se.downAfter/4), func() { p.trying = false; p.attach() })
	}
}

// attach is PSYNC.
func (p *peer) attach() {
	m := p.of
	switch {
	case m == nil || p.linked || p.copying:
		return
	case !p.meets(m) || m.of != nil || m.s.hold > 0 || m.s.loading > 0:
		p.attachSoon()
		return
	}
	p.link++
	at, same := p.offset(), p.id == m.id
	if (same && at <= m.offset() || !same && p.id == m.id2 && at < m.shared) && at >= m.base {
		m.s.SyncPartial++
		if !same {
			p.id2, p.shared, p.id = p.id, at+1, m.id
			p.dropReplicas()
		}
		p.attached(m)
		return
	}
	m.s.SyncFull++
	m.s.Relive()
	p.copying = true
	link, id, offset, copied := p.link, m.id, m.offset(), m.s.Copy()
	p.later(m.between(p)+upTo(p.se.r, p.se.downAfter/2), func() {
		switch {
		case p.link != link:
		case !p.meets(m) || m.id != id:
			p.unlink()
		default:
			p.s.Restore(copied)
			p.backlog, p.acked = backlog{id: id, base: offset}, 0
			p.dropReplicas()
			p.attached(m)
		}
	})
}

func (p *peer) attached(m *peer) {
	m.s.Relive()
	p.linked, p.copying, p.upTo = true, false, p.offset()
	a := &m.acks[p.s.number]
	if !a.attached {
		m.s.Connected++
	}
	*a = acknowledgement{attached: true, link: p.link, offset: -1}
	p.se.note("%s is attached to %s at %d", p.s.name(), m.s.name(), p.offset())
	if m.offset() > p.offset() {
		m.send(p)
	} else {
		p.acknowledge()
	}
}

func (p *peer) promote() {
	p.of = nil
	p.unlink()
	p.s.Readonly--
	p.id2, p.shared, p.id = p.id, p.offset()+1, p.se.newID()
	p.dropReplicas()
	p.se.note("%s is promoted", p.s.name())
}

func (p *peer) follow(m *peer) {
	if p == m || p.of == m {
		return
	}
	if p.of == nil {
		p.s.Readonly++
	}
	p.of, p.owns, p.owned = m, false, false
	p.unlink()
	p.wake()
	p.demoteBlocked()
	p.se.retap()
	p.se.note("%s is told to follow %s", p.s.name(), m.s.name())
}

func (p *peer) end() {
	for _, x := range p.waits {
		p.se.servers.net.release(x.m)
	}
	p.waits, p.frozen, p.trying = nil, nil, false
	p.unlink()
	p.dropReplicas()
	p.se.note("%s is gone", p.s.name())
	p.se.retap()
}

// begin starts a process, empty or with its predecessor's data. A replica keeps its role and master.
func (p *peer) begin(empty bool) {
	if empty {
		p.backlog, p.acked = backlog{id: p.se.newID()}, 0
	} else if p.of == nil {
		p.id2, p.shared, p.id = p.id, p.offset()+1, p.se.newID()
	}
	p.attachSoon()
	p.unready()
	p.se.note("%s is back, empty: %v", p.s.name(), empty)
	p.se.retap()
}

func (b *backlog) offset() int { return b.base + len(b.records) }

func (p *peer) between(b *peer) int64 {
	d := int64(p.se.cfg.Net.Delay) + upTo(p.se.r, int64(p.se.cfg.Net.Delay+p.se.cfg.Net.Jitter))
	if p.se.r.IntN(50) == 0 {
		d += upTo(p.se.r, int64(p.se.cfg.OpTimeout))
	}
	return d + p.lag + b.lag
}

func (p *peer) meets(b *peer) bool { return p.zone == b.zone && !p.s.down && !b.s.down }

// later calls f on a server after d. A frozen process runs f when thawed, and a process that has ended never does.
func (p *peer) later(d int64, f func()) {
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
	p.se.after(d, due)
}

func (p *peer) visible() bool { return p.zone == 0 && !p.s.down && p.s.hold == 0 }

func (p *peer) acts() bool { return p.of == nil && !p.s.down && (p.owned || !p.se.servers.clustered()) }

// tellAcked records up to which time a majority has acknowledged a master's writes.
func (p *peer) tellAcked() {
	k := p.se.majority()
	if !p.told || k == 0 {
		return
	}
	offsets := make([]int, 0, len(p.acks))
	for _, a := range p.acks {
		if a.attached {
			offsets = append(offsets, a.offset)
		}
	}
	if len(offsets) < k {
		return
	}
	slices.Sort(offsets)
	at := offsets[len(offsets)-k] - p.base
	if at <= p.acked || at > len(p.written) {
		return
	}
	p.acked = at
	p.se.emit(history.Event{Kind: history.RedisAcked, Node: p.toldAs, Until: p.written[at-1]})
}

func (p *peer) serves() bool {
	s := p.s
	if p.of != nil || s.down || p.refusesAll() || s.hold > 0 || s.loading > 0 || s.Refuses() {
		return false
	}
	n := 0
	for _, x := range p.se.peers {
		if a := p.acks[x.s.number]; x.of == p && x.linked && x.meets(p) && x.s.hold == 0 && a.link == x.link && a.offset >= 0 {
			n++
		}
	}
	return n >= p.se.majority()
}
