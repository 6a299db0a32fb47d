package lease

import (
	"context"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/internal/core"
)

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

// outsider waits until a caller's read may be sent. done frees its slot.
func (s *shell) outsider(ctx context.Context) (done func(), err error) {
	if s.ctx.Err() != nil {
		return nil, ErrStopped
	}
	select {
	case s.outside <- struct{}{}:
		return func() { <-s.outside }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.ctx.Done():
		return nil, ErrStopped
	}
}

func (s *shell) work(l *lane) {
	for {
		op := l.take()
		if op == nil {
			return
		}
		a := s.execute(op)
		a.Seq = op.Seq
		s.answered(op, a)
	}
}

// execute sends one request, once, without a retry.
func (s *shell) execute(op *core.Op) core.Answer {
	deadline := s.time(op.Deadline)
	if s.now().Mono >= op.Deadline {
		return core.Answer{Failure: core.FailUnsent, Text: "not sent: it timed out in the queue"}
	}
	ctx, cancel := context.WithDeadline(s.ctx, deadline)
	defer cancel()
	defer s.log.Calls.Begin("a request to Redis", time.Until(deadline)+s.late()).End() // allowed longer than a hook
	if op.Kind != core.OpLook {
		s.passed.asked(op)
		a := s.store.Do(ctx, op)
		s.passed.answered(op, &a)
		return a
	}
	sessions := s.readSessions(ctx)
	if ctx.Err() != nil {
		return core.Answer{Failure: core.FailUnsent, Text: errLate.Error(), Err: errLate}
	}
	return s.store.Look(ctx, op, sessions)
}
