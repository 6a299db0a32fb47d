package virtual

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// mapLife and mapPause are the client's times, the others those of redis-server.
const (
	rejoinMin, rejoinMax = int64(500 * time.Millisecond), int64(5 * time.Second) // how long a master serves nobody after it was alone
	writable             = int64(2 * time.Second)                                // and after its start
	clusterCron          = int64(100 * time.Millisecond)
	mapLife              = int64(10 * time.Second) // a client rereads its slot map after this time
	mapPause             = int64(200 * time.Millisecond)
)

const (
	textClusterDown = "CLUSTERDOWN The cluster is down"
	textTryAgain    = "TRYAGAIN Multiple keys request during rehashing of slot"
	textMoved       = "MOVED 1 127.0.0.1:6379"
	textAsk         = "ASK 1 127.0.0.1:6379"
)

func (w *world) formCluster() {
	se := w.sentinels
	se.cluster = &cluster{}
	if se.r.IntN(3) == 0 { // its default is half a TTL of 30 s
		se.timeout += upTo(se.r, int64(w.cfg.TTL)*3/2)
	}
	se.home.master.takeSlot()
}

const clusterMajority = 2 // of three masters

// elects reports whether a majority of the masters can vote. Sentinels always can.
func (w *world) elects() bool {
	if !w.clustered() {
		return true
	}
	votes := 1
	for _, sh := range w.sentinels.shards {
		if w.sees(sh.master) {
			votes++
		}
	}
	return votes >= clusterMajority
}

func (w *world) announce(m *peer) {
	if !w.clustered() {
		return
	}
	for _, x := range w.sentinels.of(m.shard) {
		if x != m {
			w.toServer(x, w.between(m, x), func() {
				if x.shard.master == m && x.of != m && x.pinned == 0 && w.meet(x, m) {
					w.demote(x, m)
				}
			})
		}
	}
}

// hearsMajority reports whether a server hears a majority of the masters. An acting master counts itself.
func (w *world) hearsMajority(p *peer) bool {
	heard := 0
	if p.zone == 0 {
		heard++
	}
	for _, sh := range w.sentinels.shards {
		m := sh.master
		if p.of == nil && p.shard == sh || w.meet(p, m) && m.s.hold == 0 {
			heard++
		}
	}
	return heard >= clusterMajority
}

// hearEachOther runs after each event. A master that loses its majority fails after the node timeout, or up to 50 % later.
func (w *world) hearEachOther() {
	if !w.clustered() {
		return
	}
	for _, sh := range w.sentinels.shards {
		w.watchShard(sh)
	}
	for _, p := range w.sentinels.peers {
		if alone := !p.s.down && !w.hearsMajority(p); alone != p.alone {
			p.alone = alone
			w.ready(p, !alone, w.foundOut(p))
		}
	}
}

func (w *world) foundOut(p *peer) int64 {
	r, timeout := w.sentinels.r, w.sentinels.timeout
	switch {
	case p.alone:
		return timeout + upTo(r, timeout/2) + upTo(r, clusterCron)
	case p.of == nil:
		return min(max(timeout, rejoinMin), rejoinMax) + upTo(r, clusterCron)
	}
	return upTo(r, clusterCron)
}

// ready makes a server start or stop serving after d, unless another change comes first.
func (w *world) ready(p *peer, serves bool, d int64) {
	p.turn++
	turn := p.turn
	w.toServer(p, d, func() {
		if p.turn == turn {
			p.failed = !serves
		}
	})
}

func (w *world) unready(p *peer) {
	if !w.clustered() {
		return
	}
	p.failed, p.alone, p.owned = true, false, p.owns
	d := upTo(w.sentinels.r, clusterCron)
	if p.of == nil {
		d += writable
	}
	w.ready(p, true, d)
}

// readMap makes a process reread the slot map after a refusal or a timeout. Half of the time it has just read the map and waits a moment.
func (w *world) readMap(n *node) {
	r := w.sentinels.r
	w.hearSwitch(n, upTo(r, []int64{2 * int64(w.cfg.Net.Delay+w.cfg.Net.Jitter), mapPause}[r.IntN(2)]))
}

// passes reports whether a message published at one server reaches the subscribers of another, as in a cluster.
func (w *world) passes(from, to int32) bool {
	return from == to || w.clustered() && w.meet(w.servers[from].peer, w.servers[to].peer)
}

func (w *world) cutOff(n *node, s *server) {
	for _, m := range n.link.flight {
		if m.to == s.number && !m.noReply {
			w.breaks(m)
		}
	}
}

