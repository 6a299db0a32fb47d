package real

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// living returns the target's slot and its process, or notes why there is none.
func (s *strike) living() (*slot, *node) {
	at := s.slot(s.Target)
	if at == nil {
		s.skip("there is no such node")
		return nil, nil
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.node == nil || !at.node.alive() {
		s.skip("it does not run")
		return nil, nil
	}
	return at, at.node
}

// expect marks the end of a process as the plan's doing.
func (s *slot) expect(n *node) {
	s.mu.Lock()
	n.asked = true
	s.mu.Unlock()
}

func (s *strike) crash() {
	at, n := s.living()
	if n == nil {
		return
	}
	at.expect(n)
	s.begin()
	n.kill()
	<-n.done
	if s.For > 0 {
		s.last()
		s.again(at)
		s.end()
	}
}

// again starts a process in a slot that the plan emptied, unless the run is over.
func (s *strike) again(at *slot) {
	if s.ctx.Err() != nil {
		return
	}
	_, err := at.start()
	s.failed(err)
}

func (s *strike) crashAll() {
	var ends sync.WaitGroup
	var hit []*slot
	s.begin()
	for _, at := range s.allSlots() {
		at.mu.Lock()
		n := at.node
		if n != nil && n.alive() {
			n.asked = true
			hit = append(hit, at)
			ends.Go(func() {
				n.kill()
				<-n.done
			})
		}
		at.mu.Unlock()
	}
	ends.Wait()
	if s.For > 0 {
		s.last()
		for _, at := range hit {
			s.again(at)
		}
		s.end()
	}
}

func (s *strike) terminate() {
	at, n := s.living()
	if n == nil {
		return
	}
	s.stopCleanly(at, n)
	if s.For > 0 {
		s.last()
		s.again(at)
		s.end()
	}
}

func (s *strike) leave() {
	at, n := s.living()
	if n == nil {
		return
	}
	at.mu.Lock()
	at.left = true
	at.mu.Unlock()
	s.stopCleanly(at, n)
}

func (s *strike) stopCleanly(at *slot, n *node) {
	at.expect(n)
	s.begin()
	if terminate(n, s.cfg.grace, s.ctx.Done()) {
		s.notef("%s ignored SIGTERM for %v and was killed", at.name, s.cfg.grace)
	}
	<-n.done
}

func (s *strike) freeze() {
	at, n := s.living()
	if n == nil {
		return
	}
	s.begin()
	at.hold(n)
	s.last()
	at.release(n)
	s.end()
}

// hold stops a process; several freezes may hold it at once.
func (s *slot) hold(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == n {
		s.frozen++
		_ = n.freeze()
	}
}

// release lets it go on once nothing holds it any more.
func (s *slot) release(n *node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == n {
		if s.frozen = max(0, s.frozen-1); s.frozen == 0 {
			_ = n.thaw()
		}
	}
}

// checkSend asks a node to stop itself between the check and the send of its next poll, and thaws it when the lease has
// passed on and is used, so that the poll is sent by an instance that does not own the session any more.
func (s *strike) checkSend() {
	at, n := s.living()
	if n == nil {
		return
	}
	if !catches(n.id(), syscall.SIGUSR1) {
		s.skip("the node does not catch SIGUSR1, by which it is asked to pause between check and send")
		return
	}
	paused, cancel := s.watch.await(func(e *history.Event) bool {
		return e.Kind == history.Paused && e.Node == s.Target
	})
	defer cancel()
	if err := n.ask(syscall.SIGUSR1); err != nil {
		s.skip("it does not run")
		return
	}
	wait := time.NewTimer(2 * s.cfg.TTL)
	defer wait.Stop()
	var e history.Event
	select {
	case e = <-paused:
	case <-wait.C:
		s.skip("it did not pause within two TTLs")
		n.owe(s)
		return
	case <-n.ended():
		s.skip("it ended before it paused")
		return
	case <-s.storm.Done():
		s.skip("the storm ended before it paused")
		n.owe(s)
		return
	}
	s.session = e.Session
	s.beginAt(e.T - 1) // just before the node's own word, which is explained by it
	if !s.holdUntilPassed(at, n, e, s.storm.Done()) {
		s.notef("fault %d: %s did not pass on while its owner was paused", s.n+1, s.session)
	}
	s.end()
}

// selfStop is how long a node may take from saying "paused" to stopping itself on a busy host.
const selfStop = 2 * time.Second

// awaitStop waits until the process has stopped itself. A stop of the harness's own before that would let the node's come
// after the thaw, and keep it stopped for good.
func awaitStop(n *node) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(selfStop); !stopped(n.id()) && time.Now().Before(deadline); {
		select {
		case <-tick.C:
		case <-n.ended():
			return
		}
	}
}

