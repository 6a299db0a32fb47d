package core

import (
	"slices"

	"github.com/leasestorm/leasestorm/internal/term"
)

// requests collects requests, so that they leave in as few ops as possible: at the end of the step, or later if requests of their kind
// have failed (pace).
type requests struct {
	k      *term.Kernel
	cfg    *Config
	timers *timerHeap
	paces  *paces

	queued   [term.Kinds][]*lease // by OpKind
	underWay inflights
	sent     []Op     // in this step
	took     int64    // how long the last answer took
	asking   []*lease // scratch space of batch
}

func (r *requests) add(kind OpKind, l *lease) {
	l.Queue()
	r.queued[kind] = append(r.queued[kind], l)
}

func (r *requests) empty(kind OpKind) {
	clear(r.queued[kind])
	r.queued[kind] = r.queued[kind][:0]
}

// batch sends the queued requests of a kind, those with one TTL together.
func (r *requests) batch(kind OpKind) {
	list := r.queued[kind]
	if len(list) == 0 || r.paces.paced(kind) || kind == OpAcquire && r.acknowledging() {
		return
	}
	for rest := list; len(rest) > 0; {
		rest = r.batchOf(kind, r.k.TTLOf(kind, &rest[0].Term), rest)
	}
	r.empty(kind)
}

// batchOf sends the requests with this TTL, and returns the others.
func (r *requests) batchOf(kind OpKind, ttl int64, list []*lease) (rest []*lease) {
	var items []Item
	rest = list[:0]
	leases := r.asking[:0]
	for k, l := range list {
		if !r.k.StillFor(kind, &l.Term) {
			continue
		}
		if kind.Extends() && r.k.TTLOf(kind, &l.Term) != ttl {
			rest = append(rest, l)
			continue
		}
		if items == nil {
			items = make([]Item, 0, min(len(list)-k, r.cfg.Batch))
		}
		it := r.k.Item(kind, &l.Term)
		if kind == OpRelease {
			it.Peer = l.heir
		}
		items, leases = append(items, it), append(leases, l)
		r.k.Await(&l.Term)
		if len(items) == r.cfg.Batch {
			r.send(kind, items, leases)
			items, leases = nil, leases[:0]
		}
	}
	if len(items) > 0 {
		r.send(kind, items, leases)
	}
	r.asking = leases[:0]
	clear(leases[:cap(leases)])
	return rest
}

// acknowledging reports whether an acquisition still waits for replicas to acknowledge it. Further acquisitions wait for its answer and
// leave together. Otherwise, at a master without a majority, leases that expire one by one would each cost a WAIT (G14).
func (r *requests) acknowledging() bool { return r.k.Replicated() && r.underWay.any(OpAcquire) }

// send sends an op, as changed by adjust.
func (r *requests) send(kind OpKind, items []Item, leases []*lease, adjust ...func(*inflight)) (seq uint64) {
	ttl := r.cfg.TTL
	if kind.Extends() && len(leases) > 0 {
		ttl = r.k.TTLOf(kind, &leases[0].Term)
	}
	in := inflight{op: r.k.Stamp(kind, ttl, items), leases: slices.Clone(leases)}
	for _, change := range adjust {
		change(&in)
	}
	r.underWay = append(r.underWay, in)
	r.timers.Add(in.op.Deadline, timer{kind: timerOp, n: in.op.Seq})
	r.sent = append(r.sent, in.op)
	return in.op.Seq
}

// look sends a discovery that reads the sessions and heartbeats, and the owners unless the sessions have the sum known. It sends many
// requests, each of which must be answered within OpTimeout. Together they get a TTL: otherwise the instances of a large fleet that start
// at once would slow each other down until every discovery fails, and begin again together.
func (r *requests) look(known uint64) (seq uint64) {
	return r.send(OpLook, nil, nil, func(in *inflight) { in.op.Sum, in.op.Deadline = known, r.k.Now()+Time(max(r.cfg.TTL, r.cfg.Discovery)) })
}

// news sends a request for the news, or, if done is true, the news that this instance has read the sessions.
func (r *requests) news(done bool, sum uint64) (seq uint64) {
	return r.send(OpNews, nil, nil, func(in *inflight) {
		in.op.Interval, in.op.Done, in.op.Sum = r.cfg.Discovery/1000*999, done, sum // clocks run at different rates
		in.op.Deadline = r.k.Now() + Time(max(2*r.cfg.OpTimeout, r.cfg.Discovery))
	})
}

// probe sends a read of the epoch and of items that waits this long for its answer.
func (r *requests) probe(items []Item, timeout int64) (seq uint64) {
	return r.send(OpObserve, items, nil, func(in *inflight) {
		in.op.Deadline, in.probe = r.k.Now()+Time(timeout), true
	})
}

func (r *requests) supersede() {
	if !r.k.Supersedes() || r.paces.paced(OpSupersede) || r.underWay.any(OpSupersede) {
		return
	}
	r.send(OpSupersede, nil, nil)
	r.k.Superseding()
}
