package virtual

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/internal/redisstore"
	"github.com/leasestorm/leasestorm/sim/foreign"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// The links count the commands that a process sends (G14), including those that the network holds back or refuses.

// pageKeys is the page size of SCAN and of a script that reads many keys.
const pageKeys = 1000

// commands returns the number of commands that m sends: one, WAIT if acknowledgements count, and a second read of the epoch after an
// acquisition. A discovery scans about three keys a session for sessions and again for heartbeats, then reads both and the owners.
func (w *world) commands(m *message) int64 {
	switch {
	case m.cmd != nil:
		return 1
	case m.op.Probes():
		return 3
	case m.op.Confirm > 0:
		return 2
	case m.op.Kind != core.OpLook:
		return 1
	}
	pages := func(keys int) int64 { return int64(1 + keys/pageKeys) }
	sessions, nodes := len(w.sess), len(w.nodes)
	return 2*pages(3*sessions+nodes) + 2*pages(sessions) + pages(nodes)
}

func (w *world) bucket() int64 { return int64(history.Bucket(w.cfg.Renew)) }

func (w *world) countAll() {
	for _, n := range w.nodes {
		w.count(n)
	}
	w.q.Push(loop.Event{At: w.t + w.bucket(), Kind: evCount})
}

func (w *world) count(n *node) {
	if n.link.sent > 0 {
		w.emit(history.Event{Kind: history.Commands, Node: n.name, N: n.link.sent})
		n.link.sent = 0
	}
}

const (
	textRefused  = "connection refused"
	textReset    = "connection reset by peer"
	textTimeout  = "i/o timeout"
	textTornLook = "the epoch changed during the discovery"
)

func (w *world) message() *message {
	i := slot(&w.messages, &w.free)
	m := w.messages[i]
	if m == nil {
		m = &message{}
		w.messages[i] = m
	}
	*m = message{number: i, ans: core.Answer{Results: m.ans.Results[:0]}}
	return m
}

func (w *world) post(at int64, kind uint8, m *message) {
	m.refs++
	w.q.Push(loop.Event{At: at, Kind: kind, Node: m.node, Arg: m.number})
}

func (w *world) release(m *message) {
	if m.refs--; m.refs == 0 {
		m.op.Items, m.ans.Look = nil, nil
		w.free = append(w.free, m.number)
	}
}

func (w *world) lose(e *loop.Event) {
	switch {
	case named(e):
		w.release(w.messages[e.Arg])
	case e.Kind == evNotice:
		w.heard(e.Arg)
	}
}