// stopped reports whether a process is stopped, as /proc shows it.
func stopped(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true // no such process, or no /proc to tell
	}
	_, state, ok := strings.Cut(string(stat), ") ") // the name before it may hold anything
	return ok && strings.HasPrefix(state, "T")
}

// holdUntilPassed keeps a paused process stopped until another instance has polled the session with a newer fence, two
// TTLs are over, or stop is closed. It reports whether the lease passed on. An acquisition would be too early to thaw: the
// target can refuse an older fence only once it has seen the newer one.
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
	case <-n.ended():
	case <-stop:
	}
	return false
}

// owe notes that the process was asked to pause and that the fault did not wait until it did.
func (n *node) owe(s *strike) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owed = append(n.owed, s)
}

// owes returns the first of the faults that the process owes a pause, and takes it off; nil: it was not asked. It is false while the
// process is looked after already: who has paused says nothing more, so that it need not be done twice.
func (n *node) owes() (*strike, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tended {
		return nil, false
	}
	n.tended = true
	if len(n.owed) == 0 {
		return nil, true
	}
	s := n.owed[0]
	n.owed = n.owed[1:]
	return s, true
}

// untended ends what owes began.
func (n *node) untended() {
	n.mu.Lock()
	n.tended = false
	n.mu.Unlock()
}

// rescue thaws a node that paused when no fault of the plan waited for it any more. Where one had asked for it, that fault strikes
// now; of what a node does of its own accord nothing is recorded but its word, which excuses nothing.
func (r *run) rescue(at *slot, n *node, e history.Event) {
	s, mine := n.owes()
	if !mine {
		return
	}
	defer n.untended()
	if s != nil {
		s.session = e.Session
		struck := s.event(history.FaultStart)
		struck.T = max(0, e.T-1) // just before the node's own word, which is explained by it
		r.rec.Add(struck)
		defer s.end()
	}
	stop := r.ending
	if *r.phase.Load() != "storm" {
		stop = make(chan struct{})
		close(stop)
	}
	r.holdUntilPassed(at, n, e, stop)
}

// catches reports whether a process has a handler for the signal: one that has none would die of it.
func catches(pid int, sig syscall.Signal) bool {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	for l := range strings.SplitSeq(string(status), "\n") {
		if mask, ok := strings.CutPrefix(l, "SigCgt:"); ok {
			bits, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return err == nil && bits&(1<<(uint(sig)-1)) != 0
		}
	}
	return false
}

func (s *strike) join() {
	name := s.Target
	for i := 1; name == ""; i++ {
		if candidate := fault.NodeTarget(i); s.slot(candidate) == nil {
			name = candidate
		}
	}
	s.Target = name
	at, err := s.addSlot(name)
	if err != nil {
		s.failed(err)
		return
	}
	at.mu.Lock()
	alive := at.node != nil && at.node.alive()
	at.left = at.left && alive
	at.mu.Unlock()
	if alive {
		s.skip("it runs already")
		return
	}
	s.begin()
	s.again(at)
}
