package virtual

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

func (w *world) block(s *server, m *message, wait redis.WaitFor) {
	b := &blockedRead{m, wait.Key}
	m.refs++
	s.blocked = append(s.blocked, b)
	w.after(s.Clock.TrueOf(0, wait.Block*int64(time.Millisecond)), func() { w.unblock(s, b) })
}

// unblock replies that no entry came, once the server runs.
func (w *world) unblock(s *server, b *blockedRead) {
	i := slices.Index(s.blocked, b)
	switch {
	case i < 0:
		return
	case s.hold > 0:
		w.after(int64(10*time.Millisecond), func() { w.unblock(s, b) })
		return
	}
	s.blocked = slices.Delete(s.blocked, i, i+1)
	b.m.reply = nil
	w.reply(b.m)
	w.release(b.m)
}

// feedBlocked answers reads of the streams that the last command added to.
func (w *world) feedBlocked(s *server) {
	for _, key := range s.TakeFed() {
		for _, b := range slices.Clone(s.blocked) {
			if b.key != key {
				continue
			}
			n := w.nodes[b.m.node]
			gone := b.m.noReply || b.m.gen != n.gen && n.link.holdOut == 0
			got := redis.Reply(nil)
			if !gone {
				got = s.Obey(w.t, b.m.cmd.Args)
				if _, still := got.(redis.WaitFor); still {
					continue
				}
			}
			s.blocked = slices.DeleteFunc(s.blocked, func(o *blockedRead) bool { return o == b })
			if b.m.reply = got; !gone {
				w.reply(b.m)
			}
			w.release(b.m)
		}
	}
}

func (w *world) unblockAll(s *server) {
	for _, b := range s.blocked {
		w.release(b.m)
	}
	s.blocked = nil
}

// textUnblocked is Redis' reply to a blocked read when the server becomes a replica.
const textUnblocked = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"

func (w *world) demoteBlocked(p *peer) {
	if len(p.s.blocked) == 0 {
		return
	}
	w.toServer(p, 0, func() {
		for _, b := range p.s.blocked {
			b.m.reply = redis.Refusal(textUnblocked)
			w.reply(b.m)
		}
		w.unblockAll(p.s)
	})
}

// addServer adds the first server or, with a label, another one.
func (w *world) addServer(label string) *server {
	cfg, s := &w.cfg, &server{number: int32(len(w.servers))}
	rc := redis.Config{
		Options: redisstore.Options{Quarantine: cfg.TTL, Replicas: cfg.Replicas}, Label: label,
		Local: cfg.Local && !cfg.replicated(), Lua: cfg.Lua, Loaded: cfg.Loaded,
		Script: cfg.Seams.Script, Begun: cfg.Seams.Begun, Older: cfg.Seams.older,
		Wrote:   func(c redis.Change) { w.wrote(s, c) },
		Publish: func(no core.Notice) { w.deliver(notice{Notice: no}, s.number, 100+40*len(no.IDs)) },
		Shout:   func(text string) { w.deliver(notice{text: text}, s.number, 60+len(text)) },
		Named: func(id string) {
			w.sessIdx[id] = int32(len(w.sess))
			w.sess = append(w.sess, session{id: id, heedless: heedless(cfg, id)})
		},
	}
	var like *redis.Server
	if label != "" {
		like, rc.Runs = w.servers[0].Server, 1
	}
	if cfg.Intents != nil {
		rc.Options = intentOptions(cfg)
	}
	s.Server = redis.New(rc, like)
	w.servers = append(w.servers, s)
	return s
}

const (
	opCost   = int64(20 * time.Microsecond)
	itemCost = int64(3 * time.Microsecond)
)

func (w *world) serverEvent(e *loop.Event) {
	m := w.messages[e.Arg]
	s := w.servers[m.to]
	if m.lost || s.down || m.run != s.gen {
		w.release(m)
		return
	}
	n := w.nodes[e.Node]
	if e.Kind == evArrive && n.link.holdOut > 0 {
		n.link.heldOut = append(n.link.heldOut, *e)
		w.arm(m)
		return
	}
	if s.hold > 0 {
		s.waiting = append(s.waiting, m)
		w.arm(m)
		return
	}
	if e.Kind == evArrive {
		start := max(w.t, s.until)
		s.until = start + opCost + itemCost*int64(len(m.op.Items))
		if start > w.t {
			w.post(start, evExec, m)
			w.release(m)
			return
		}
	}
	w.execute(m)
	w.release(m)
}

