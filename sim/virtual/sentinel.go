package virtual

import (
	"fmt"
	"math/rand/v2"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/fault"
)

const streamReplicas = 0x7265706c

// sentinels decide which server is the master: one that they have not seen for a while is replaced by a replica, which the others are
// told to follow when they are seen again. Clients hear of it at times of their own, or not before their connections break. So there
// are masters besides the one that sentinels know: those that were cut off, or frozen, or not told yet. In a cluster it is a majority of
// the masters that decides so (cluster.go).
type sentinels struct {
	r         *rand.Rand
	peers     []*peer  // of all servers, by number
	shards    []*shard // one, or those of a cluster,
	home      *shard   // of which this has the leases
	ids       int      // of streams, so far
	downAfter int64    // how long a master is out of sight before sentinels replace it
	patience  int      // a server that is to follow another is told at one look of so many
	cluster   *cluster // nil: it is sentinels

	serves bool   // the master can acknowledge what counts
	lived  string // its life
	runID  string // of its process
	knew   *server
}

// shard is a master and its replicas.
type shard struct {
	master *peer // as sentinels know
	lost   int64 // true time since when it is out of sight, 0: it is in sight
}

// replicasUntold is how many replicas there are where instances are told of none.
const replicasUntold = 2

func (se *sentinels) newID() int { se.ids++; return se.ids }

func (s *server) name() string { return fmt.Sprintf("server %d", s.number+1) }

// replicate adds the replicas and the sentinels. Clocks of servers differ by less than a TTL (docs/replicas.md).
func (w *world) replicate(seed uint64) {
	r := rand.New(rand.NewPCG(seed, streamReplicas))
	n := w.cfg.Replicas
	if n == 0 {
		n = replicasUntold
	}
	ttl := int64(w.cfg.TTL)
	w.sentinels = &sentinels{r: r, downAfter: ttl/40 + upTo(r, ttl/4), patience: 1 + r.IntN(8)}
	first, others := w.server, n
	if w.cfg.Cluster {
		others += n + 1
	}
	for range others {
		o := newRedis(ttl, nil, nil)
		o.label = string(rune('a' + len(w.servers)))
		o.restart()
		s := w.addServer(o)
		s.publish = func(no core.Notice) { w.deliver(notice{Notice: no}, s.number, 100+40*len(no.IDs)) }
		s.leaseIdx, s.beatIdx = first.leaseIdx, first.beatIdx
		s.clock = clock{wall: first.clock.wall + spread(r, ttl/5), ppm: w.cfg.Clock.rate(r)}
	}
	for i, s := range w.servers {
		s.peer = &peer{w: w, s: s, tap: s.tap, acks: make([]acknowledgement, len(w.servers))}
		s.tap = s.peer
		w.sentinels.enrol(s.peer, i%(n+1) == 0)
		for _, o := range w.servers {
			if o != s {
				s.alike = append(s.alike, o.redis)
			}
		}
	}
	for _, sh := range w.sentinels.shards {
		sh.master.id = w.sentinels.newID()
		sh.master.s.syncFull = n
		sh.master.s.relive()
	}
	w.sentinels.home, first.peer.told = first.peer.shard, true
	if w.cfg.Cluster {
		w.formCluster()
	}
}

// enrol has a server be of a shard: of a new one as its master, or as a replica of the one before.
func (se *sentinels) enrol(p *peer, master bool) {
	if master {
		se.shards = append(se.shards, &shard{master: p})
	} else {
		p.s.readonly++
	}
	p.shard = se.shards[len(se.shards)-1]
	se.peers = append(se.peers, p)
}

// watchMaster begins with replicas that have all that the master has.
func (w *world) watchMaster() {
	for _, x := range w.sentinels.peers {
		if m := x.shard.master; x != m {
			x.of, x.id, x.base = m, m.id, m.offset()
			x.s.restore(m.s.copyData())
			w.attached(x, m)
		}
	}
	w.look()
}

// sees reports whether the sentinels do.
func (w *world) sees(p *peer) bool { return p.zone == 0 && !p.s.down && p.s.hold == 0 }

// look is what the sentinels do now and then.
func (w *world) look() {
	se := w.sentinels
	for _, sh := range se.shards {
		if w.watchShard(sh) > se.timeout() {
			w.failOver(sh)
		}
		m := sh.master
		for _, x := range se.peers {
			if x.shard == sh && x != m && x.of != m && x.pinned == 0 && w.sees(x) && se.r.IntN(se.patience) == 0 {
				w.demote(x, m)
			}
		}
	}
	w.after(se.downAfter/8+upTo(se.r, se.downAfter/4), w.look)
}

// timeout is how long a master is out of sight before it is replaced.
func (se *sentinels) timeout() int64 {
	if se.cluster != nil {
		return se.cluster.timeout
	}
	return se.downAfter
}

// watchShard returns for how long the master of a shard is out of sight.
func (w *world) watchShard(sh *shard) int64 {
	switch {
	case w.sees(sh.master):
		sh.lost = 0
	case sh.lost == 0:
		sh.lost = w.t
	default:
		return w.t - sh.lost
	}
	return 0
}

// demote has x follow m. Who is connected to a master of before is mostly disconnected, as Sentinel does.
func (w *world) demote(x, m *peer) {
	was := x.of == nil
	w.follow(x, m)
	if was && !w.clustered() && w.sentinels.r.IntN(4) > 0 {
		for _, n := range w.nodes {
			if n.link.to == x.s.number {
				w.reset(n)
			}
		}
	}
}

