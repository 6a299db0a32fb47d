package real

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

type injection struct {
	*run
	fault.Interval
	ctx     context.Context // of the run; nothing is started after its end
	storm   context.Context // ends with the storm; the fault is then healed, whatever its duration
	session string
	asked   int64   // time of the request to pause, run clock
	held    string  // slot that it acts on, counted in inHand
	hit     *member // member that it acts on, of a replicated Redis
}

func (inj *injection) begin() { inj.beginAt(inj.clock.Now()) }

// beginAt is like begin, for a fault that is noticed only after it hit at the time t of the run's clock.
func (inj *injection) beginAt(t int64) {
	e := inj.event(history.FaultStart)
	e.T = max(0, t)
	inj.rec.Add(e)
	inj.mu.Lock()
	defer inj.mu.Unlock()
	text := string(inj.Kind)
	if inj.Target != "" {
		text += " " + inj.Target
	}
	inj.active = append(inj.active, activeFault{inj.N, text})
}

func (inj *injection) end() { inj.record(inj.event(history.FaultEnd)) }

func (inj *injection) off() {
	inj.mu.Lock()
	defer inj.mu.Unlock()
	inj.faulted[inj.held]--
	for i, a := range inj.active {
		if a.n == inj.N {
			inj.active = append(inj.active[:i:i], inj.active[i+1:]...)
			if inj.ofRedis(inj.N) {
				inj.healed = inj.clock.Now()
			}
			return
		}
	}
}

func (inj *injection) event(kind history.Kind) history.Event {
	e := history.Event{Kind: kind, N: int64(inj.N), Reason: string(inj.Kind), Session: inj.session}
	if inj.Kind.Scope() == fault.ScopeNode {
		e.Node = inj.Target
	}
	return e
}

func (inj *injection) last() { inj.pause(inj.For) }

// pause waits for d, or returns false when the storm ends.
func (inj *injection) pause(d time.Duration) bool { return host.Sleep(inj.storm.Done(), d) }

func (inj *injection) skip(why string) {
	inj.notef("fault %d (%s) was not injected: %s", inj.N+1, strings.TrimSpace(string(inj.Kind)+" "+inj.Target), why)
}

func (inj *injection) failed(err error) {
	host.TellExhausted(err, inj.abort)
	if err != nil && inj.ctx.Err() == nil {
		inj.notef("fault %d (%s %s): %v", inj.N+1, inj.Kind, inj.Target, err)
	}
}

// take locks Redis, or the master if there are several servers, for this fault. If another fault has the lock, take skips this
// fault and returns false.
func (inj *injection) take() bool {
	ctx, cancel := context.WithTimeout(inj.ctx, turnWithin)
	defer cancel()
	if !inj.redis.take(ctx.Done()) {
		inj.skip("Redis is under another fault")
		return false
	}
	if p := inj.redis.replicated; p != nil {
		m := p.present()
		if !m.fault.TryLock() {
			inj.redis.give()
			inj.skip("the master is under another fault")
			return false
		}
		inj.hit, inj.redis.server = m, m.server
	}
	return true
}

func (inj *injection) done() {
	if inj.hit != nil {
		inj.hit.fault.Unlock()
	}
	inj.redis.give()
}

func (inj *injection) down() {
	inj.record(history.Event{Kind: history.RedisDown, Reason: string(inj.Kind)})
}

func (inj *injection) up(remembers string) {
	inj.record(history.Event{Kind: history.RedisUp, Reason: remembers})
}

const (
	kept  = "kept"
	empty = "empty"
)

func (inj *injection) back(remembers string, args ...string) {
	// An interrupted run needs its Redis too: nodes release leases, and the run reads its counters.
	if err := inj.redis.resume(context.WithoutCancel(inj.ctx), args...); err != nil {
		inj.failed(err)
		inj.redis.lose(fmt.Errorf("%w: it was not started again: %w", ErrGone, err)) // from now on no fault explains the outage
		inj.end()
		return
	}
	inj.up(remembers)
	if remembers == empty {
		inj.failed(inj.work.restore(inj.ctx))
	} else {
		inj.failed(inj.work.repair(inj.ctx))
	}
	inj.end()
}

// answers ends a fault in which Redis lost no data.
func (inj *injection) answers() {
	inj.up(kept)
	inj.failed(inj.work.repair(inj.ctx))
	inj.end()
}

func (inj *injection) picked() bool {
	id, ok := inj.work.pick(inj.Target)
	if !ok {
		inj.skip("there is no such session")
		return false
	}
	inj.session = id
	return true
}

// writable locks Redis once no fault acts on it: a write of the application must be visible when the history records it.
func (inj *injection) writable() bool { return inj.redis.take(inj.ctx.Done()) }

func (inj *injection) draws() *rand.Rand {
	return rand.New(rand.NewPCG(inj.cfg.Seed, streamServers+uint64(inj.N)))
}

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

// awaitStop waits until the process has stopped itself. If the harness froze the process first, its own stop would follow the thaw and
// last.
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
