package place

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/pause"
	"github.com/leasestorm/leasestorm/internal/term"
)

// requests are the requests of other instances for leases of this one.
type requests struct {
	k    *term.Kernel // read only
	cfg  *pause.Config
	p    *placement
	asks []ask // to be decided on the next discovery
}

// ask is another instance's request for leases. A discovery that was sent after the request arrived decides it.
type ask struct {
	from  string
	ids   []string
	after uint64    // last op sent before it arrived
	at    term.Time // when it arrived
	again bool      // a discovery did not settle it
}

// Asked reports whether there are requests.
func (q *requests) Asked() bool { return len(q.asks) > 0 }

// Hear keeps another instance's request until the next discovery. It replaces an earlier one that a discovery did not settle.
func (q *requests) Hear(from string, ids []string) {
	q.asks = slices.DeleteFunc(q.asks, func(a ask) bool { return a.again && a.from == from })
	q.asks = append(q.asks, ask{from: from, ids: ids, after: q.k.Seq(), at: q.k.Now()})
}

// Forget drops all requests.
func (q *requests) Forget() { q.asks = q.asks[:0] }

// Decide decides the requests that arrived before the discovery look was sent. give releases the leases that can be given, or none, and
// reports whether some cannot. The asking instance may know of an instance that is not counted here yet, so an unsettled request is kept
// for an interval.
func (q *requests) Decide(look uint64, give func(from string, ids []string, none bool) (lacking bool)) {
	later := q.asks[:0]
	for _, a := range q.asks {
		if a.after >= look || q.stillAsks(&a, give) && q.k.Now() < a.at+term.Time(q.cfg.Discovery) {
			later = append(later, a)
		}
	}
	clear(q.asks[len(later):])
	q.asks = later
}

func (q *requests) stillAsks(a *ask, give func(from string, ids []string, none bool) (lacking bool)) bool {
	i, ok := q.p.r.Find(a.from)
	if !ok || !q.p.r.Alive(i) {
		return false
	}
	lacks, known := q.p.lacks(i)
	if a.again && !lacks {
		return false
	}
	// An instance that has reached its quota since its request gets no more leases; otherwise other instances would get too few.
	none := known && !lacks
	a.again = give(a.from, a.ids, none) || none
	return a.again
}
