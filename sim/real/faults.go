package real

import (
	"context"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// injection is one fault of the plan under way.
type injection struct {
	*run
	fault.Fault
	n       int             // index in the plan
	ctx     context.Context // of the run: when it ends, nothing is started any more
	storm   context.Context // ends with the storm: then the fault is healed, whatever its duration
	session string          // that it hit
	held    string          // slot that it has in hand
}

// injectors by kind. Each injects, waits, heals, and records both.
var injectors = map[fault.Kind]func(*injection){
	fault.Crash: (*injection).crash, fault.CrashAll: (*injection).crashAll, fault.Terminate: (*injection).terminate,
	fault.Freeze: (*injection).freeze, fault.CheckSend: (*injection).checkSend,
	fault.Join: (*injection).join, fault.Leave: (*injection).leave,

	fault.Cut: (*injection).network, fault.BlackHole: (*injection).network, fault.RequestsLost: (*injection).network,
	fault.RepliesLost: (*injection).network, fault.Latency: (*injection).network, fault.Bandwidth: (*injection).network,
	fault.Fragments: (*injection).network, fault.Flapping: (*injection).flapping,

	fault.RedisOutage: (*injection).redisOutage, fault.RedisRestart: (*injection).redisOutage,
	fault.RedisWipe: (*injection).redisWipe, fault.RedisFlush: (*injection).redisFlush, fault.RedisFreeze: (*injection).redisFreeze,
	fault.RedisSlow: (*injection).redisSlow, fault.RedisLoading: (*injection).redisLoading,
	fault.ScriptFlush: (*injection).scriptFlush,
	fault.ClientKill:  (*injection).clientKill, fault.KeyDelete: (*injection).keyDelete,
	fault.BeatStale: (*injection).beatStale,

	fault.RedisReadOnly: (*injection).refuse, fault.RedisMemory: (*injection).refuse, fault.RedisNoPerm: (*injection).refuse,
	fault.RedisNoReplicas: (*injection).refuse, fault.RedisMisconf: (*injection).refuse,

	fault.SessionAdd: (*injection).sessionAdd, fault.SessionRemove: (*injection).sessionRemove,
	fault.SessionPause: (*injection).sessionPause, fault.PollSlow: (*injection).pollSlow, fault.PollHang: (*injection).pollHang,
}

// injectAll injects the plan's faults at their times after start and returns when all are healed, which is soon after
// the storm's end.
func (r *run) injectAll(ctx, storm context.Context, start time.Time) {
	var all sync.WaitGroup
	defer all.Wait()
	for n, f := range r.cfg.Plan.Faults {
		wait := time.NewTimer(time.Until(start.Add(f.At)))
		select {
		case <-wait.C:
		case <-storm.Done():
			wait.Stop()
			if f.At < r.cfg.Storm || ctx.Err() != nil {
				return
			}
		}
		if time.Since(start)-f.At > lateAfter {
			r.mu.Lock()
			r.late++
			r.mu.Unlock()
		}
		inj := &injection{run: r, Fault: f, n: n, ctx: ctx, storm: storm}
		found := inj.aim() // in the order of the plan
		all.Go(func() {
			defer inj.off()
			if inj.aimed(found, start.Add(f.At)) {
				injectors[f.Kind](inj)
			}
		})
	}
}

// begin records that the fault hits now.
func (inj *injection) begin() { inj.beginAt(inj.clock.now()) }

// beginAt is begin for a fault that is heard of after it hit.
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

// end records that it is healed.
func (inj *injection) end() { inj.record(inj.event(history.FaultEnd)) }

// off takes the fault out of the progress line, and lets its target go.
func (inj *injection) off() {
	inj.mu.Lock()
	defer inj.mu.Unlock()
	inj.inHand[inj.held]--
	for i, a := range inj.active {
		if a.n == inj.n {
			inj.active = append(inj.active[:i:i], inj.active[i+1:]...)
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

// last waits until the fault's duration is over, or the storm.
func (inj *injection) last() { inj.pause(inj.For) }

// pause waits for d, or until the storm is over; then it reports false.
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

// skip notes that the fault cannot hit, because of what hit before.
func (inj *injection) skip(why string) {
	inj.notef("fault %d (%s %s) was not injected: %s", inj.n+1, inj.Kind, inj.Target, why)
}

// failed notes that something the fault needs did not work.
func (inj *injection) failed(err error) {
	if err != nil && inj.ctx.Err() == nil {
		inj.notef("fault %d (%s %s): %v", inj.n+1, inj.Kind, inj.Target, err)
	}
}
