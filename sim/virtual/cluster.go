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

// cluster models what matters to leases in a Redis Cluster. All keys of a group are in one slot, so only the shard of this slot
// matters. Failover is in sentinel.go, but three masters vote in place of the sentinels: those of two shards, and one that has no
// data. In addition, a server that hears no majority stops serving, and the slot may move to the other shard. cluster_real_test.go
// compares the model with real servers.
type cluster struct {
	se   *sentinels
	move *move // of the slot; nil: none
}

// member is what a server of a cluster knows.
type member struct {
	owns   bool   // it believes that it is the master of the leases' slot
	owned  bool   // owns, or lost the slot in a move; its earlier writes may still be acknowledged
	turn   uint32 // counts calls of ready; only the last has an effect
	alone  bool   // it hears no majority
	failed bool   // it serves nobody (CLUSTERDOWN)
}

// move is a move of the slot from one master to another.
type move struct {
	from, to *peer
	runs     [2]uint32 // generations of both processes, which forget the move when they end
	pause    int64     // maximum between two commands, ns
}

func (se *sentinels) formCluster() {
	se.cluster = &cluster{se: se}
	if se.r.IntN(3) == 0 { // its default is half a TTL of 30 s
		se.timeout += upTo(se.r, int64(se.cfg.TTL)*3/2)
	}
	se.home.master.takeSlot()
}

const clusterMajority = 2 // of three masters

// elects reports whether a majority of the masters can vote. Sentinels always can.
func (se *sentinels) elects() bool {
	if !se.servers.clustered() {
		return true
	}
	votes := 1
	for _, sh := range se.shards {
		if sh.master.visible() {
			votes++
		}
	}
	return votes >= clusterMajority
}

func (se *sentinels) announce(m *peer) {
	if !se.servers.clustered() {
		return
	}
	for _, x := range se.of(m.shard) {
		if x != m {
			x.later(m.between(x), func() {
				if x.shard.master == m && x.of != m && x.pinned == 0 && x.meets(m) {
					x.demote(m)
				}
			})
		}
	}
}

// hearsMajority reports whether a server hears a majority of the masters. An acting master counts itself.
func (se *sentinels) hearsMajority(p *peer) bool {
	heard := 0
	if p.zone == 0 {
		heard++
	}
	for _, sh := range se.shards {
		m := sh.master
		if p.of == nil && p.shard == sh || p.meets(m) && m.s.hold == 0 {
			heard++
		}
	}
	return heard >= clusterMajority
}

// hearEachOther, called after each event, notes which servers have begun or ceased to hear a majority of the masters. A master that hears
// no majority stops serving after 1 to 1.5 node timeouts.
func (se *sentinels) hearEachOther() {
	if !se.servers.clustered() {
		return
	}
	for _, sh := range se.shards {
		se.watchShard(sh)
	}
	for _, p := range se.peers {
		if alone := !p.s.down && !se.hearsMajority(p); alone != p.alone {
			p.alone = alone
			p.ready(!alone, p.foundOut())
		}
	}
}

func (p *peer) foundOut() int64 {
	r, timeout := p.se.r, p.se.timeout
	switch {
	case p.alone:
		return timeout + upTo(r, timeout/2) + upTo(r, clusterCron)
	case p.of == nil:
		return min(max(timeout, rejoinMin), rejoinMax) + upTo(r, clusterCron)
	}
	return upTo(r, clusterCron)
}

// ready makes a server start or stop serving after d, unless another change comes first.
func (p *peer) ready(serves bool, d int64) {
	p.turn++
	turn := p.turn
	p.later(d, func() {
		if p.turn == turn {
			p.failed = !serves
		}
	})
}

func (p *peer) unready() {
	if !p.se.servers.clustered() {
		return
	}
	p.failed, p.alone, p.owned = true, false, p.owns
	d := upTo(p.se.r, clusterCron)
	if p.of == nil {
		d += writable
	}
	p.ready(true, d)
}

// redirected returns a server's refusal of a message, "" if it executes the message.
func (s *server) redirected(m *message) string {
	switch {
	case !s.set.clustered():
		return ""
	case m.args == nil:
		return s.peer.redirects(&m.op)
	case m.args[0] == "MGET":
		return s.peer.redirectsKeys(m.args[1:])
	}
	return s.peer.redirectsKeys(m.args[1:2]) // all other commands of an election begin with a key
}