// redirected returns a server's refusal of a message, "" if it executes the message.
func (w *world) redirected(s *server, m *message) string {
	switch {
	case !w.clustered():
		return ""
	case m.cmd == nil:
		return w.redirects(s.peer, &m.op)
	case m.cmd.Args[0] == "MGET":
		return w.redirectsKeys(s.peer, m.cmd.Args[1:])
	}
	return w.redirectsKeys(s.peer, m.cmd.Args[1:2]) // all other commands of an election begin with a key
}

func (w *world) redirects(p *peer, op *core.Op) string {
	c := w.sentinels.cluster
	if c == nil || op.Kind == core.OpAsk { // PUBLISH has no key
		return ""
	}
	if c.move == nil || c.move.from != p {
		return w.redirectsKeys(p, nil)
	}
	return w.redirectsKeys(p, p.s.KeysOf(op))
}

// redirectsKeys checks in Redis' order. A server that the slot is leaving executes only commands of which it still has all keys.
func (w *world) redirectsKeys(p *peer, keys []string) string {
	move := w.sentinels.cluster.move
	switch {
	case p.failed:
		return textClusterDown
	case p.of != nil || !p.owns:
		return textMoved
	case move == nil || move.from != p:
		return ""
	}
	switch p.s.CountKeys(w.t, keys) {
	case len(keys):
		return ""
	case 0:
		return textAsk
	}
	return textTryAgain
}

// whole reports whether all servers of a shard run and know their master, so that none misses a move and serves on (docs/replicas.md).
func (w *world) whole(sh *shard) bool {
	return !slices.ContainsFunc(w.sentinels.of(sh), func(p *peer) bool {
		return !w.sees(p) || p.failed || p.s.loading > 0 || p.pinned > 0 || p != sh.master && (p.of != sh.master || !p.linked)
	})
}

func (w *world) moveSoon(s *strike) {
	se := w.sentinels
	from, to := se.shards[0], se.shards[1]
	if se.home == to {
		from, to = to, from
	}
	switch {
	case !s.active:
	case se.cluster.move == nil && w.whole(from) && w.sees(to.master) && to.master.of == nil && !to.master.failed:
		w.beginMove(from.master, to.master)
	default:
		w.after(1+upTo(se.r, se.downAfter), func() { w.moveSoon(s) })
	}
}

func (w *world) beginMove(from, to *peer) {
	r := w.sentinels.r
	w.discard(to)
	keys := from.s.Keys(w.t)
	w.sentinels.cluster.move = &move{
		from: from, to: to, runs: [2]uint32{from.s.gen, to.s.gen},
		pause: upTo(r, int64(w.cfg.TTL)) / int64(1+len(keys)) / int64(1+r.IntN(8)),
	}
	w.note("the slot begins to move from %s to %s", from.s.name(), to.s.name())
	w.migrate()
}

// discard deletes the keys that a failed move left at a server.
func (w *world) discard(p *peer) {
	defer p.untold()()
	if len(p.s.Keys(w.t)) > 0 {
		p.s.DeleteKeys()
	}
}

// untold keeps a server's writes out of history until the returned function is called.
func (p *peer) untold() func() {
	told := p.told
	p.told = false
	return func() { p.told = told }
}

func (w *world) migrate() {
	c := w.sentinels.cluster
	m := c.move
	lost := func(p *peer, run uint32) bool { return p.shard.master != p || p.of != nil || p.s.gen != run }
	switch keys := m.from.s.Keys(w.t); {
	case lost(m.from, m.runs[0]) || lost(m.to, m.runs[1]):
		c.move = nil
		w.note("the slot stays at %s", w.server.name())
		return
	case !w.sees(m.from) || !w.sees(m.to): // no command gets through
	case len(keys) > 0:
		w.carry(m, keys)
	case w.whole(m.from.shard) && !m.to.failed:
		w.settle(m)
		return
	}
	w.after(1+upTo(w.sentinels.r, m.pause), w.migrate)
}

// carry is MIGRATE of some keys. No owner loses its lease, so history omits it.
func (w *world) carry(m *move, keys []redis.Key) {
	defer m.from.untold()()
	defer m.to.untold()()
	r := w.sentinels.r
	for range 1 + r.IntN(1+len(keys)/2) {
		i := r.IntN(len(keys))
		m.from.s.Migrate(w.t, keys[i], m.to.s.Server)
		keys = slices.Delete(keys, i, i+1)
	}
}

// settle is SETSLOT: the other shard owns the slot, and all servers of this shard know.
func (w *world) settle(m *move) {
	se := w.sentinels
	se.cluster.move = nil
	for _, p := range se.of(m.from.shard) {
		p.owns = false
	}
	m.to.takeSlot()
	se.home, w.server = m.to.shard, m.to.s
	w.note("the slot has moved to %s", w.server.name())
	w.retap()
	w.tellClients()
}
