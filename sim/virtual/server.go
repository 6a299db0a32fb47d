package virtual

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// servers are the Redis servers of a run.
type servers struct {
	*timeline
	net       *network
	master    *server    // the only server, or the sentinels' master
	all       []*server  // by number
	sentinels *sentinels // nil: a single server
	known     int        // number of leases

	named   func(id string)                 // a lease is new, and has the next number
	granted func(lease int32, owner string) // the master has granted a lease
	emptied func()                          // a server has started without data
}

// server is the Redis process. It executes its queued ops one after another.
type server struct {
	*redis.Server
	set     *servers
	number  int32
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

type blockedRead struct {
	m   *message
	key string
}

func (s *server) block(m *message, wait redis.WaitFor) {
	b := &blockedRead{m, wait.Key}
	m.refs++
	s.blocked = append(s.blocked, b)
	s.set.after(s.Clock.TrueOf(0, wait.Block*int64(time.Millisecond)), func() { s.unblock(b) })
}

// unblock replies that no entry came, once the server runs.
func (s *server) unblock(b *blockedRead) {
	i := slices.Index(s.blocked, b)
	switch {
	case i < 0:
		return
	case s.hold > 0:
		s.set.after(int64(10*time.Millisecond), func() { s.unblock(b) })
		return
	}
	s.blocked = slices.Delete(s.blocked, i, i+1)
	b.m.reply = nil
	s.set.reply(b.m)
	s.set.net.release(b.m)
}

// feedBlocked answers reads of the streams that the last command added to.
func (s *server) feedBlocked() {
	for _, key := range s.TakeFed() {
		for _, b := range slices.Clone(s.blocked) {
			if b.key == key {
				s.feed(b)
			}
		}
	}
}

// feed answers a blocked read, unless its entry is gone. The entry is lost if the connection is gone.
func (s *server) feed(b *blockedRead) {
	n := s.set.net.hosts[b.m.node]
	gone := b.m.noReply || b.m.gen != n.gen && n.link.holdOut == 0
	if b.m.reply = nil; !gone {
		got := s.Obey(s.set.t, b.m.args)
		if _, still := got.(redis.WaitFor); still {
			return
		}
		b.m.reply = got
	}
	s.blocked = slices.DeleteFunc(s.blocked, func(o *blockedRead) bool { return o == b })
	if !gone {
		s.set.reply(b.m)
	}
	s.set.net.release(b.m)
}

func (s *server) unblockAll() {
	for _, b := range s.blocked {
		s.set.net.release(b.m)
	}
	s.blocked = nil
}

// textUnblocked is Redis' reply to a blocked read when the server becomes a replica.
const textUnblocked = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"

func (p *peer) demoteBlocked() {
	if len(p.s.blocked) == 0 {
		return
	}
	p.later(0, func() {
		for _, b := range p.s.blocked {
			b.m.reply = redis.Refusal(textUnblocked)
			p.se.servers.reply(b.m)
		}
		p.s.unblockAll()
	})
}

// addFirst adds the server that a run begins with.
func (ss *servers) addFirst(setup *rand.Rand) {
	ss.master = ss.add("")
	ss.master.Clock = loop.Clock{Wall: epochNs + spread(setup, int64(ss.cfg.Clock.Offset)), PPM: ss.cfg.Clock.rate(setup)}
}

// add adds the first server or, with a label, another one.
func (ss *servers) add(label string) *server {
	cfg, s := &ss.cfg, &server{set: ss, number: int32(len(ss.all))}
	rc := redis.Config{
		Options: cfg.storeOptions(), Label: label,
		Local: cfg.Local && !cfg.replicated(), Lua: cfg.Lua, Loaded: cfg.Loaded,
		Script: cfg.Seams.Script, Older: cfg.Seams.older,
		Wrote:   func(c redis.Change) { s.wrote(c) },
		Publish: func(no core.Notice) { ss.net.deliver(notice{Notice: no}, s.number, 100+40*len(no.IDs)) },
		Shout:   func(text string) { ss.net.deliver(notice{text: text}, s.number, 60+len(text)) },
		Guests:  cfg.Guest != nil,
		Named: func(id string) {
			ss.known++
			ss.named(id)
		},
	}
	var like *redis.Server
	if label != "" {
		like, rc.Runs = ss.all[0].Server, 1
	}
	s.Server = redis.New(rc, like)
	ss.all = append(ss.all, s)
	return s
}

const (
	opCost   = int64(20 * time.Microsecond)
	itemCost = int64(3 * time.Microsecond)
)

func (ss *servers) event(e *loop.Event) {
	m := ss.net.messages[e.Arg]
	s := ss.all[m.to]
	if m.lost || s.down || m.run != s.gen {
		ss.net.release(m)
		return
	}
	n := ss.net.hosts[e.Node]
	if e.Kind == evArrive && n.link.holdOut > 0 {
		n.link.heldOut = append(n.link.heldOut, *e)
		ss.net.arm(m)
		return
	}
	if s.hold > 0 {
		s.waiting = append(s.waiting, m)
		ss.net.arm(m)
		return
	}
	if e.Kind == evArrive {
		start := max(ss.t, s.until)
		s.until = start + opCost + itemCost*int64(len(m.op.Items)+len(m.batch))
		if start > ss.t {
			ss.net.post(start, evExec, m)
			ss.net.release(m)
			return
		}
	}
	ss.execute(m)
	ss.net.release(m)
}

func (ss *servers) execute(m *message) {
	s := ss.all[m.to]
	if why := s.redirected(m); why != "" {
		if m.args != nil {
			m.reply = redis.Refusal(why)
		} else {
			m.ans = core.Answer{Seq: m.op.Seq, Failure: core.FailRefused, Text: why, Results: m.ans.Results[:0]}
		}
		ss.reply(m)
		return
	}
	switch {
	case m.conn != nil:
		s.obey(m)
		return
	case s.loading == 0 && m.args == nil && !s.Knows(m.op.Kind) && !s.DeniesOp(&m.op):
		ss.sendScript(m)
		return
	case s.loading > 0:
		m.ans = core.Answer{Seq: m.op.Seq, Failure: core.FailRefused, Text: redis.TextLoading, Results: m.ans.Results[:0]}
	case m.args != nil:
		ss.out.Commands++
		m.reply = s.Obey(ss.t, m.args)
		s.feedBlocked()
		if wait, blocks := m.reply.(redis.WaitFor); blocks {
			s.block(m, wait)
			return
		}
	case m.op.Kind == core.OpLook && !m.torn:
		ss.out.Commands++
		s.Glance(ss.t, &m.op, &m.ans)
		if m.ans.Look != nil {
			m.torn, m.since = true, ss.t
			ss.net.post(ss.t+ss.net.delay(&ss.net.hosts[m.node].link, 0), evExec, m)
			return
		}
	case m.torn:
		first := m.ans
		s.Do(ss.t, &m.op, &m.ans)
		ss.join(&first, m)
	default:
		ss.out.Commands++
		if m.op.Confirm > 0 {
			s.peer.confirm(m)
			return
		}
		s.Do(ss.t, &m.op, &m.ans)
	}
	ss.reply(m)
}

// sendScript models NOSCRIPT: the client sends the op again, with the script's text. Faults can hit both requests.
func (ss *servers) sendScript(m *message) {
	n := ss.net.hosts[m.node]
	ss.all[m.to].Load(m.op.Kind)
	if n.link.holdIn > 0 || ss.loses(ss.cfg.Net.Lost) {
		ss.net.arm(m)
		return
	}
	if n.gen == m.gen {
		n.link.sent++
	}
	ss.net.post(ss.t+opCost+ss.net.delay(&n.link, 0)+ss.net.delay(&n.link, m.size()), evArrive, m)
}

// join completes a discovery of several reads: half of the owners, later the other half, then the heartbeats by SCAN, which may miss new
// ones. If data is lost meanwhile, the discovery fails.
func (ss *servers) join(first *core.Answer, m *message) {
	a := &m.ans
	switch {
	case a.Look == nil:
		return
	case first.Epoch != "" && first.Epoch != a.Epoch:
		*a = core.Answer{Seq: m.op.Seq, Failure: core.FailUnknown, Text: textTornLook, Results: a.Results[:0]}
		return
	}
	look := *a.Look
	if first.Look.Sessions != look.Sessions {
		look.Sessions, look.Owners = ss.scanned(first.Look, &look)
	} else if half := len(look.Owners) / 2; !slices.Equal(first.Look.Owners[:half], look.Owners[:half]) {
		look.Owners = slices.Concat(first.Look.Owners[:half], look.Owners[half:])
	}
	look.Nodes = slices.DeleteFunc(look.Nodes, func(n core.Seen) bool {
		return ss.master.BeatSince(n.ID) > m.since && ss.netRand.Int64N(2) == 0
	})
	if m.op.Known(look.Sessions.Sum()) {
		look.Owners = nil
	}
	a.Look = &look
}

// scanned is SCAN's view: all sessions of both reads, and a random part of the others.
func (ss *servers) scanned(before, after *core.Look) (*core.Sessions, []string) {
	var ids, owners []string
	show := func(l *core.Look, i int) { ids, owners = append(ids, l.Sessions.IDs[i]), append(owners, l.Owners[i]) }
	for b, a := 0, 0; b < len(before.Owners) || a < len(after.Owners); {
		switch {
		case a == len(after.Owners) || b < len(before.Owners) && before.Sessions.IDs[b] < after.Sessions.IDs[a]:
			if ss.netRand.Int64N(2) == 0 {
				show(before, b)
			}
			b++
		case b == len(before.Owners) || after.Sessions.IDs[a] < before.Sessions.IDs[b]:
			if ss.netRand.Int64N(2) == 0 {
				show(after, a)
			}
			a++
		default:
			show(after, a)
			a, b = a+1, b+1
		}
	}
	return core.NewSessions(ids), owners
}

func (ss *servers) reply(m *message) {
	n := ss.net.hosts[m.node]
	switch p := ss.all[m.to].peer; {
	case p == nil || m.gen != n.gen:
	case ss.clustered():
		if _, refused := m.reply.(redis.Refusal); refused || m.ans.Failure != core.FailNone {
			ss.readMap(n)
		}
	case p.of != nil: // the reply is READONLY or UNBLOCKED
		ss.hearSwitch(n, upTo(ss.sentinels.r, ss.sentinels.downAfter))
	}
	if m.conn == nil && ss.loses(ss.cfg.Net.Lost) {
		ss.net.arm(m)
		return
	}
	back := ss.t + opCost + ss.net.delay(&n.link, sizeOfAnswer(m))
	if m.conn != nil {
		ss.net.post(m.conn.inOrder(back), evReply, m)
		return
	}
	ss.net.post(back, evReply, m)
	if n.link.double > 0 || chance(ss.netRand, ss.cfg.Net.Double) {
		ss.net.post(back+upTo(ss.netRand, int64(ss.cfg.TTL)), evReply, m)
	}
}

func (s *server) thaw() {
	waiting := s.waiting
	s.waiting = nil
	s.until = s.set.t
	for _, m := range waiting {
		s.set.net.post(s.set.t, evArrive, m)
		s.set.net.release(m)
	}
	if s.peer != nil {
		s.peer.thaw()
	}
}

func (s *server) kill() {
	if s.down {
		return
	}
	s.down = true
	s.gen++
	for _, m := range s.waiting {
		s.set.net.release(m)
	}
	s.waiting = nil
	s.unblockAll()
	for _, n := range s.set.net.hosts {
		s.hangUp(n)
		if s.peer != nil {
			s.cutOff(n)
		}
	}
	if s.peer != nil {
		s.peer.end()
		return
	}
	s.set.emit(history.Event{Kind: history.TapDown})
	s.set.emit(history.Event{Kind: history.RedisDown})
}

func (s *server) start(empty bool) {
	if !s.down && s.peer != nil { // another fault has started it
		return
	}
	s.down = false
	s.Start(s.set.t)
	s.until = s.set.t
	kept := "kept"
	if empty {
		kept = "empty"
		s.Empty(s.set.cfg.Emptied)
		s.set.emptied()
	}
	if s.peer != nil {
		s.peer.begin(empty)
		return
	}
	s.set.emit(history.Event{Kind: history.RedisUp, Reason: kept})
	s.snapshot()
}

// timer schedules the check of a lease or heartbeat at its expiry. Each has one pending event, however often it is renewed.
func (s *server) timer(kind uint8, i int32) {
	pending := &s.timers[kind-evLeaseExpiry]
	for len(*pending) <= int(i) {
		*pending = append(*pending, false)
	}
	if end, ends := s.End(kind == evBeatExpiry, i); ends && !(*pending)[i] {
		(*pending)[i] = true
		s.set.q.Push(loop.Event{At: s.TrueOf(s.set.t, end+1), Kind: kind, Node: s.number, Arg: i})
	}
}

func (ss *servers) expires(e *loop.Event) {
	s := ss.all[e.Node]
	s.timers[e.Kind-evLeaseExpiry][e.Arg] = false
	if !s.follows() {
		s.Expire(e.Kind == evBeatExpiry, e.Arg, s.NowMs(ss.t))
		s.timer(e.Kind, e.Arg)
	}
}

func (s *server) name() string { return fmt.Sprintf("server %d", s.number+1) }

// follows reports whether the server is a replica. A replica expires a key only when its master does.
func (s *server) follows() bool { return s.peer != nil && s.peer.of != nil }

// leases implements backend.
func (ss *servers) leases() int { return ss.known }

func (ss *servers) clustered() bool { return ss.sentinels != nil && ss.sentinels.cluster != nil }
