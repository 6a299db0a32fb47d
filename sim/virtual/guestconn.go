package virtual

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// guestConn is a connection of a guest. At most one batch of commands is on its way: the bytes that follow wait for the answer, as TCP
// may delay them. So no answer can overtake another.
type guestConn struct {
	g      *guestNode
	id     int32
	closed bool
	backAt int64 // true time at which the last bytes for the program arrive

	server *server
	front  *redis.Front // nil: a connection to the target
	todo   [][]string
	busy   bool
	wrote  int // offset of its last write in the stream for replicas

	in   []byte // for the target
	poll int32  // at the target; -1: none
}

// guestBatch is a message of a guest's connection: commands for Redis, or what it sends.
type guestBatch struct {
	conn  *guestConn // nil: the message is of no guest
	batch [][]string // to execute
	bytes []byte     // replies
	push  bool       // no command caused bytes
}

// Dial implements guest.Host.
func (g *guestNode) Dial(id int32, addr string) {
	c, h := &guestConn{g: g, id: id, poll: -1, server: g.n.fleet.servers.at(addr)}, &g.n.host
	g.conns = append(g.conns, c)
	failure, delay := "", g.n.hop()
	switch {
	case c.server != nil:
		delay = h.net.delay(&h.link, 0)
		if _, open := h.net.servers.accepts(h, c.server.number); h.link.cut > 0 || !open {
			failure = textRefused
			break
		}
		c.front = c.server.Connect(c.pushed)
		if c.server.Config.Watch == nil {
			h.route.to = c.server.number
		}
	case addr != guestTarget:
		failure = textRefused
	}
	g.later(delay, c, func() { g.prog.Connected(id, failure) })
	if failure != "" {
		c.closed = true
	}
}

// later calls f in the process, unless the connection has another ending first, and resumes the program.
func (g *guestNode) later(d int64, c *guestConn, f func()) {
	g.n.inProcess(d, func() {
		if g.conn(c.id) == c {
			f()
			g.resume()
		}
	})
}

// Write implements guest.Host.
func (g *guestNode) Write(id int32, p []byte) {
	c := g.conn(id)
	switch {
	case c == nil || c.closed:
	case c.front == nil:
		c.in = append(c.in, p...)
		c.serve()
	default:
		cmds, wrong := c.front.Commands(p)
		if wrong != nil { // no client sends such bytes
			c.reset()
			return
		}
		c.todo = append(c.todo, cmds...)
		c.send()
	}
}

// Close implements guest.Host.
func (g *guestNode) Close(id int32) {
	if c := g.conn(id); c != nil {
		c.close()
		g.conns = slices.DeleteFunc(g.conns, func(o *guestConn) bool { return o == c })
	}
}

func (c *guestConn) close() {
	if c.closed {
		return
	}
	c.closed = true
	if c.front != nil {
		c.front.Close()
	}
	if c.poll >= 0 {
		c.g.n.fleet.target.hangUp(c.poll)
		c.poll = -1
	}
}

// reset breaks the connection from outside.
func (c *guestConn) reset() {
	if c.closed {
		return
	}
	c.close()
	c.g.later(upTo(c.g.n.netRand, int64(time.Millisecond)), c, func() { c.g.prog.HangUp(c.id, true) })
}

// forever exceeds any run. It is no deadline of a message.
const forever = int64(1) << 62

func (c *guestConn) send() {
	if c.busy || len(c.todo) == 0 {
		return
	}
	n := c.g.n
	m := n.net.message()
	m.conn, m.batch, m.node, m.gen, m.deadline = c, c.todo, int32(n.slot-1), n.gen, forever
	c.busy, c.todo = true, nil
	n.depart(m)
}

// pushed sends what the server says unasked.
func (c *guestConn) pushed(frames []byte) {
	n := c.g.n
	m := n.net.message()
	m.conn, m.push, m.bytes, m.node, m.gen, m.deadline = c, true, frames, int32(n.slot-1), n.gen, forever
	n.net.post(c.inOrder(n.t+n.net.delay(&n.link, len(frames))), evReply, m)
}

// arrived receives the replies to a batch, a message that Redis pushes, or the failure of a request.
func (c *guestConn) arrived(m *message, a *core.Answer) {
	switch {
	case c.closed:
		return
	case a.Failure != core.FailNone:
		c.reset()
		return
	case !m.push:
		c.busy = false
	}
	c.g.prog.Deliver(c.id, m.bytes)
	c.send()
	c.g.resume()
}

// inOrder returns when bytes arrive that leave the server now: not before those that left earlier.
func (c *guestConn) inOrder(at int64) int64 {
	c.backAt = max(at, c.backAt)
	return c.backAt
}

// obey executes the commands of a guest's message.
func (s *server) obey(m *message) {
	s.Loading = s.loading > 0
	for len(m.batch) > 0 {
		s.set.out.Commands++
		before := s.offset()
		out, wait := m.conn.front.Execute(s.set.t, m.batch[0])
		if s.offset() > before {
			m.conn.wrote = s.offset()
		}
		s.feedBlocked()
		if wait != nil {
			acks, enough := s.acks(m.conn, wait)
			if !enough && s.blocks(m, wait) {
				return
			}
			m.since = 0
			out = m.conn.front.Resume(acks)
		}
		m.bytes, m.batch = append(m.bytes, out...), m.batch[1:]
	}
	s.set.reply(m)
}

// sweepEvery is how often Redis looks for expired keys.
const sweepEvery = int64(100 * time.Millisecond)

// sweep deletes expired keys, of which guests that track them learn.
func (s *server) sweep() {
	if !s.down && s.hold == 0 && !s.follows() {
		s.Sweep(s.set.t)
	}
	s.set.after(sweepEvery, s.sweep)
}

// blocks makes a command that waits run again in a moment, and reports whether it waits on.
func (s *server) blocks(m *message, wait *redis.WaitFor) bool {
	if m.since == 0 {
		m.since = s.set.t
	}
	if s.set.t-m.since >= wait.Block*int64(time.Millisecond) {
		return false
	}
	s.set.net.post(s.set.t+int64(time.Millisecond), evExec, m)
	return true
}
