package real

import (
	"errors"
	"time"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

// hold freezes a process. Several faults may hold it at once.
func (s *slot) hold(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == n {
		s.frozen++
		if err := n.Freeze(); errors.Is(err, host.ErrNoVerdict) {
			s.run.abort(err)
		}
	}
}

func (s *slot) release(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == n {
		if s.frozen = max(0, s.frozen-1); s.frozen == 0 {
			_ = n.Thaw()
		}
	}
}

// selfStop bounds the time between a node's "paused" and its stop, on a busy host.
const selfStop = 2 * time.Second

// awaitStop waits until the process has stopped itself: if the harness froze it first, its own stop would follow the thaw and last.
func awaitStop(n *node) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(selfStop); !process.Stopped(n.ID()) && time.Now().Before(deadline); {
		select {
		case <-tick.C:
		case <-n.Ended():
			return
		}
	}
}

// holdUntilPassed keeps a paused process stopped until another instance has polled the session with a newer fence. It reports false if
// two TTLs pass, the process ends or stop is closed first. An acquisition alone is too early: the target refuses an older fence only
// after a newer one.
func (r *run) holdUntilPassed(at *slot, n *node, e history.Event, stop <-chan struct{}) bool {
	taken, cancel := r.watch.await(func(a *history.Event) bool {
		return a.Kind == history.Arrived && a.Session == e.Session && a.Instance != e.Instance &&
			(a.Fence > e.Fence || e.Fence == 0)
	})
	defer cancel()
	awaitStop(n)
	at.hold(n)
	defer at.release(n)
	thaw := time.NewTimer(2 * r.cfg.TTL)
	defer thaw.Stop()
	select {
	case <-taken:
		return true
	case <-thaw.C:
	case <-n.Ended():
	case <-stop:
	}
	return false
}

// pausedAt returns the start of a requested pause: just before the node's event, but not before the request.
func (inj *injection) pausedAt(e history.Event) int64 { return max(inj.asked, e.T-1) }

func (n *node) expectPause(inj *injection) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pauses = append(n.pauses, inj)
}

func (n *node) nextPause() *injection {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.pauses) == 0 {
		return nil
	}
	inj := n.pauses[0]
	n.pauses = n.pauses[1:]
	return inj
}

// rescue thaws a node that paused while no fault waited for it. If a fault requested the pause, that fault hits now; an unrequested pause
// excuses nothing. A second rescue during the first does nothing, because a paused node reports nothing new.
func (r *run) rescue(at *slot, n *node, e history.Event) {
	if !n.pausing.TryLock() {
		return
	}
	defer n.pausing.Unlock()
	inj := n.nextPause()
	if inj != nil {
		inj.session = e.Session
		start := inj.event(history.FaultStart)
		start.T = inj.pausedAt(e)
		r.rec.Add(start)
		defer inj.end()
	}
	stop := r.ending
	if *r.phase.Load() != "storm" {
		stop = make(chan struct{})
		close(stop)
	}
	r.holdUntilPassed(at, n, e, stop)
}