func (p *peer) redirects(op *core.Op) string {
	c := p.se.cluster
	if c == nil || op.Kind == core.OpAsk { // PUBLISH has no key
		return ""
	}
	if c.move == nil || c.move.from != p {
		return p.redirectsKeys(nil)
	}
	return p.redirectsKeys(p.s.KeysOf(op))
}

// redirectsKeys checks in Redis' order. A server that the slot is leaving executes only commands of which it still has all keys.
func (p *peer) redirectsKeys(keys []string) string {
	move := p.se.cluster.move
	switch {
	case p.failed:
		return textClusterDown
	case p.of != nil || !p.owns:
		return textMoved
	case move == nil || move.from != p:
		return ""
	}
	switch p.s.CountKeys(p.se.t, keys) {
	case len(keys):
		return ""
	case 0:
		return textAsk
	}
	return textTryAgain
}

// whole reports whether all servers of a shard run and know their master, so that none misses a move and serves on (docs/replicas.md).
func (c *cluster) whole(sh *shard) bool {
	return !slices.ContainsFunc(c.se.of(sh), func(p *peer) bool {
		return !p.visible() || p.failed || p.s.loading > 0 || p.pinned > 0 || p != sh.master && (p.of != sh.master || !p.linked)
	})
}

// moveSoon moves the slot to the other shard once both can take part, as long as wanted returns true.
func (c *cluster) moveSoon(wanted func() bool) {
	se := c.se
	from, to := se.shards[0], se.shards[1]
	if se.home == to {
		from, to = to, from
	}
	switch {
	case !wanted():
	case c.move == nil && c.whole(from) && to.master.visible() && to.master.of == nil && !to.master.failed:
		c.beginMove(from.master, to.master)
	default:
		se.after(1+upTo(se.r, se.downAfter), func() { c.moveSoon(wanted) })
	}
}

func (c *cluster) beginMove(from, to *peer) {
	r := c.se.r
	to.discard()
	keys := from.s.Keys(c.se.t)
	c.move = &move{
		from: from, to: to, runs: [2]uint32{from.s.gen, to.s.gen},
		pause: upTo(r, int64(c.se.cfg.TTL)) / int64(1+len(keys)) / int64(1+r.IntN(8)),
	}
	c.se.note("the slot begins to move from %s to %s", from.s.name(), to.s.name())
	c.migrate()
}

// discard deletes the keys that a failed move left at a server.
func (p *peer) discard() {
	defer p.untold()()
	if len(p.s.Keys(p.se.t)) > 0 {
		p.s.DeleteKeys()
	}
}

// untold keeps a server's writes out of the history until the caller calls the returned function.
func (p *peer) untold() func() {
	told := p.told
	p.told = false
	return func() { p.told = told }
}

func (c *cluster) migrate() {
	m := c.move
	lost := func(p *peer, run uint32) bool { return p.shard.master != p || p.of != nil || p.s.gen != run }
	switch keys := m.from.s.Keys(c.se.t); {
	case lost(m.from, m.runs[0]) || lost(m.to, m.runs[1]):
		c.move = nil
		c.se.note("the slot stays at %s", c.se.servers.master.name())
		return
	case !m.from.visible() || !m.to.visible(): // no command gets through
	case len(keys) > 0:
		c.carry(m, keys)
	case c.whole(m.from.shard) && !m.to.failed:
		c.settle(m)
		return
	}
	c.se.after(1+upTo(c.se.r, m.pause), c.migrate)
}

// carry is MIGRATE of some keys. No owner loses its lease, so history omits it.
func (c *cluster) carry(m *move, keys []redis.Key) {
	defer m.from.untold()()
	defer m.to.untold()()
	r := c.se.r
	for range 1 + r.IntN(1+len(keys)/2) {
		i := r.IntN(len(keys))
		m.from.s.Migrate(c.se.t, keys[i], m.to.s.Server)
		keys = slices.Delete(keys, i, i+1)
	}
}

// settle is SETSLOT: the other shard owns the slot, and all servers of this shard know.
func (c *cluster) settle(m *move) {
	se := c.se
	c.move = nil
	for _, p := range se.of(m.from.shard) {
		p.owns = false
	}
	m.to.takeSlot()
	se.home, c.se.servers.master = m.to.shard, m.to.s
	c.se.note("the slot has moved to %s", c.se.servers.master.name())
	c.se.retap()
	c.se.tellClients()
}

func (p *peer) takeSlot() { p.owns, p.owned = true, true }

// refusesAll approximates a server that the slot is leaving: it refuses every command.
func (p *peer) refusesAll() bool {
	c := p.se.cluster
	return c != nil && (p.failed || c.move != nil && c.move.from == p)
}