func (w *world) execute(m *message) {
	s := w.servers[m.to]
	if why := w.redirected(s, m); why != "" {
		if m.cmd != nil {
			m.reply = redis.Refusal(why)
		} else {
			m.ans = core.Answer{Seq: m.op.Seq, Failure: core.FailRefused, Text: why, Results: m.ans.Results[:0]}
		}
		w.reply(m)
		return
	}
	switch {
	case s.loading == 0 && m.cmd == nil && !s.Knows(m.op.Kind) && !s.DeniesOp(&m.op):
		w.sendScript(m)
		return
	case s.loading > 0:
		m.ans = core.Answer{Seq: m.op.Seq, Failure: core.FailRefused, Text: redis.TextLoading, Results: m.ans.Results[:0]}
	case m.cmd != nil:
		w.out.Commands++
		m.reply = s.Obey(w.t, m.cmd.Args)
		w.feedBlocked(s)
		if wait, blocks := m.reply.(redis.WaitFor); blocks {
			w.block(s, m, wait)
			return
		}
	case m.op.Kind == core.OpLook && !m.torn:
		w.out.Commands++
		s.Glance(w.t, &m.op, &m.ans)
		if m.ans.Look != nil {
			m.torn, m.since = true, w.t
			w.post(w.t+w.delay(&w.nodes[m.node].link, 0), evExec, m)
			return
		}
	case m.torn:
		first := m.ans
		s.Do(w.t, &m.op, &m.ans)
		w.join(&first, m)
	default:
		w.out.Commands++
		if m.op.Confirm > 0 {
			w.confirm(s, m)
			return
		}
		s.Do(w.t, &m.op, &m.ans)
	}
	w.reply(m)
}

// sendScript models NOSCRIPT: the client sends the op again, with the script's text. Faults can hit both requests.
func (w *world) sendScript(m *message) {
	n := w.nodes[m.node]
	w.servers[m.to].Load(m.op.Kind)
	if n.link.holdIn > 0 || w.loses(w.cfg.Net.Lost) {
		w.arm(m)
		return
	}
	if n.gen == m.gen {
		n.link.sent++
	}
	w.post(w.t+opCost+w.delay(&n.link, 0)+w.delay(&n.link, sizeOf(&m.op)), evArrive, m)
}

// join completes a discovery of several reads: half of the owners, later the other half, then the heartbeats by SCAN, which may miss new
// ones. If data is lost meanwhile, the discovery fails.
func (w *world) join(first *core.Answer, m *message) {
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
		look.Sessions, look.Owners = w.scanned(first.Look, &look)
	} else if half := len(look.Owners) / 2; !slices.Equal(first.Look.Owners[:half], look.Owners[:half]) {
		look.Owners = slices.Concat(first.Look.Owners[:half], look.Owners[half:])
	}
	look.Nodes = slices.DeleteFunc(look.Nodes, func(n core.Seen) bool {
		return w.server.BeatSince(n.ID) > m.since && w.net.Int64N(2) == 0
	})
	a.Look = &look
}

