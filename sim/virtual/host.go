package virtual

import (
	"math"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
)

// host is a machine on the network: its clocks, its connections to the servers, and the process that it runs, if any.
type host struct {
	*timeline
	net      *network
	receiver receiver

	slot  int // from 1
	name  string
	clock loop.Clock
	gen   uint32 // generation of the process
	alive bool
	link  link
	sub   subscription
	route route
}

// route is what a process knows of the servers, and which of them it reaches.
type route struct {
	to       int32 // server of its connections
	zone     int32 // zone of the servers that it reaches
	anywhere bool  // it reaches all zones
	told     int32 // master that the process last learned; -1: none
	astray   bool  // in history, it does not know or cannot reach the sentinels' master
}

// receiver is the process of a host, as the network knows it.
type receiver interface {
	// finished receives the answer to a request, or its failure.
	finished(m *message, a core.Answer)
	// subscribed is called when the process may receive notices, and may have missed some.
	subscribed()
	// disconnected is called when the process loses its connections to a server or, for nil, to all. True: it sees to them itself, and has
	// no subscription here.
	disconnected(from *server) bool
}

// subscription is a connection of a process on which a server sends notices.
type subscription struct {
	number   uint32 // counts subscriptions
	on       bool
	trying   bool  // an attempt to subscribe is pending
	noticeAt int64 // arrival of the last notice; notices arrive in order
}

func (s *subscription) close() {
	s.on = false
	s.number++
}

// link is the network between a machine and Redis. It has counters, because faults may overlap.
type link struct {
	cut       int
	holdOut   int           // requests are held back
	holdIn    int           // answers and notices are held back
	extra     time.Duration // latency, one way
	jitter    time.Duration
	narrow    []narrow // bandwidth limits in force
	fragments int
	double    int
	reorder   time.Duration

	heldOut []loop.Event
	heldIn  []loop.Event
	flight  []*message // sent, neither answered nor given up
	sent    int64      // commands in this bucket (history.Commands)
}

type narrow struct {
	kbps  int64 // kilobytes a second
	until int64
}

// narrowed returns the delay of size bytes by bandwidth limits. It ends when the last limit is lifted.
func (l *link) narrowed(now int64, size int) int64 {
	if len(l.narrow) == 0 {
		return 0
	}
	kbps, until := int64(math.MaxInt64), now
	for _, n := range l.narrow {
		kbps, until = min(kbps, n.kbps), max(until, n.until)
	}
	return min(int64(size)*million/kbps, until-now)
}

// mono returns the time on the monotonic clock.
func (h *host) mono() core.Time { return h.clock.MonoAt(h.t) }

func (h *host) count() {
	if h.link.sent > 0 {
		h.emit(history.Event{Kind: history.Commands, Node: h.name, N: h.link.sent})
		h.link.sent = 0
	}
}

// send takes an op from a core. One op of eight leaves later, so that a freeze can fall between stamp and send.
func (h *host) send(op *core.Op) {
	m := h.net.message()
	m.op, m.node, m.gen = *op, int32(h.slot-1), h.gen
	m.deadline = h.clock.When(h.t, op.Deadline)
	if op.Kind == core.OpLook { // the client waits no longer for the answer to each of its requests
		m.deadline = h.clock.When(h.t, op.Sent+core.Time(h.cfg.OpTimeout))
	}
	if h.netRand.Int64N(8) == 0 {
		h.net.post(h.t+upTo(h.netRand, int64(time.Millisecond)), evSend, m)
		return
	}
	h.depart(m)
}

