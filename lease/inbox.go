package lease

import (
	"sync"

	"github.com/leasestorm/leasestorm/internal/core"
)

// inbox is the loop's queue. put never waits, so no function that the loop calls can deadlock it. The requests in flight, the
// number of callers, and noticeMax bound its length.
type inbox struct {
	mu     sync.Mutex
	items  []message
	closed bool
	heard  int  // approximate bytes of the notices in items
	missed bool // notices were dropped: run a discovery instead
	wake   chan struct{}
}

// message is a function to run, a term to release, or an event for the core.
type message struct {
	run     func()
	drop    *Lease
	yield   int32 // with drop: only while that yield is pending; 0: in any case
	release *release
	ev      core.Event
	op      *core.Op // the request of an EvAnswer
}

// release is one call that waits for the release of a lease.
type release struct {
	name string
	hold *Lease     // nil: any term
	ch   chan error // buffered: the loop never waits
}

// Bounds of the inbox, in messages and in bytes of notices. Beyond them, notices are dropped.
const (
	noticeMax   = 4096
	noticeBytes = 1 << 20
)

func (b *inbox) put(m message) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return
	}
	size := 0
	if m.ev.Kind == core.EvNotice {
		size = noticeSize(&m.ev.Notice)
	}
	if size > 0 && (len(b.items) >= noticeMax || b.heard >= noticeBytes) {
		b.missed = true
	} else {
		b.items = append(b.items, m)
		b.heard += size
	}
	b.mu.Unlock()
	b.signal()
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.signal()
}

func (b *inbox) take(old []message) (items []message, missed, closed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	items, b.items = b.items, old[:0]
	missed, b.missed, b.heard = b.missed, false, 0
	return items, missed, b.closed
}

func noticeSize(n *core.Notice) (size int) {
	for _, words := range [][]string{{n.From}, n.IDs, n.Peers} {
		for _, w := range words {
			size += 16 + len(w)
		}
	}
	return size
}
