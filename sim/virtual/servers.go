package virtual

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

type blockedRead struct {
	m   *message
	key string
}

// cluster models what matters to leases in a Redis Cluster. All keys of a group are in one slot, so only its shard matters. Failover is
// in sentinel.go: the masters of two shards and a third, which only votes, replace the sentinels. In addition, a server without a
// majority stops serving, and the slot may move to the other shard. cluster_real_test.go compares the model with real servers.
type cluster struct{ move *move }

type member struct {
	owns   bool   // it believes that it is the master of the leases' slot
	owned  bool   // owns, or lost the slot in a move; its earlier writes may still be acknowledged
	turn   uint32 // counts calls of ready; only the last has an effect
	alone  bool   // it hears no majority
	failed bool   // it serves nobody (CLUSTERDOWN)
}

type move struct {
	from, to *peer
	runs     [2]uint32 // generations of both processes, which forget the move when they end
	pause    int64     // maximum between two commands, ns
}

// dump is a replica's data and offset on disk, where it resumes if its master still has the rest (TestOldDump of internal/redisstore).
type dump struct {
	data *redis.Data
	backlog
}

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

// sentinels decide which server is the master. They replace a master that is out of sight for a while by a replica, and later make the
// other servers follow it. Clients learn of it at different times, or when their connections break. Meanwhile, cut-off, frozen or
// uninformed servers also act as masters. In a cluster, a majority of the masters decides (cluster.go).
type sentinels struct {
	r         *rand.Rand
	peers     []*peer  // by server number
	shards    []*shard // one, or two of a cluster
	home      *shard   // shard with the leases
	ids       int      // last ID of a stream
	downAfter int64    // the sentinels' timeout, and the unit of other delays, ns
	timeout   int64    // time out of sight until a master is replaced, ns; in a cluster cluster-node-timeout
	patience  int      // a check redirects a server with a probability of 1 / patience
	cluster   *cluster // nil: sentinels decide

	serves bool   // the master can acknowledge writes, as recorded in history
	lived  string // its life, as recorded
	runID  string // of its process, as recorded
	knew   *server
}

type shard struct {
	master *peer // as the sentinels know
	lost   int64 // true time since when it is out of sight; 0: in sight
}

// server is the Redis process. It executes its queued ops one after another.
type server struct {
	*redis.Server
	number  int32 // in world.servers
	peer    *peer // part in replication; nil: a single server
	down    bool
	loading int   // > 0: the reply to every command is LOADING
	hold    int   // > 0: frozen; requests wait
	until   int64 // true time until which it is busy
	gen     uint32
	waiting []*message
	blocked []*blockedRead
	timers  [2][]bool // whether an expiry event is pending, of each lease and each heartbeat
}

func (w *world) clustered() bool { return w.sentinels != nil && w.sentinels.cluster != nil }

func (p *peer) takeSlot() { p.owns, p.owned = true, true }

func (se *sentinels) of(sh *shard) []*peer {
	return slices.DeleteFunc(slices.Clone(se.peers), func(p *peer) bool { return p.shard != sh })
}

// waitsElsewhere reports whether a request is pending at a server other than the map's. A cluster client keeps it with a new map.
func (w *world) waitsElsewhere(l *link) bool {
	return w.clustered() && slices.ContainsFunc(l.flight, func(m *message) bool { return m.to != l.to && !m.told })
}

// refusesAll approximates a server that the slot is leaving: it refuses every command.
func (p *peer) refusesAll() bool {
	c := p.w.sentinels.cluster
	return c != nil && (p.failed || c.move != nil && c.move.from == p)
}

func (b *backlog) offset() int { return b.base + len(b.records) }

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

func (se *sentinels) newID() int { se.ids++; return se.ids }

func (s *server) name() string { return fmt.Sprintf("server %d", s.number+1) }

func (w *world) sees(p *peer) bool { return p.zone == 0 && !p.s.down && p.s.hold == 0 }

// reaches reports whether a node can connect to a server or, for nil, to the sentinels. Without sentinels there is one zone.
func (w *world) reaches(n *node, s *server) bool {
	zone := int32(0)
	if s != nil && s.peer != nil {
		zone = s.peer.zone
	}
	return n.link.anywhere || n.link.zone == zone
}

// History contains the streams of all acting masters, their acknowledged writes, and when the sentinels' master was available to whom.

func (w *world) retap() {
	for _, p := range w.sentinels.peers {
		if p.told && (!p.acts() || p.toldAs != w.streamOf(p.s)) {
			e := history.Event{Kind: history.TapDown, Node: p.toldAs}
			if p.acts() {
				e.Reason = w.streamOf(p.s)
			}
			w.emit(e)
			p.told = false
		}
	}
	for _, p := range w.sentinels.peers {
		if !p.told && p.acts() {
			p.told, p.toldAs = true, w.streamOf(p.s)
			w.snapshot(p.s)
		}
	}
}

func (p *peer) acts() bool { return p.of == nil && !p.s.down && (p.owned || !p.w.clustered()) }

// follows reports whether the server is a replica, which expires keys only when its master does.
func (s *server) follows() bool { return s.peer != nil && s.peer.of != nil }

// streamOf names a server's stream in history. The sentinels' master has "".
func (w *world) streamOf(s *server) string {
	if s == w.server {
		return ""
	}
	return s.name()
}

func (w *world) majority() int { return (w.cfg.Replicas + 1) / 2 }

// tellAcked records up to which time a majority has acknowledged a master's writes.
func (w *world) tellAcked(p *peer) {
	k := w.majority()
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
	w.emit(history.Event{Kind: history.RedisAcked, Node: p.toldAs, Until: p.written[at-1]})
}

func (w *world) tellServers() {
	se, s := w.sentinels, w.server
	lived := s.Life()
	switch {
	case se.knew == nil || se.lived == lived && se.knew == s:
	case se.knew != s:
		w.emit(history.Event{Kind: history.RedisLife, Reason: history.LifeSwitch})
	case se.runID != s.RunID:
		w.emit(history.Event{Kind: history.RedisLife, Reason: history.LifeRestart})
	default:
		w.emit(history.Event{Kind: history.RedisLife, Reason: history.LifeAttachment})
	}
	begun := se.knew != nil
	se.knew, se.lived, se.runID = s, lived, s.RunID
	if serves := w.serves(s.peer); serves != se.serves || !begun {
		se.serves = serves
		w.emit(history.Event{Kind: history.RedisMajority, N: number(serves)})
	}
	for _, n := range w.nodes {
		l := &n.link
		if routed := (l.to == s.number || l.told == s) && w.reaches(n, s) && !w.waitsElsewhere(l); n.alive && routed == l.astray {
			l.astray = !routed
			w.emit(history.Event{Kind: history.Routed, Node: n.name, N: number(routed)})
		}
	}
}

func (w *world) serves(m *peer) bool {
	s := m.s
	if m.of != nil || s.down || m.refusesAll() || s.hold > 0 || s.loading > 0 || s.Refuses() {
		return false
	}
	n := 0
	for _, x := range w.sentinels.peers {
		if a := m.acks[x.s.number]; x.of == m && x.linked && w.meet(x, m) && x.s.hold == 0 && a.link == x.link && a.offset >= 0 {
			n++
		}
	}
	return n >= w.majority()
}