func (h *host) depart(m *message) {
	l := &h.link
	l.sent += h.net.commands(m)
	to := h.route.to
	if m.conn != nil {
		to = m.conn.server.number
	}
	run, open := h.net.servers.accepts(h, to)
	if l.cut > 0 || !open {
		m.ans = core.Answer{Seq: m.op.Seq, Failure: core.FailUnsent, Text: textRefused, Results: m.ans.Results}
		h.net.post(h.t+h.net.delay(l, 0), evReply, m)
		h.net.servers.dial(h)
		return
	}
	m.run, m.to = run, to
	m.refs++
	l.flight = append(l.flight, m)
	if m.conn == nil && h.loses(h.cfg.Net.Lost) {
		h.net.arm(m)
		return
	}
	at := h.t + h.net.delay(l, m.size())
	if h.net.edge != nil {
		at = h.net.edge(at, &m.op)
	}
	h.net.post(at, evArrive, m)
}

func (h *host) sent(e *loop.Event) {
	m := h.net.messages[e.Arg]
	if m.gen == h.gen && h.alive {
		h.depart(m)
	}
	h.net.release(m)
}

func (h *host) answered(e *loop.Event) {
	m := h.net.messages[e.Arg]
	defer h.net.release(m)
	if m.gen != h.gen || !h.alive {
		return
	}
	if e.Kind == evTimeout {
		if m.told {
			return
		}
		m.told = true
		h.net.landed(&h.link, m)
		text := textTimeout
		if m.noReply {
			text = textReset
		}
		h.net.servers.timedOut(h)
		h.receiver.finished(m, core.Answer{Seq: m.op.Seq, Failure: core.FailUnknown, Text: text})
		return
	}
	if m.noReply && m.ans.Failure != core.FailUnsent {
		return
	}
	if h.t > m.deadline && !chance(h.netRand, h.cfg.Net.Late) {
		h.net.arm(m)
		return
	}
	m.told = true
	h.net.landed(&h.link, m)
	h.receiver.finished(m, m.ans)
}

// reset breaks every connection of a machine. Redis may still execute pending requests; their answers are lost.
func (h *host) reset() {
	l := &h.link
	for _, m := range l.flight {
		if h.netRand.Int64N(2) == 0 {
			m.lost = true
		}
		h.net.breaks(m)
		h.net.release(m)
	}
	clear(l.flight)
	l.flight = l.flight[:0]
	h.net.dropHeldIn(l)
	h.net.servers.dial(h)
	h.deafen()
}

// deafen ends the subscription. The process retries.
func (h *host) deafen() {
	if h.receiver.disconnected(nil) {
		return
	}
	h.sub.close()
	h.subscribe(upTo(h.netRand, int64(20*time.Millisecond)))
}

func (h *host) subscribe(after int64) {
	if h.alive && !h.sub.trying {
		h.sub.trying = true
		h.inProcess(after, h.subUp)
	}
}

func (h *host) subUp() {
	h.sub.trying = false
	if h.sub.on {
		return
	}
	l := &h.link
	if l.cut > 0 || l.holdOut > 0 || l.holdIn > 0 || !h.net.servers.subscribes(h) {
		h.net.servers.dial(h)
		half := int64(redisstore.ResubscribeMin) / 2
		h.subscribe(half + upTo(h.netRand, half))
		return
	}
	l.sent++
	h.sub.on, h.sub.noticeAt = true, h.t
	h.receiver.subscribed()
}

// heal delivers in order the messages that a link held back.
func (h *host) heal() {
	l := &h.link
	if l.holdOut == 0 {
		h.net.replay(&l.heldOut)
	}
	if l.holdIn == 0 {
		h.net.replay(&l.heldIn)
	}
}

// inProcess calls f in a process after d, unless the process has ended. A frozen process calls f when thawed.
func (h *host) inProcess(d int64, f func()) {
	h.q.Push(loop.Event{At: h.t + max(0, d), Kind: evProcess, Node: int32(h.slot - 1), Arg: h.keep(f), Gen: h.gen})
}

// abandon gives up all pending requests: the process ends.
func (h *host) abandon() {
	for _, m := range h.link.flight {
		h.net.release(m)
	}
	clear(h.link.flight)
	h.link.flight = h.link.flight[:0]
}
