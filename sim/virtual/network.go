package virtual

import (
	"errors"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
	"github.com/leasestorm/leasestorm/sim/virtual/loop"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// network carries messages between the hosts and the servers, and notices to the hosts.
type network struct {
	*timeline
	servers backend
	edge    func(at int64, op *core.Op) int64 // new arrival time of a message due at at; nil: unchanged
	hosts   []*host                           // by slot

	messages []*message
	free     []int32  // numbers of unused messages
	notices  []notice // by number
	spare    []int32  // numbers of unused notices

	lastNotice int32 // number of the notice that was published last
}

// backend is the servers, as the network knows them. A host is connected to one of them.
type backend interface {
	// accepts reports whether a host reaches a server, and returns the generation of that server's process.
	accepts(h *host, to int32) (run uint32, ok bool)
	// subscribes reports whether a host can subscribe at its server.
	subscribes(h *host) bool
	// dial is called when a host connects anew.
	dial(h *host)
	// timedOut is called when a host's request has no answer in time.
	timedOut(h *host)
	// passes reports whether a message published at one server reaches the subscribers of another.
	passes(from, to int32) bool
	// leases returns the number of leases.
	leases() int
}

// message is an op and its answer. It is pooled; refs counts the events and lists that name it.
type message struct {
	op    core.Op
	ans   core.Answer
	args  []string                 // plain command of the node's program, instead of op
	reply redis.Reply              // to args
	done  func(redis.Reply, error) // receives reply; error: no answer
	guestBatch
	number   int32 // in network.messages
	node     int32
	gen      uint32 // generation of the sending process
	run      uint32 // generation of the receiving server
	to       int32
	refs     int32
	deadline int64 // true time
	armed    bool  // its timeout is scheduled
	told     bool  // the process has got an answer or a timeout
	noReply  bool  // its connection is gone: no answer can come
	lost     bool  // the request was lost
	torn     bool  // a discovery whose first half has been read
	since    int64 // true time of that read
}

type notice struct {
	core.Notice
	text string // message that does not concern leases
	refs int32  // pending deliveries
}

// The links count the commands that a process sends (G14), including those that the network holds back or refuses.

// pageKeys is the page size of SCAN and of a script that reads many keys.
const pageKeys = 1000

// commands returns the number of commands that m sends: the op's own, a WAIT if acknowledgements count, and a second read of the
// epoch after an acquisition. A discovery scans about three keys a session for sessions and again for heartbeats, then reads both
// and the owners.
func (nw *network) commands(m *message) int64 {
	switch {
	case m.conn != nil:
		return int64(len(m.batch))
	case m.args != nil:
		return 1
	case m.op.Probes():
		return 3
	case m.op.Confirm > 0:
		return 2
	case m.op.Kind != core.OpLook:
		return 1
	}
	pages := func(keys int) int64 { return int64(1 + keys/pageKeys) }
	sessions, nodes := nw.servers.leases(), len(nw.hosts)
	owners := pages(sessions)
	if m.op.Sum != 0 {
		owners = 0 // they are read only if the sessions changed
	}
	return 2*pages(3*sessions+nodes) + pages(sessions) + owners + pages(nodes)
}

func (nw *network) countAll() {
	for _, n := range nw.hosts {
		n.count()
	}
	nw.after(nw.bucket(), nw.countAll)
}

const (
	textRefused  = "connection refused"
	textReset    = "connection reset by peer"
	textTimeout  = "i/o timeout"
	textTornLook = "the epoch changed during the discovery"
)

func (nw *network) message() *message {
	i := slot(&nw.messages, &nw.free)
	m := nw.messages[i]
	if m == nil {
		m = &message{}
		nw.messages[i] = m
	}
	*m = message{number: i, ans: core.Answer{Results: m.ans.Results[:0]}}
	return m
}

func (nw *network) post(at int64, kind uint8, m *message) {
	m.refs++
	nw.q.Push(loop.Event{At: at, Kind: kind, Node: m.node, Arg: m.number})
}

func (nw *network) release(m *message) {
	if m.refs--; m.refs == 0 {
		m.op.Items, m.ans.Look, m.guestBatch = nil, nil, guestBatch{}
		nw.free = append(nw.free, m.number)
	}
}

func (nw *network) lose(e *loop.Event) {
	switch {
	case named(e):
		nw.release(nw.messages[e.Arg])
	case e.Kind == evNotice:
		nw.heard(e.Arg)
	}
}

func (nw *network) heard(i int32) {
	if nw.notices[i].refs--; nw.notices[i].refs == 0 {
		nw.spare = append(nw.spare, i)
	}
}

func (nw *network) delay(l *link, size int) int64 {
	d := int64(nw.cfg.Net.Delay) + upTo(nw.netRand, int64(nw.cfg.Net.Jitter))
	if nw.cfg.Net.Spike > 0 && chance(nw.netRand, 1000) {
		d += upTo(nw.netRand, int64(nw.cfg.Net.Spike))
	}
	if l.extra > 0 {
		d += int64(l.extra) + spread(nw.netRand, int64(min(l.jitter, l.extra)))
	}
	d += l.narrowed(nw.t, size)
	if l.fragments > 0 {
		d += upTo(nw.netRand, int64(10*time.Millisecond))
	}
	return d + upTo(nw.netRand, int64(l.reorder))
}

// Sizes are estimates, for bandwidth limits.
func (m *message) size() int { return 150 + 60*max(len(m.op.Items), len(m.batch)) }

func sizeOfAnswer(m *message) int {
	size := 60 + 70*len(m.ans.Results) + len(m.bytes)
	if m.ans.Look != nil {
		size += 90*len(m.ans.Look.Owners) + 80*len(m.ans.Look.Nodes)
	}
	return size
}

func (nw *network) arm(m *message) {
	if m.gen == nw.hosts[m.node].gen && !m.armed && !m.told && m.conn == nil {
		m.armed = true
		nw.post(max(nw.t, m.deadline)+upTo(nw.netRand, int64(nw.cfg.Clock.Late)), evTimeout, m)
	}
}

func (nw *network) landed(l *link, m *message) {
	if i := slices.Index(l.flight, m); i >= 0 {
		l.flight = slices.Delete(l.flight, i, i+1)
		nw.release(m)
	}
}

func (nw *network) breaks(m *message) {
	m.noReply = true
	if !m.told {
		nw.post(nw.t+upTo(nw.netRand, int64(time.Millisecond)), evTimeout, m)
	}
}

func (nw *network) dropHeldIn(l *link) {
	for i := range l.heldIn {
		nw.lose(&l.heldIn[i])
	}
	l.heldIn = l.heldIn[:0]
}

func (nw *network) deliver(no notice, from int32, size int) {
	if no.Kind == core.NoticeNumber { // it arrives with the notice before it
		if last := &nw.notices[nw.lastNotice]; last.refs > 0 {
			last.Number, last.Epoch = no.Number, no.Epoch
		}
		return
	}
	number := slot(&nw.notices, &nw.spare)
	nw.lastNotice = number
	nw.notices[number] = no
	nw.notices[number].refs = 1 // released at the end of this function
	for i, n := range nw.hosts {
		s := &n.sub
		if !n.alive || !s.on || !nw.servers.passes(from, n.route.to) || nw.loses(nw.cfg.Net.Mute) {
			continue
		}
		s.noticeAt = max(s.noticeAt, nw.t+nw.delay(&n.link, size))
		nw.notices[number].refs++
		nw.q.Push(loop.Event{At: s.noticeAt, Kind: evNotice, Node: int32(i), Arg: number, Gen: s.number})
	}
	nw.heard(number)
}

func (nw *network) replay(held *[]loop.Event) {
	at := nw.t
	for _, e := range *held {
		at += upTo(nw.netRand, int64(200*time.Microsecond))
		e.At = at
		nw.q.Push(e)
	}
	*held = (*held)[:0]
}

func (m *message) conclude(a core.Answer) {
	switch {
	case a.Failure == core.FailNone:
		m.done(m.reply, nil)
	case a.Text == redis.TextLoading:
		m.done(redis.Refusal(redis.TextLoading), nil)
	case a.Failure == core.FailUnsent:
		m.done(nil, errRefused)
	case m.noReply:
		m.done(nil, errReset)
	default:
		m.done(nil, errSilent)
	}
}

var (
	errRefused = errors.New(textRefused)
	errReset   = errors.New(textReset)
	errSilent  = errors.New(textTimeout)
)

func (nw *network) refusedHere(e *loop.Event) bool {
	return named(e) && nw.messages[e.Arg].ans.Failure == core.FailUnsent
}
