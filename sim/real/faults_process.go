package real

import (
	"sync"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

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
