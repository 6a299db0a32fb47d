package real

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

type injection struct {
	*run
	fault.Fault
	n       int             // index in the plan
	ctx     context.Context // of the run; nothing is started after its end
	storm   context.Context // ends with the storm; the fault is then healed, whatever its duration
	session string
	asked   int64   // time of the request to pause, run clock
	held    string  // slot that it acts on, counted in inHand
	hit     *member // member that it acts on, of a replicated Redis
}

func (inj *injection) begin() { inj.beginAt(inj.clock.Now()) }

// beginAt is begin for a fault that is only noticed after it hit. t is run clock.
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
	inj.active = append(inj.active, activeFault{inj.n, text})
}

func (inj *injection) end() { inj.record(inj.event(history.FaultEnd)) }

func (inj *injection) off() {
	inj.mu.Lock()
	defer inj.mu.Unlock()
	inj.faulted[inj.held]--
	for i, a := range inj.active {
		if a.n == inj.n {
			inj.active = append(inj.active[:i:i], inj.active[i+1:]...)
			if inj.ofRedis(inj.n) {
				inj.healed = inj.clock.Now()
			}
			return
		}
	}
}

func (inj *injection) event(kind history.Kind) history.Event {
	e := history.Event{Kind: kind, N: int64(inj.n), Reason: string(inj.Kind), Session: inj.session}
	if inj.Kind.Scope() == fault.ScopeNode {
		e.Node = inj.Target
	}
	return e
}

func (inj *injection) last() { inj.pause(inj.For) }

// pause waits for d, or returns false when the storm ends.
func (inj *injection) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-inj.storm.Done():
		return false
	}
}

func (inj *injection) skip(why string) {
	inj.notef("fault %d (%s) was not injected: %s", inj.n+1, strings.TrimSpace(string(inj.Kind)+" "+inj.Target), why)
}

func (inj *injection) failed(err error) {
	host.TellExhausted(err, inj.abort)
	if err != nil && inj.ctx.Err() == nil {
		inj.notef("fault %d (%s %s): %v", inj.n+1, inj.Kind, inj.Target, err)
	}
}

// take locks Redis, and the master of several servers, for this fault. It skips the fault and returns false if another one has the lock.
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

// answers ends a fault that lost no data.
func (inj *injection) answers() {
	inj.up(kept)
	inj.failed(inj.work.repair(inj.ctx))
	inj.end()
}

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
	return rand.New(rand.NewPCG(inj.cfg.Seed, streamServers+uint64(inj.n)))
}