// scanned is SCAN's view: all sessions of both reads, and a random part of the others.
func (w *world) scanned(before, after *core.Look) (*core.Sessions, []string) {
	var ids, owners []string
	show := func(l *core.Look, i int) { ids, owners = append(ids, l.Sessions.IDs[i]), append(owners, l.Owners[i]) }
	for b, a := 0, 0; b < len(before.Owners) || a < len(after.Owners); {
		switch {
		case a == len(after.Owners) || b < len(before.Owners) && before.Sessions.IDs[b] < after.Sessions.IDs[a]:
			if w.net.Int64N(2) == 0 {
				show(before, b)
			}
			b++
		case b == len(before.Owners) || after.Sessions.IDs[a] < before.Sessions.IDs[b]:
			if w.net.Int64N(2) == 0 {
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

func (w *world) reply(m *message) {
	n := w.nodes[m.node]
	switch p := w.servers[m.to].peer; {
	case p == nil || m.gen != n.gen:
	case w.clustered():
		if _, refused := m.reply.(redis.Refusal); refused || m.ans.Failure != core.FailNone {
			w.readMap(n)
		}
	case p.of != nil: // the reply is READONLY or UNBLOCKED
		w.hearSwitch(n, upTo(w.sentinels.r, w.sentinels.downAfter))
	}
	if w.loses(w.cfg.Net.Lost) {
		w.arm(m)
		return
	}
	back := w.t + opCost + w.delay(&n.link, sizeOfAnswer(m))
	w.post(back, evReply, m)
	if n.link.double > 0 || chance(w.net, w.cfg.Net.Double) {
		w.post(back+upTo(w.net, int64(w.cfg.TTL)), evReply, m)
	}
}

func (w *world) thawServer(s *server) {
	waiting := s.waiting
	s.waiting = nil
	s.until = w.t
	for _, m := range waiting {
		w.post(w.t, evArrive, m)
		w.release(m)
	}
	if s.peer != nil {
		w.thawStream(s)
	}
}

func (w *world) killServer(s *server) {
	if s.down {
		return
	}
	s.down = true
	s.gen++
	for _, m := range s.waiting {
		w.release(m)
	}
	s.waiting = nil
	w.unblockAll(s)
	for _, n := range w.nodes {
		if n.link.to == s.number {
			w.reset(n)
		} else if s.peer != nil {
			w.cutOff(n, s)
		}
	}
	if s.peer != nil {
		w.endStream(s)
		return
	}
	w.emit(history.Event{Kind: history.TapDown})
	w.emit(history.Event{Kind: history.RedisDown})
}

func (w *world) startServer(s *server, empty bool) {
	if !s.down && s.peer != nil { // another fault has started it
		return
	}
	s.down = false
	s.Start(w.t)
	s.until = w.t
	kept := "kept"
	if empty {
		kept = "empty"
		s.Empty(w.cfg.Emptied)
		w.application()
	}
	if s.peer != nil {
		w.beginStream(s, empty)
		return
	}
	w.emit(history.Event{Kind: history.RedisUp, Reason: kept})
	w.snapshot(s)
}

// snapshot records all keys, as a replica reads them when it reconnects.
func (w *world) snapshot(s *server) {
	w.emitOf(s, history.Event{Kind: history.TapUp})
	s.Present(w.t, func(c redis.Change) { w.show(s, c, true) })
}

// emitOf records a server's action. It names a server other than the sentinels' master.
func (w *world) emitOf(s *server, e history.Event) {
	if s != w.server {
		e.Node = s.name()
	}
	w.emit(e)
}

// wrote appends a write to the server's stream. A server that history includes shows it.
func (w *world) wrote(s *server, c redis.Change) {
	p := s.peer
	if p != nil && c.Kind != redis.Added {
		p.write(c)
	}
	if p == nil || p.told {
		w.show(s, c, false)
	}
}

// show records a change of a server's keys in history, and schedules the check of the key's expiry. A snapshot shows the present keys.
func (w *world) show(s *server, c redis.Change, snapshot bool) {
	var e history.Event
	switch c.Kind {
	case redis.Granted:
		w.timer(s, evLeaseExpiry, c.N)
		if s == w.server {
			w.thawWitness(c.N, c.Text)
		}
		e = history.Event{Kind: history.RedisGranted, Session: s.LeaseID(c.N), Instance: c.Text, Until: s.TrueOf(w.t, c.Expire)}
	case redis.Extended:
		e = history.Event{Kind: history.RedisExtended, Session: s.LeaseID(c.N), Instance: c.Text, Until: s.TrueOf(w.t, c.Expire)}
	case redis.Deleted:
		e = history.Event{Kind: history.RedisDeleted, Session: s.LeaseID(c.N)}
	case redis.Fenced:
		if c.At == 0 {
			return
		}
		e = history.Event{Kind: history.RedisFence, Session: s.LeaseID(c.N), Fence: c.At}
	case redis.EpochSet:
		e = history.Event{Kind: history.RedisEpoch, N: number(snapshot), Reason: c.Text}
	case redis.Beaten:
		w.timer(s, evBeatExpiry, c.N)
		e = history.Event{Kind: history.RedisBeat, Instance: s.BeatID(c.N), Until: s.TrueOf(w.t, c.Expire)}
	case redis.BeatGone:
		e = history.Event{Kind: history.RedisBeatGone, Instance: s.BeatID(c.N)}
	case redis.Flushed:
		e = history.Event{Kind: history.RedisFlushed}
	default:
		w.showRecord(s, c, snapshot)
		return
	}
	if snapshot && c.Kind != redis.EpochSet {
		e.Reason = "snapshot"
	}
	w.emitOf(s, e)
}

// timer schedules the check of a lease or heartbeat at its expiry. Each has one pending event, however often it is renewed.
func (w *world) timer(s *server, kind uint8, i int32) {
	pending := &s.timers[kind-evLeaseExpiry]
	for len(*pending) <= int(i) {
		*pending = append(*pending, false)
	}
	if end, ends := s.End(kind == evBeatExpiry, i); ends && !(*pending)[i] {
		(*pending)[i] = true
		w.q.Push(loop.Event{At: s.TrueOf(w.t, end+1), Kind: kind, Node: s.number, Arg: i})
	}
}

func (w *world) expires(e *loop.Event) {
	s := w.servers[e.Node]
	s.timers[e.Kind-evLeaseExpiry][e.Arg] = false
	if !s.follows() {
		s.Expire(e.Kind == evBeatExpiry, e.Arg, s.NowMs(w.t))
		w.timer(s, e.Kind, e.Arg)
	}
}
