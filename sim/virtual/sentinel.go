package virtual

import (
	"math/rand/v2"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

const streamReplicas = 0x7265706c

// replicasUntold is the number of replicas if Config.Replicas is 0.
const replicasUntold = 2

// replicate adds replicas and sentinels. The servers' clocks differ by less than a TTL (docs/replicas.md).
func (w *world) replicate(seed uint64) {
	r := rand.New(rand.NewPCG(seed, streamReplicas))
	n := w.cfg.Replicas
	if n == 0 {
		n = replicasUntold
	}
	ttl := int64(w.cfg.TTL)
	w.sentinels = &sentinels{r: r, downAfter: ttl/40 + upTo(r, ttl/4), patience: 1 + r.IntN(8)}
	w.sentinels.timeout = w.sentinels.downAfter
	first, others := w.server, n
	if w.cfg.Cluster {
		others += n + 1
	}
	for range others {
		s := w.addServer(string(rune('a' + len(w.servers))))
		s.Clock = loop.Clock{Wall: first.Clock.Wall + spread(r, ttl/5), PPM: w.cfg.Clock.rate(r)}
	}
	for i, s := range w.servers {
		s.peer = &peer{w: w, s: s, acks: make([]acknowledgement, len(w.servers))}
		w.sentinels.enrol(s.peer, i%(n+1) == 0)
	}
	for _, sh := range w.sentinels.shards {
		sh.master.id = w.sentinels.newID()
		sh.master.s.SyncFull = n
		sh.master.s.Relive()
	}
	w.sentinels.home, first.peer.told = first.peer.shard, true
	if w.cfg.Cluster {
		w.formCluster()
	}
}

func (se *sentinels) enrol(p *peer, master bool) {
	if master {
		se.shards = append(se.shards, &shard{master: p})
	} else {
		p.s.Readonly++
	}
	p.shard = se.shards[len(se.shards)-1]
	se.peers = append(se.peers, p)
}

func (w *world) watchMaster() {
	for _, x := range w.sentinels.peers {
		if m := x.shard.master; x != m {
			x.of, x.id, x.base = m, m.id, m.offset()
			x.s.Restore(m.s.Copy())
			w.attached(x, m)
		}
	}
	w.look()
}

func (w *world) look() {
	se := w.sentinels
	for _, sh := range se.shards {
		if w.watchShard(sh) > se.timeout {
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

// demote makes x follow m. It mostly disconnects the clients of an old master, as Sentinel does.
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

// failOver promotes a visible replica, mostly the most advanced one.
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

func (w *world) tellClients() {
	se := w.sentinels
	for _, n := range w.nodes {
		if w.clustered() {
			w.hearSwitch(n, upTo(se.r, mapLife))
			continue
		}
		d := upTo(se.r, se.downAfter)
		if se.r.IntN(4) == 0 { // the process missed the message
			d = upTo(se.r, 2*int64(w.cfg.TTL))
		}
		w.hearSwitch(n, d)
	}
}

// hearSwitch makes a process learn the master after d, if it reaches a sentinel that knows. It closes connections to another server.
func (w *world) hearSwitch(n *node, d int64) {
	w.inProcess(n, d, func() {
		if l := &n.link; w.reaches(n, nil) && l.to != w.server.number && w.sentinels.r.IntN(8) > 0 {
			l.told = w.server
			if w.clustered() { // requests pending elsewhere continue
				l.to = w.server.number
				return
			}
			w.reset(n)
		}
	})
}

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

// isolate puts a master, sometimes with replicas, into a zone of its own. Some clients are cut off with it, some reach all servers, and
// the others are cut off from it.
func (w *world) isolate(s *strike) {
	r, m, zone := w.sentinels.r, s.server.peer, s.zone()
	m.zone = zone
	for _, x := range w.sentinels.peers {
		if x.shard == m.shard && x.of != nil && r.IntN(3) == 0 {
			x.zone = zone
		}
	}
	cut, both := r.IntN(4), r.IntN(4) // bounds of a draw of five
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

func (w *world) rejoin(s *strike) {
	zone := s.zone()
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

func (w *world) another(x *peer) *peer {
	for _, m := range w.sentinels.peers {
		if m.shard == x.shard && m.of == nil && m != x.of && !m.s.down {
			return m
		}
	}
	return nil
}

// flip makes a replica follow another master of its shard, on either side of a cut.
func (w *world) flip(p *peer) {
	p.pinned++
	if m := w.another(p); m != nil {
		p.zone = m.zone
		w.follow(p, m)
	}
}

func (p *peer) flipBack() {
	if p.pinned--; p.pinned == 0 {
		p.zone = 0
	}
}