// failOver has a replica take over: mostly the most advanced that is seen, at times another.
func (w *world) failOver(sh *shard) {
	se := w.sentinels
	if !w.elects() {
		return
	}
	var best *peer
	any := se.r.IntN(4) == 0
	for _, x := range se.peers {
		switch {
		case x.shard != sh || x.of == nil || !w.sees(x):
		case best == nil, any && se.r.IntN(2) == 0, !any && x.offset() > best.offset():
			best = x
		}
	}
	if best == nil {
		return
	}
	w.promote(best)
	sh.master, sh.lost = best, 0
	w.announce(best)
	if sh != se.home {
		return
	}
	best.takeSlot()
	w.server = best.s
	w.retap()
	w.tellClients()
}

// tellClients has the processes hear that another server is the master.
func (w *world) tellClients() {
	se := w.sentinels
	for _, n := range w.nodes {
		if w.clustered() {
			w.hearSwitch(n, upTo(se.r, mapLife))
			continue
		}
		d := upTo(se.r, se.downAfter)
		if se.r.IntN(4) == 0 { // it missed the message
			d = upTo(se.r, 2*int64(w.cfg.TTL))
		}
		w.hearSwitch(n, d)
	}
}

// hearSwitch has a process learn after d who the master is, if sentinels can tell it: its connections to another are closed. One sentinel
// of several may not have heard of a switch.
func (w *world) hearSwitch(n *node, d int64) {
	w.inProcess(n, d, func() {
		if l := &n.link; w.reaches(n, nil) && l.to != w.server.number && w.sentinels.r.IntN(8) > 0 {
			l.told = w.server
			if w.clustered() { // what is under way elsewhere goes on
				l.to = w.server.number
				return
			}
			w.reset(n)
		}
	})
}

// dial asks the sentinels where connections are to lead, and closes those that lead elsewhere.
func (w *world) dial(n *node) {
	l := &n.link
	if w.sentinels == nil || !w.reaches(n, nil) || l.to == w.server.number || l.told != w.server && w.sentinels.r.IntN(8) == 0 {
		return
	}
	l.to, l.told = w.server.number, w.server
	if !w.clustered() && (l.hears || len(l.flight) > 0) {
		w.reset(n)
	}
}

// reaches reports whether a node can connect to a server, or, for nil, to the sentinels. Without sentinels there is one zone.
func (w *world) reaches(n *node, s *server) bool {
	zone := int32(0)
	if s != nil && s.peer != nil {
		zone = s.peer.zone
	}
	return n.link.anywhere || n.link.zone == zone
}

// isolate puts a master into a zone of its own, at times together with replicas. Of its clients some are cut off with it, some from it,
// and some from nobody.
func (w *world) isolate(s *server, zone int32) {
	r := w.sentinels.r
	s.peer.zone = zone
	for _, x := range w.sentinels.peers {
		if x.shard == s.peer.shard && x.of != nil && r.IntN(3) == 0 {
			x.zone = zone
		}
	}
	cut, both := r.IntN(4), r.IntN(4) // of five, so many at most
	for _, n := range w.nodes {
		l := &n.link
		switch i := r.IntN(5); {
		case i <= cut:
			l.zone, l.anywhere = zone, false
		case i <= cut+both:
			l.zone, l.anywhere = zone, true
		}
		if !w.reaches(n, w.servers[l.to]) {
			w.reset(n)
		}
		for _, o := range w.servers {
			if w.clustered() && !w.reaches(n, o) {
				w.cutOff(n, o)
			}
		}
	}
}

// rejoin ends a zone.
func (w *world) rejoin(zone int32) {
	for _, p := range w.sentinels.peers {
		if p.zone == zone {
			p.zone = 0
		}
	}
	for _, n := range w.nodes {
		if l := &n.link; l.zone == zone {
			l.zone, l.anywhere = 0, false
			w.hearSwitch(n, upTo(w.sentinels.r, w.sentinels.downAfter))
		}
	}
}

// aimServer finds the server that a fault of a replicated Redis strikes.
func (w *world) aimServer(s *strike) bool {
	if w.sentinels == nil {
		return false
	}
	switch s.Kind {
	case fault.ReplicaLag, fault.ReplicaCut, fault.ReplicaWipe, fault.ReplicaFlip, fault.ReplicaDump:
	default:
		return true
	}
	s.server = nil
	found := 0
	for _, x := range w.sentinels.peers {
		if x.shard == w.sentinels.home && x.of != nil && !x.s.down && (s.Kind != fault.ReplicaFlip || w.another(x) != nil) {
			if found++; w.sentinels.r.IntN(found) == 0 {
				s.server = x.s
			}
		}
	}
	return found > 0
}

// another is a master that a replica could follow instead of its own; nil: there is none.
func (w *world) another(x *peer) *peer {
	for _, m := range w.sentinels.peers {
		if m.shard == x.shard && m.of == nil && m != x.of && !m.s.down {
			return m
		}
	}
	return nil
}

// flip has a replica follow another master, an old one or the one that the sentinels know, on whichever side of a cut that is.
func (w *world) flip(s *server) {
	s.peer.pinned++
	if m := w.another(s.peer); m != nil {
		s.peer.zone = m.zone
		w.follow(s.peer, m)
	}
}

// flipBack has the sentinels tell it again.
func (w *world) flipBack(s *server) {
	if s.peer.pinned--; s.peer.pinned == 0 {
		s.peer.zone = 0
	}
}
