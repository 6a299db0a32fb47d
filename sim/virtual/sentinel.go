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
// are masters besides the one that sentinels know: those that were cut off, or frozen, or not told yet.
type sentinels struct {
	r         *rand.Rand
	peers     []*peer // of all servers, by number
	ids       int     // of streams, so far
	downAfter int64   // how long a master is out of sight before it is replaced
	lost      int64   // true time since when it is, 0: it is in sight
	patience  int     // a server that is to follow another is told at one look of so many

	serves bool   // the master can acknowledge what counts
	lived  string // its life
	runID  string // of its process
	knew   *server
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
	first := w.server
	for range n {
		o := newRedis(ttl, nil, nil)
		o.label = string(rune('a' + len(w.servers)))
		o.restart()
		s := w.addServer(o)
		s.publish = func(no core.Notice) { w.deliver(notice{Notice: no}, s.number, 100+40*len(no.IDs)) }
		s.leaseIdx, s.beatIdx = first.leaseIdx, first.beatIdx
		s.clock = clock{wall: first.clock.wall + spread(r, ttl/5), ppm: w.cfg.Clock.rate(r)}
		s.readonly++
	}
	for _, s := range w.servers {
		s.peer = &peer{w: w, s: s, tap: s.tap, acks: make([]acknowledgement, len(w.servers))}
		s.tap = s.peer
		for _, o := range w.servers {
			if o != s {
				s.alike = append(s.alike, o.redis)
			}
		}
		w.sentinels.peers = append(w.sentinels.peers, s.peer)
	}
	first.peer.id, first.peer.told = w.sentinels.newID(), true
	first.syncFull = n
	first.relive()
}

// watchMaster begins with replicas that have all that the master has.
func (w *world) watchMaster() {
	m := w.server.peer
	for _, x := range w.sentinels.peers {
		if x != m {
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
	se, m := w.sentinels, w.server.peer
	switch {
	case w.sees(m):
		se.lost = 0
	case se.lost == 0:
		se.lost = w.t
	case w.t-se.lost > se.downAfter:
		w.failOver()
	}
	m = w.server.peer
	for _, x := range se.peers {
		if x != m && x.of != m && x.pinned == 0 && w.sees(x) && se.r.IntN(se.patience) == 0 {
			w.demote(x, m)
		}
	}
	w.after(se.downAfter/8+upTo(se.r, se.downAfter/4), w.look)
}

// demote has x follow m. Who is connected to a master of before is mostly disconnected, as Sentinel does.
func (w *world) demote(x, m *peer) {
	was := x.of == nil
	w.follow(x, m)
	if was && w.sentinels.r.IntN(4) > 0 {
		for _, n := range w.nodes {
			if n.link.to == x.s.number {
				w.reset(n)
			}
		}
	}
}

// failOver has a replica take over: mostly the most advanced that is seen, at times another.
func (w *world) failOver() {
	se := w.sentinels
	var best *peer
	any := se.r.IntN(4) == 0
	for _, x := range se.peers {
		switch {
		case x.of == nil || !w.sees(x):
		case best == nil, any && se.r.IntN(2) == 0, !any && x.offset() > best.offset():
			best = x
		}
	}
	if best == nil {
		return
	}
	w.promote(best)
	w.server, se.lost = best.s, 0
	w.retap()
	for _, n := range w.nodes {
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
	if l.hears || len(l.flight) > 0 {
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
		if x.of != nil && r.IntN(3) == 0 {
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
	case fault.ReplicaLag, fault.ReplicaCut, fault.ReplicaWipe, fault.ReplicaFlip:
	default:
		return true
	}
	s.server = nil
	found := 0
	for _, x := range w.sentinels.peers {
		if x.of != nil && !x.s.down && (s.Kind != fault.ReplicaFlip || w.another(x) != nil) {
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
		if m.of == nil && m != x.of && !m.s.down {
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
