package real

import (
	"errors"
	"sync"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

func (inj *injection) living() (*slot, *node) {
	at := inj.slot(inj.Target)
	if at == nil {
		inj.skip("there is no such node")
		return nil, nil
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.node == nil || !at.node.alive() {
		inj.skip("it does not run")
		return nil, nil
	}
	return at, at.node
}

func (s *slot) expect(n *node) {
	s.mu.Lock()
	n.asked = true
	s.mu.Unlock()
}

func (inj *injection) crash() {
	at, n := inj.living()
	if n == nil {
		return
	}
	at.expect(n)
	inj.begin()
	n.Kill()
	<-n.done
	inj.revive(at)
}

// revive restarts the slots when the fault ends. A fault without a duration does not end.
func (inj *injection) revive(slots ...*slot) {
	if inj.For <= 0 {
		return
	}
	inj.last()
	for _, at := range slots {
		inj.again(at)
	}
	inj.end()
}

func (inj *injection) again(at *slot) {
	if inj.ctx.Err() != nil {
		return
	}
	_, err := at.start()
	inj.failed(err)
}

func (inj *injection) crashAll() {
	var ends sync.WaitGroup
	var hit []*slot
	inj.begin()
	for _, at := range inj.allSlots() {
		at.mu.Lock()
		n := at.node
		if n != nil && n.alive() {
			n.asked = true
			hit = append(hit, at)
			ends.Go(func() {
				n.Kill()
				<-n.done
			})
		}
		at.mu.Unlock()
	}
	ends.Wait()
	inj.revive(hit...)
}

func (inj *injection) terminate() {
	at, n := inj.living()
	if n == nil {
		return
	}
	inj.stopCleanly(at, n)
	inj.revive(at)
}

func (inj *injection) leave() {
	at, n := inj.living()
	if n == nil {
		return
	}
	at.mu.Lock()
	at.left = true
	at.mu.Unlock()
	inj.stopCleanly(at, n)
}

func (inj *injection) stopCleanly(at *slot, n *node) {
	at.expect(n)
	if begin, sent := inj.timed(inj.begin); process.Terminate(n, begin, sent, inj.cfg.grace, inj.ctx.Done()) {
		inj.notef("%s ignored SIGTERM for %v and was killed", at.name, inj.cfg.grace)
	}
	<-n.done
}

func (inj *injection) freeze() {
	at, n := inj.living()
	if n == nil {
		return
	}
	inj.begin()
	at.hold(n)
	inj.last()
	at.release(n)
	inj.end()
}

// hold freezes a process. Several faults may hold it at once.
func (s *slot) hold(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == n {
		s.frozen++
		if err := n.Freeze(); errors.Is(err, host.ErrNoVerdict) {
			s.run.starve(err)
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

// checkSend requests that a node stops itself between the check and the send of a poll, and thaws it when another instance uses the
// lease.
func (inj *injection) checkSend() {
	at, n := inj.living()
	if n == nil {
		return
	}
	if !process.Catches(n.ID(), syscall.SIGUSR1) {
		inj.skip("the node does not catch SIGUSR1, by which it is asked to pause between check and send")
		return
	}
	paused, cancel := inj.watch.await(func(e *history.Event) bool {
		return e.Kind == history.Paused && e.Node == inj.Target
	})
	defer cancel()
	inj.asked = inj.clock.Now()
	if err := n.Signal(syscall.SIGUSR1); err != nil {
		inj.skip("it does not run")
		return
	}
	wait := time.NewTimer(2 * inj.cfg.TTL)
	defer wait.Stop()
	var e history.Event
	select {
	case e = <-paused:
	case <-wait.C:
		inj.skip("it did not pause within two TTLs")
		n.expectPause(inj)
		return
	case <-n.Ended():
		inj.skip("it ended before it paused")
		return
	case <-inj.storm.Done():
		inj.skip("the storm ended before it paused")
		n.expectPause(inj)
		return
	}
	inj.session = e.Session
	inj.beginAt(inj.pausedAt(e))
	if !inj.holdUntilPassed(at, n, e, inj.storm.Done()) {
		inj.notef("fault %d: %s did not pass on while its owner was paused", inj.n+1, inj.session)
	}
	inj.end()
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

func (inj *injection) join() {
	name := inj.Target
	for i := 1; name == ""; i++ {
		if candidate := fault.NodeTarget(i); inj.slot(candidate) == nil {
			name = candidate
		}
	}
	inj.Target = name
	at, err := inj.addSlot(name)
	if err != nil {
		inj.failed(err)
		return
	}
	at.mu.Lock()
	alive := at.node != nil && at.node.alive()
	at.left = at.left && alive
	at.mu.Unlock()
	if alive {
		inj.skip("it runs already")
		return
	}
	inj.begin()
	inj.again(at)
}