func (w *world) heard(i int32) {
	if w.notices[i].refs--; w.notices[i].refs == 0 {
		w.spare = append(w.spare, i)
	}
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

func (w *world) delay(l *link, size int) int64 {
	d := int64(w.cfg.Net.Delay) + upTo(w.net, int64(w.cfg.Net.Jitter))
	if w.cfg.Net.Spike > 0 && chance(w.net, 1000) {
		d += upTo(w.net, int64(w.cfg.Net.Spike))
	}
	if l.extra > 0 {
		d += int64(l.extra) + spread(w.net, int64(min(l.jitter, l.extra)))
	}
	d += l.narrowed(w.t, size)
	if l.fragments > 0 {
		d += upTo(w.net, int64(10*time.Millisecond))
	}
	return d + upTo(w.net, int64(l.reorder))
}

// loses draws whether the network loses a message. In the calm it loses none.
func (w *world) loses(ppm int64) bool { return w.phase < phaseCalm && chance(w.net, ppm) }

// Sizes are estimates, for bandwidth limits.
func sizeOf(op *core.Op) int { return 150 + 60*len(op.Items) }

func sizeOfAnswer(m *message) int {
	size := 60 + 70*len(m.ans.Results)
	if m.ans.Look != nil {
		size += 90*len(m.ans.Look.Owners) + 80*len(m.ans.Look.Nodes)
	}
	return size
}

// send takes an op from a core. One op of eight leaves later, so that a freeze can fall between stamp and send.
func (w *world) send(n *node, op *core.Op) {
	m := w.message()
	m.op, m.node, m.gen = *op, int32(n.slot-1), n.gen
	m.deadline = n.clock.When(w.t, op.Deadline)
	if w.net.Int64N(8) == 0 {
		w.post(w.t+upTo(w.net, int64(time.Millisecond)), evSend, m)
		return
	}
	w.depart(n, m)
}

func (w *world) depart(n *node, m *message) {
	l := &n.link
	l.sent += w.commands(m)
	s := w.servers[l.to]
	if l.cut > 0 || s.down || !w.reaches(n, s) {
		m.ans = core.Answer{Seq: m.op.Seq, Failure: core.FailUnsent, Text: textRefused, Results: m.ans.Results}
		w.post(w.t+w.delay(l, 0), evReply, m)
		w.dial(n)
		return
	}
	m.run, m.to = s.gen, s.number
	m.refs++
	l.flight = append(l.flight, m)
	if w.loses(w.cfg.Net.Lost) {
		w.arm(m)
		return
	}
	w.post(w.held(w.t+w.delay(l, sizeOf(&m.op)), &m.op), evArrive, m)
}

func (w *world) arm(m *message) {
	if m.gen == w.nodes[m.node].gen && !m.armed && !m.told {
		m.armed = true
		w.post(max(w.t, m.deadline)+upTo(w.net, int64(w.cfg.Clock.Late)), evTimeout, m)
	}
}

func (w *world) landed(l *link, m *message) {
	if i := slices.Index(l.flight, m); i >= 0 {
		l.flight = slices.Delete(l.flight, i, i+1)
		w.release(m)
	}
}

func (w *world) answered(n *node, e *loop.Event) {
	m := w.messages[e.Arg]
	defer w.release(m)
	if m.gen != n.gen || !n.alive {
		return
	}
	if e.Kind == evTimeout {
		if m.told {
			return
		}
		m.told = true
		w.landed(&n.link, m)
		text := textTimeout
		if m.noReply {
			text = textReset
		}
		if w.clustered() {
			w.readMap(n)
		}
		w.finished(n, m, core.Answer{Seq: m.op.Seq, Failure: core.FailUnknown, Text: text})
		return
	}
	if m.noReply && m.ans.Failure != core.FailUnsent {
		return
	}
	if w.t > m.deadline && !chance(w.net, w.cfg.Net.Late) {
		w.arm(m)
		return
	}
	m.told = true
	w.landed(&n.link, m)
	w.finished(n, m, m.ans)
}

// reset breaks every connection of a machine. Redis may still execute pending requests; their answers are lost.
func (w *world) reset(n *node) {
	l := &n.link
	for _, m := range l.flight {
		if w.net.Int64N(2) == 0 {
			m.lost = true
		}
		w.breaks(m)
		w.release(m)
	}
	clear(l.flight)
	l.flight = l.flight[:0]
	w.dropHeldIn(l)
	w.dial(n)
	w.deafen(n)
}

func (w *world) breaks(m *message) {
	m.noReply = true
	if !m.told {
		w.post(w.t+upTo(w.net, int64(time.Millisecond)), evTimeout, m)
	}
}

func (w *world) dropHeldIn(l *link) {
	for i := range l.heldIn {
		w.lose(&l.heldIn[i])
	}
	l.heldIn = l.heldIn[:0]
}

// deafen ends the subscription. The process retries.
func (w *world) deafen(n *node) {
	n.link.hears = false
	n.link.sub++
	w.subscribe(n, upTo(w.net, int64(20*time.Millisecond)))
}

func (w *world) subscribe(n *node, after int64) {
	if n.alive && !n.link.trying {
		n.link.trying = true
		w.q.Push(loop.Event{At: w.t + after, Kind: evSubUp, Node: int32(n.slot - 1), Gen: n.gen})
	}
}

func (w *world) subUp(n *node, gen uint32) {
	if gen != n.gen {
		return
	}
	l := &n.link
	l.trying = false
	if l.hears || !n.alive {
		return
	}
	s := w.servers[l.to]
	if l.cut > 0 || s.down || s.loading > 0 || l.holdOut > 0 || l.holdIn > 0 || s.hold > 0 || !w.reaches(n, s) {
		w.dial(n)
		half := int64(redisstore.ResubscribeMin) / 2
		w.subscribe(n, half+upTo(w.net, half))
		return
	}
	l.hears = true
	l.sent++
	l.noticeAt = w.t
	w.step(n, core.Event{Kind: core.EvSubscribed})
	if n.program != nil && n.alive {
		n.program.heard(w, n, "")
	}
}

func (w *world) deliver(no notice, from int32, size int) {
	number := slot(&w.notices, &w.spare)
	w.notices[number] = no
	w.notices[number].refs = 1 // released at the end of this function
	for i, n := range w.nodes {
		l := &n.link
		if !n.alive || !l.hears || !w.passes(from, l.to) || w.loses(w.cfg.Net.Mute) {
			continue
		}
		l.noticeAt = max(l.noticeAt, w.t+w.delay(l, size))
		w.notices[number].refs++
		w.q.Push(loop.Event{At: l.noticeAt, Kind: evNotice, Node: int32(i), Arg: number, Gen: l.sub})
	}
	w.heard(number)
}

// heal delivers in order the messages that a link held back.
func (w *world) heal(n *node) {
	l := &n.link
	if l.holdOut == 0 {
		w.replay(&l.heldOut)
	}
	if l.holdIn == 0 {
		w.replay(&l.heldIn)
	}
}

func (w *world) replay(held *[]loop.Event) {
	at := w.t
	for _, e := range *held {
		at += upTo(w.net, int64(200*time.Microsecond))
		e.At = at
		w.q.Push(e)
	}
	*held = (*held)[:0]
}

func told(v redis.Reply) foreign.Reply {
	if no, refused := v.(redis.Refusal); refused {
		return foreign.Reply{Err: string(no)}
	}
	return foreign.Reply{Value: redis.Plain(v)}
}

func (w *world) finished(n *node, m *message, a core.Answer) {
	switch {
	case m.done != nil:
		w.concluded(m, a)
		return
	case m.cmd == nil:
		w.step(n, core.Event{Kind: core.EvAnswer, Answer: a})
		if n.program != nil && n.alive {
			kept := a // only a program costs an allocation
			n.program.answered(w, n, &m.op, &kept)
		}
		return
	}
	r := told(m.reply)
	if a.Failure != core.FailNone {
		r = foreign.Reply{Err: a.Text}
	}
	r.Seq = m.cmd.Seq
	n.program.replied(w, n, &r)
	if n.alive {
		w.setTick(n)
	}
}

func (w *world) concluded(m *message, a core.Answer) {
	done := m.done
	m.done = func(redis.Reply, error) {} // a socket delivers every answer once
	switch {
	case a.Failure == core.FailNone:
		done(m.reply, nil)
	case a.Text == redis.TextLoading:
		done(redis.Refusal(redis.TextLoading), nil)
	case a.Failure == core.FailUnsent:
		done(nil, errRefused)
	case m.noReply:
		done(nil, errReset)
	default:
		done(nil, errSilent)
	}
}

var (
	errRefused = errors.New(textRefused)
	errReset   = errors.New(textReset)
	errSilent  = errors.New(textTimeout)
)
