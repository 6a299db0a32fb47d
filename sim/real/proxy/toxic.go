package proxy

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// Network is a disturbance of one direction of a proxy. The zero value passes everything on.
type Network struct {
	Hold      bool          // bytes are kept, and delivered late when it ends
	Latency   time.Duration // each chunk is delayed by latency ± jitter
	Jitter    time.Duration //
	Rate      int64         // bytes a second, 0: unbounded
	Fragments bool          // chunks are split into small pieces
}

// direction is one direction of a proxy: its current disturbance, and channels that announce changes.
type direction struct {
	mu      sync.Mutex
	now     Network
	changed chan struct{} // closed and replaced at each change
	cut     chan struct{} // closed and replaced when the bytes in flight are lost
	rng     *rand.Rand

	counted bool         // a node sends its commands in this direction
	sent    atomic.Int64 // commands since the last Proxy.Sent, whether delivered or not
}

func newDirection(seed, stream uint64) *direction {
	return &direction{
		changed: make(chan struct{}), cut: make(chan struct{}), rng: rand.New(rand.NewPCG(seed, stream)),
	}
}

func (d *direction) set(n Network) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = n
	close(d.changed)
	d.changed = make(chan struct{})
}

func (d *direction) get() (Network, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.now, d.changed
}

func (d *direction) generation() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cut
}

func (d *direction) lose() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.cut)
	d.cut = make(chan struct{})
}

func (d *direction) delay(n Network) time.Duration {
	if n.Jitter <= 0 {
		return n.Latency
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return max(0, n.Latency-n.Jitter+time.Duration(d.rng.Int64N(int64(2*n.Jitter)+1)))
}

func (d *direction) pieces(data []byte) [][]byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out [][]byte
	for len(data) > 0 && len(out) < 63 {
		n := min(len(data), 1+d.rng.IntN(1+max(15, len(data)/32)))
		out = append(out, data[:n])
		data = data[n:]
	}
	if len(data) > 0 {
		out = append(out, data)
	}
	return out
}

const (
	// bufferMax is how many bytes a toxic buffers before it blocks the sender, as a network does.
	bufferMax = 64 << 20
	// lingerMax is how long a closed connection waits for its reader.
	lingerMax = 5 * time.Second
	// pieceGap keeps fragments from being joined again by the next buffer.
	pieceGap = 200 * time.Microsecond
)

// toxic is the only toxic on a proxy. It stays in place and changes its behavior. toxiproxy's own toxics use global randomness, have a
// black hole that cannot heal on a live connection, and may hang when added or removed.
type toxic struct {
	dir *direction // set after toxiproxy has made the toxic from JSON
}

func init() { toxics.Register("leasestorm-wire", new(toxic)) }

type chunk struct {
	*stream.StreamChunk
	due time.Time
}

// Pipe implements toxics.Toxic.
func (w *toxic) Pipe(stub *toxics.ToxicStub) {
	l := &link{dir: w.dir, stub: stub}
	l.run()
}

type link struct {
	dir   *direction
	stub  *toxics.ToxicStub
	queue []chunk
	bytes int
	last  time.Time // when the newest chunk of the queue is due
	ended bool
	heard requests
}

func (l *link) run() {
	lost := l.dir.generation()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var linger <-chan time.Time
	for {
		net, changed := l.dir.get()
		if l.ended && len(l.queue) == 0 {
			l.stub.Close()
			return
		}
		if l.ended && !net.Hold && linger == nil {
			linger = time.After(l.lingers())
		}
		in := l.stub.Input
		if l.ended || l.bytes > bufferMax {
			in = nil
		}
		out, head, due := l.head(net, timer)
		select {
		case <-l.stub.Interrupt:
			return
		case <-lost:
			l.stub.Close()
			l.drain()
			return
		case <-linger:
			l.stub.Close()
			return
		case c := <-in:
			l.take(c, net)
		case out <- head:
			l.bytes -= len(head.Data)
			l.queue[0] = chunk{}
			l.queue = l.queue[1:]
		case <-due:
		case <-changed:
			l.hurry()
		}
	}
}

// lingers returns how long a closed connection may take to deliver its bytes, which are still delayed like all bytes sent before.
func (l *link) lingers() time.Duration { return max(0, time.Until(l.last)) + lingerMax }

// drain reads from a sender that is still writing, until it closes. Otherwise toxiproxy would wait forever to pass its bytes on.
func (l *link) drain() {
	l.queue = nil
	for range l.stub.Input {
		continue
	}
}

func (l *link) head(net Network, timer *time.Timer) (chan<- *stream.StreamChunk, *stream.StreamChunk, <-chan time.Time) {
	if net.Hold || len(l.queue) == 0 {
		return nil, nil, nil
	}
	if wait := time.Until(l.queue[0].due); wait > 0 {
		timer.Reset(wait)
		return nil, nil, timer.C
	}
	return l.stub.Output, l.queue[0].StreamChunk, nil
}

// take queues one chunk from the sender; nil is its end.
func (l *link) take(c *stream.StreamChunk, net Network) {
	if c == nil {
		l.ended = true
		return
	}
	l.bytes += len(c.Data)
	if l.dir.counted {
		l.dir.sent.Add(l.heard.take(c.Data))
	}
	due := time.Now().Add(l.dir.delay(net))
	pieces := [][]byte{c.Data}
	if net.Fragments {
		pieces = l.dir.pieces(c.Data)
	}
	for i, p := range pieces {
		if i > 0 {
			due = due.Add(pieceGap)
		}
		if due.Before(l.last) { // TCP keeps the order
			due = l.last
		}
		if net.Rate > 0 {
			due = due.Add(time.Duration(len(p)) * time.Second / time.Duration(net.Rate))
		}
		l.last = due
		l.queue = append(l.queue, chunk{&stream.StreamChunk{Data: p, Timestamp: c.Timestamp}, due})
	}
}

// hurry makes queued chunks due at once, because the network that delayed them has changed.
func (l *link) hurry() {
	l.last = time.Time{}
	for i := range l.queue {
		l.queue[i].due = l.last
	}
}

// requests counts the commands, RESP arrays or plain lines, that a client sends over one connection. The zero value is ready.
type requests struct {
	words  int64 // bulk strings of the current command that are still to come
	skip   int64 // bytes of the current bulk string that are still to come
	number int64 // number after the mark of the current line
	mark   byte  // first byte of the current line; 0: not read yet
}

// take returns how many commands end in b. An array counts as soon as its length is read.
func (r *requests) take(b []byte) (commands int64) {
	for len(b) > 0 {
		if r.skip > 0 {
			n := min(r.skip, int64(len(b)))
			r.skip -= n
			b = b[n:]
			continue
		}
		c := b[0]
		b = b[1:]
		switch {
		case c == '\n':
			commands += r.line()
		case c == '\r':
		case r.mark == 0:
			r.mark, r.number = c, 0
		case c >= '0' && c <= '9':
			r.number = 10*r.number + int64(c-'0')
		}
	}
	return commands
}

func (r *requests) line() int64 {
	mark, number := r.mark, r.number
	r.mark = 0
	switch {
	case mark == '$' && r.words > 0:
		r.words--
		r.skip = number + 2
		return 0
	case mark == '*':
		r.words = number
		return min(number, 1)
	case mark == 0:
		return 0
	}
	r.words = 0
	return 1
}
