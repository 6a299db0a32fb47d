package real

import (
	"sync"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

func (s *slot) expect(n *node) {
	s.mu.Lock()
	n.asked = true
	s.mu.Unlock()
}

func injectCrash(inj *injection, at *slot, n *node) {
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

func injectCrashAll(inj *injection) {
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

func injectTerminate(inj *injection, at *slot, n *node) {
	inj.stopCleanly(at, n)
	inj.revive(at)
}

func injectLeave(inj *injection, at *slot, n *node) {
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

func injectFreeze(inj *injection, at *slot, n *node) {
	inj.begin()
	at.hold(n)
	inj.last()
	at.release(n)
	inj.end()
}

// injectCheckSend requests that a node stops itself between the check and the send of a poll, and thaws it when another instance uses the
// lease.
func injectCheckSend(inj *injection, at *slot, n *node) {
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
		inj.notef("fault %d: %s did not pass on while its owner was paused", inj.N+1, inj.session)
	}
	inj.end()
}

func injectJoin(inj *injection) {
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

func (inj *injection) effect() proxy.Effect {
	hold := proxy.Network{Hold: true}
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	both := proxy.Network{}
	switch inj.Kind {
	case fault.Cut, fault.Flapping:
		return proxy.Effect{Cut: true}
	case fault.RequestsLost:
		return proxy.Effect{Up: hold}
	case fault.RepliesLost:
		return proxy.Effect{Down: hold}
	case fault.BlackHole:
		both = hold
	case fault.Latency:
		both = proxy.Network{Latency: ms(inj.Ms), Jitter: ms(min(inj.Jitter, inj.Ms))}
	case fault.Bandwidth:
		both = proxy.Network{Rate: max(1, inj.KBps) * 1024}
	case fault.Fragments:
		both = proxy.Network{Fragments: true}
	}
	return proxy.Effect{Up: both, Down: both}
}

func injectNetwork(inj *injection, at *slot) {
	inj.begin()
	inj.failed(at.conn.Apply(inj.N, inj.effect()))
	inj.last()
	inj.failed(at.conn.Heal(inj.N))
	inj.end()
}

func injectFlapping(inj *injection, at *slot) {
	inj.begin()
	every := max(time.Duration(inj.Ms)*time.Millisecond, 10*time.Millisecond)
	end := time.Now().Add(inj.For)
	for left := inj.For; left > 0; left = time.Until(end) {
		inj.failed(at.conn.Apply(inj.N, inj.effect()))
		more := inj.pause(min(every, left))
		inj.failed(at.conn.Heal(inj.N))
		if !more || !inj.pause(max(0, min(every, time.Until(end)))) {
			break
		}
	}
	inj.end()
}

func injectSessionAdd(inj *injection) {
	if !inj.writable() {
		return
	}
	defer inj.redis.give()
	inj.begin()
	inj.failed(inj.work.add(inj.ctx, int(max(1, inj.Ms))))
}

func injectSessionRemove(inj *injection) {
	if !inj.writable() {
		return
	}
	defer inj.redis.give()
	if inj.picked() {
		inj.begin()
		inj.failed(inj.work.change(inj.ctx, inj.session, history.SessionRemoved))
	}
}

func injectSessionPause(inj *injection) {
	if !inj.sessionPaused() {
		return
	}
	inj.last()
	if inj.writable() {
		inj.failed(inj.work.change(inj.ctx, inj.session, history.SessionResumed))
		inj.redis.give()
	}
	inj.end()
}

func (inj *injection) sessionPaused() bool {
	if !inj.writable() {
		return false
	}
	defer inj.redis.give()
	if !inj.picked() {
		return false
	}
	inj.begin()
	inj.failed(inj.work.change(inj.ctx, inj.session, history.SessionPaused))
	return true
}

func injectPollSlow(inj *injection) {
	if !inj.picked() {
		return
	}
	inj.begin()
	inj.target.Slow(inj.session, time.Duration(inj.Ms)*time.Millisecond)
	inj.last()
	inj.target.Slow(inj.session, 0)
	inj.end()
}

func injectPollHang(inj *injection) {
	if !inj.picked() {
		return
	}
	inj.begin()
	release := inj.target.Hang(inj.session)
	inj.last()
	release()
	inj.end()
}
