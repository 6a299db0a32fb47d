package lease

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

// requests sends an instance's requests to Redis: those of the core on its lanes, and those of callers.
type requests struct {
	*instance
	source  *source
	lanes   [laneCount]*lane
	passed  passedOn
	outside chan struct{} // one slot for each caller's read in flight
}

func (r *requests) start() {
	for i := range r.lanes {
		r.lanes[i] = newLane()
		for range laneWorkers[i] {
			r.workers.Go(func() { r.work(r.lanes[i]) })
		}
	}
}

func (r *requests) put(op *core.Op) { r.lanes[laneOf(op.Kind)].put(op) }

func (r *requests) close() {
	for _, l := range r.lanes {
		l.close()
	}
}

// outsider waits until a caller's read may be sent. done frees its slot.
func (r *requests) outsider(ctx context.Context) (done func(), err error) {
	if r.ctx.Err() != nil {
		return nil, ErrStopped
	}
	select {
	case r.outside <- struct{}{}:
		return func() { <-r.outside }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-r.ctx.Done():
		return nil, ErrStopped
	}
}

func (r *requests) work(l *lane) {
	for {
		op := l.take()
		if op == nil {
			return
		}
		a := r.execute(op)
		a.Seq = op.Seq
		r.inbox.put(message{ev: core.Event{Kind: core.EvAnswer, Answer: a}, op: op})
	}
}

// execute sends one request, once, without a retry.
func (r *requests) execute(op *core.Op) core.Answer {
	deadline := r.time(op.Deadline)
	if r.now().Mono >= op.Deadline {
		return core.Answer{Failure: core.FailUnsent, Text: "not sent: it timed out in the queue"}
	}
	ctx, cancel := context.WithDeadline(r.ctx, deadline)
	defer cancel()
	defer r.log.Calls.Begin("a request to Redis", time.Until(deadline)+r.late()).End() // allowed longer than a hook
	if op.Kind != core.OpLook {
		r.passed.do(func(names *core.Passed) { names.Asked(op) })
		a := r.store.Do(ctx, op)
		r.passed.do(func(names *core.Passed) { names.Answered(op, &a) })
		return a
	}
	sessions := r.source.sessions(ctx)
	if sessions == nil {
		return core.Answer{Failure: core.FailUnsent, Text: errLate.Error(), Err: errLate}
	}
	return r.store.Look(ctx, op, sessions)
}

func (r *requests) pass(ctx context.Context, owner, heir string, names ...string) ([]string, error) {
	if err := r.running(); err != nil {
		return nil, err
	}
	done, err := r.outsider(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := context.WithTimeout(ctx, r.cfg.OpTimeout)
	defer cancel()
	if heir != "" { // recorded before the request: if the answer is lost, the next attempt still finds the passed lease
		r.passed.do(func(passed *core.Passed) {
			for _, name := range names {
				passed.Add(name)
			}
		})
	}
	passed, err := r.store.Pass(ctx, owner, heir, r.cfg.TTL, names...)
	if err != nil {
		return passed, unconfirmed{fmt.Errorf("leases of %q: it is unknown whether they were released: %w", owner, resultless(err))}
	}
	return passed, nil
}

// Lanes carry the requests. A request waits only for others of its lane, so renewals never wait behind a long discovery or a storm of
// acquisitions.
const (
	laneExtend = iota // renewals and the heartbeat
	laneChange        // acquisitions and releases
	laneRead          // small reads and notices
	laneLook          // discoveries
	laneCount
)

// laneWorkers bounds the requests of a lane that are in flight at once.
var laneWorkers = [laneCount]int{laneExtend: 3, laneChange: 3, laneRead: 3, laneLook: 1}

// outsideMax bounds the callers' reads (GetLiveNodes, Info) that are in flight at once. They have their own connections, so they never
// delay the lanes.
const outsideMax = 2

func connections() int {
	n := outsideMax
	for _, workers := range laneWorkers {
		n += workers
	}
	return n
}

func laneOf(k core.OpKind) int {
	switch k {
	case core.OpRenew, core.OpReassert, core.OpBeat:
		return laneExtend
	case core.OpAcquire, core.OpRelease, core.OpLeave:
		return laneChange
	case core.OpLook:
		return laneLook
	default:
		return laneRead
	}
}

// lane is an unbounded FIFO queue of requests. Time bounds it: a request past its deadline is not sent.
type lane struct {
	mu     sync.Mutex
	ready  sync.Cond
	ops    []*core.Op
	closed bool
}

func newLane() *lane {
	l := &lane{}
	l.ready.L = &l.mu
	return l
}

func (l *lane) put(op *core.Op) {
	l.mu.Lock()
	l.ops = append(l.ops, op)
	l.mu.Unlock()
	l.ready.Signal()
}

// take waits for a request. It returns nil once the lane is closed.
func (l *lane) take() *core.Op {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.ops) == 0 && !l.closed {
		l.ready.Wait()
	}
	if l.closed {
		return nil
	}
	op := l.ops[0]
	l.ops[0] = nil
	l.ops = l.ops[1:]
	return op
}

func (l *lane) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.ready.Broadcast()
}

// passedOn is core.Passed, safe for concurrent use.
type passedOn struct {
	mu    sync.Mutex
	names core.Passed
}

func (p *passedOn) do(f func(names *core.Passed)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.names)
}
