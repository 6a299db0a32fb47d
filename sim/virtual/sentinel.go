package virtual

import (
	"math/rand/v2"
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

const streamReplicas = 0x7265706c

// replicasUntold is the number of replicas if Config.Replicas is 0.
const replicasUntold = 2

// sentinels decide which server is the master. If they cannot reach the master for a while, they promote a replica, and later make
// the other servers follow it. Clients learn of the new master at different times, or when their connections break. Until then,
// cut-off, frozen or uninformed servers also act as masters. In a cluster, a majority of the masters decides (cluster.go).
type sentinels struct {
	*timeline
	servers   *servers
	r         *rand.Rand
	peers     []*peer  // by server number
	shards    []*shard // one, or two of a cluster
	home      *shard   // shard with the leases
	ids       int      // last ID of a stream
	downAfter int64    // the sentinels' timeout, and the unit of other delays, ns
	timeout   int64    // time out of sight until a master is replaced, ns; in a cluster cluster-node-timeout
	patience  int      // a check redirects a server with a probability of 1 / patience
	cluster   *cluster // nil: sentinels decide
	watcher   *server  // sentinel of the guests; nil: there are none

	serves bool   // the master can acknowledge writes, as recorded in history
	lived  string // its life, as recorded
	runID  string // of its process, as recorded
	knew   *server
}

type shard struct {
	master *peer // as the sentinels know
	lost   int64 // true time since when it is out of sight; 0: in sight
}

// replicate adds replicas and sentinels. The servers' clocks differ by less than a TTL (docs/replicas.md).
func (ss *servers) replicate(seed uint64) {
	r := rand.New(rand.NewPCG(seed, streamReplicas))
	n := ss.cfg.Replicas
	if n == 0 {
		n = replicasUntold
	}
	ttl := int64(ss.cfg.TTL)
	ss.sentinels = &sentinels{timeline: ss.timeline, servers: ss, r: r, downAfter: ttl/40 + upTo(r, ttl/4), patience: 1 + r.IntN(8)}
	ss.sentinels.timeout = ss.sentinels.downAfter
	first, others := ss.master, n
	if ss.cfg.Cluster {
		others += n + 1
	}
	for range others {
		s := ss.add(string(rune('a' + len(ss.all))))
		s.Clock = loop.Clock{Wall: first.Clock.Wall + spread(r, ttl/5), PPM: ss.cfg.Clock.rate(r)}
	}
	for i, s := range ss.all {
		s.peer = &peer{se: ss.sentinels, s: s, acks: make([]acknowledgement, len(ss.all))}
		ss.sentinels.enrol(s.peer, i%(n+1) == 0)
	}
	for _, sh := range ss.sentinels.shards {
		sh.master.id = ss.sentinels.newID()
		sh.master.s.SyncFull = n
		sh.master.s.Relive()
	}
	ss.sentinels.home, first.peer.told = first.peer.shard, true
	if ss.cfg.Cluster {
		ss.sentinels.formCluster()
	}
	if ss.cfg.Guest != nil {
		ss.sentinels.addWatcher()
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

func (se *sentinels) watchMaster() {
	for _, x := range se.peers {
		if m := x.shard.master; x != m {
			x.of, x.id, x.base = m, m.id, m.offset()
			x.s.Restore(m.s.Copy())
			x.attached(m)
		}
	}
	se.look()
}

func (se *sentinels) look() {
	for _, sh := range se.shards {
		if se.watchShard(sh) > se.timeout {
			se.failOver(sh)
		}
		m := sh.master
		for _, x := range se.peers {
			if x.shard == sh && x != m && x.of != m && x.pinned == 0 && x.visible() && se.r.IntN(se.patience) == 0 {
				x.demote(m)
			}
		}
	}
	se.after(se.downAfter/8+upTo(se.r, se.downAfter/4), se.look)
}

func (se *sentinels) watchShard(sh *shard) int64 {
	switch {
	case sh.master.visible():
		sh.lost = 0
	case sh.lost == 0:
		sh.lost = se.t
	default:
		return se.t - sh.lost
	}
	return 0
}

// demote makes x follow m. In most cases it disconnects the clients of an old master, as Sentinel does.
func (p *peer) demote(m *peer) {
	was := p.of == nil
	p.follow(m)
	if was && !p.se.servers.clustered() && p.se.r.IntN(4) > 0 {
		for _, n := range p.se.servers.net.hosts {
			p.s.hangUp(n)
		}
	}
}

// failOver promotes a visible replica, mostly the most advanced one.
func (se *sentinels) failOver(sh *shard) {
	if !se.elects() {
		return
	}
	var best *peer
	any := se.r.IntN(4) == 0
	for _, x := range se.peers {
		switch {
		case x.shard != sh || x.of == nil || !x.visible():
		case best == nil, any && se.r.IntN(2) == 0, !any && x.offset() > best.offset():
			best = x
		}
	}
	if best == nil {
		return
	}
	best.promote()
	before := sh.master
	sh.master, sh.lost = best, 0
	se.announce(best)
	if sh != se.home {
		return
	}
	best.takeSlot()
	se.servers.master = best.s
	se.retap()
	if se.watcher != nil {
		se.watcher.Switched(before.s.addr())
		return
	}
	se.tellClients()
}

func (se *sentinels) tellClients() {
	for _, n := range se.servers.net.hosts {
		if se.servers.clustered() {
			se.servers.hearSwitch(n, upTo(se.r, mapLife))
			continue
		}
		d := upTo(se.r, se.downAfter)
		if se.r.IntN(4) == 0 { // the process missed the message
			d = upTo(se.r, 2*int64(se.cfg.TTL))
		}
		se.servers.hearSwitch(n, d)
	}
}

// isolate puts a master, sometimes with replicas, into a zone of its own. Some clients reach only this zone, some only the other
// servers, and some reach all servers. With a host, this one reaches only the master, and the others only the other servers.
func (se *sentinels) isolate(m *peer, zone int32, with *host) {
	r := se.r
	m.zone = zone
	for _, x := range se.peers {
		if x.shard == m.shard && x.of != nil && with == nil && r.IntN(3) == 0 {
			x.zone = zone
		}
	}
	cut, both := r.IntN(4), r.IntN(4) // bounds of a draw of five
	for _, n := range se.servers.net.hosts {
		switch i := r.IntN(5); {
		case with != nil && n != with:
		case with != nil, i <= cut:
			n.route.zone, n.route.anywhere = zone, false
		case i <= cut+both:
			n.route.zone, n.route.anywhere = zone, true
		}
		se.servers.part(n)
	}
}

func (se *sentinels) rejoin(zone int32) {
	for _, p := range se.peers {
		if p.zone == zone {
			p.zone = 0
		}
	}
	for _, n := range se.servers.net.hosts {
		if n.route.zone == zone {
			n.route.zone, n.route.anywhere = 0, false
			se.servers.hearSwitch(n, upTo(se.r, se.downAfter))
		}
	}
}

// anyReplica draws a running replica of the leases' shard, nil if there is none. With flips, it draws only replicas that another
// master could have.
func (se *sentinels) anyReplica(flips bool) (drawn *server) {
	found := 0
	for _, x := range se.peers {
		if x.shard == se.home && x.of != nil && !x.s.down && (!flips || se.another(x) != nil) {
			if found++; se.r.IntN(found) == 0 {
				drawn = x.s
			}
		}
	}
	return drawn
}

func (se *sentinels) another(x *peer) *peer {
	for _, m := range se.peers {
		if m.shard == x.shard && m.of == nil && m != x.of && !m.s.down {
			return m
		}
	}
	return nil
}

// flip makes a replica follow another master of its shard, on either side of a cut.
func (p *peer) flip() {
	p.pinned++
	if m := p.se.another(p); m != nil {
		p.zone = m.zone
		p.follow(m)
	}
}

func (p *peer) flipBack() {
	if p.pinned--; p.pinned == 0 {
		p.zone = 0
	}
}

func (se *sentinels) of(sh *shard) []*peer {
	return slices.DeleteFunc(slices.Clone(se.peers), func(p *peer) bool { return p.shard != sh })
}

func (se *sentinels) newID() int { se.ids++; return se.ids }

// History contains the streams of all acting masters, their acknowledged writes, and when the sentinels' master was available to whom.

func (se *sentinels) retap() {
	for _, p := range se.peers {
		if p.told && (!p.acts() || p.toldAs != p.s.stream()) {
			e := history.Event{Kind: history.TapDown, Node: p.toldAs}
			if p.acts() {
				e.Reason = p.s.stream()
			}
			se.emit(e)
			p.told = false
		}
	}
	for _, p := range se.peers {
		if !p.told && p.acts() {
			p.told, p.toldAs = true, p.s.stream()
			p.s.snapshot()
		}
	}
}

func (se *sentinels) majority() int { return (se.cfg.Replicas + 1) / 2 }

func (se *sentinels) tellServers() {
	s := se.servers.master
	lived := s.Life()
	switch {
	case se.knew == nil || se.lived == lived && se.knew == s:
	case se.knew != s:
		se.emit(history.Event{Kind: history.RedisLife, Reason: history.LifeSwitch})
	case se.runID != s.RunID:
		se.emit(history.Event{Kind: history.RedisLife, Reason: history.LifeRestart})
	default:
		se.emit(history.Event{Kind: history.RedisLife, Reason: history.LifeAttachment})
	}
	begun := se.knew != nil
	se.knew, se.lived, se.runID = s, lived, s.RunID
	if serves := s.peer.serves(); serves != se.serves || !begun {
		se.serves = serves
		se.emit(history.Event{Kind: history.RedisMajority, N: number(serves)})
	}
	for _, n := range se.servers.net.hosts {
		if routed := se.servers.routed(n); n.alive && routed == n.route.astray {
			n.route.astray = !routed
			se.emit(history.Event{Kind: history.Routed, Node: n.name, N: number(routed)})
		}
	}
}
