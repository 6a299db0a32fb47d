package real

import (
	"context"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// strike is one fault of the plan under way.
type strike struct {
	*run
	fault.Fault
	n       int             // index in the plan
	ctx     context.Context // of the run: when it ends, nothing is started any more
	storm   context.Context // ends with the storm: then the fault is healed, whatever its duration
	session string          // that it hit
	held    string          // slot that it has in hand
}

// strikers by kind. Each strikes, waits, heals, and records both.
var strikers = map[fault.Kind]func(*strike){
	fault.Crash: (*strike).crash, fault.CrashAll: (*strike).crashAll, fault.Terminate: (*strike).terminate,
	fault.Freeze: (*strike).freeze, fault.CheckSend: (*strike).checkSend,
	fault.Join: (*strike).join, fault.Leave: (*strike).leave,

	fault.Cut: (*strike).network, fault.BlackHole: (*strike).network, fault.RequestsLost: (*strike).network,
	fault.RepliesLost: (*strike).network, fault.Latency: (*strike).network, fault.Bandwidth: (*strike).network,
	fault.Fragments: (*strike).network, fault.Flapping: (*strike).flapping,

	fault.RedisOutage: (*strike).redisOutage, fault.RedisRestart: (*strike).redisOutage,
	fault.RedisWipe: (*strike).redisWipe, fault.RedisFlush: (*strike).redisFlush, fault.RedisFreeze: (*strike).redisFreeze,
	fault.RedisSlow: (*strike).redisSlow, fault.RedisLoading: (*strike).redisLoading,
	fault.ScriptFlush: (*strike).scriptFlush,
	fault.ClientKill:  (*strike).clientKill, fault.KeyDelete: (*strike).keyDelete,
	fault.BeatStale: (*strike).beatStale,

	fault.RedisReadOnly: (*strike).refuse, fault.RedisMemory: (*strike).refuse, fault.RedisNoPerm: (*strike).refuse,
	fault.RedisNoReplicas: (*strike).refuse, fault.RedisMisconf: (*strike).refuse,

	fault.SessionAdd: (*strike).sessionAdd, fault.SessionRemove: (*strike).sessionRemove,
	fault.SessionPause: (*strike).sessionPause, fault.PollSlow: (*strike).pollSlow, fault.PollHang: (*strike).pollHang,
}

// strikeAll strikes the plan's faults at their times after start and returns when all are healed, which is soon after
// the storm's end.
func (r *run) strikeAll(ctx, storm context.Context, start time.Time) {
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
		s := &strike{run: r, Fault: f, n: n, ctx: ctx, storm: storm}
		found := s.aim() // in the order of the plan
		all.Go(func() {
			defer s.off()
			if s.aimed(found, start.Add(f.At)) {
				strikers[f.Kind](s)
			}
		})
	}
}

// begin records that the fault strikes now.
func (s *strike) begin() { s.beginAt(s.clock.now()) }

// beginAt is begin for a fault that is heard of after it struck.
func (s *strike) beginAt(t int64) {
	e := s.event(history.FaultStart)
	e.T = max(0, t)
	s.rec.Add(e)
	s.mu.Lock()
	defer s.mu.Unlock()
	text := string(s.Kind)
	if s.Target != "" {
		text += " " + s.Target
	}
	s.struck = append(s.struck, activeFault{s.n, text})
}

// end records that it is healed.
func (s *strike) end() { s.record(s.event(history.FaultEnd)) }

// off takes the fault out of the progress line, and lets its target go.
func (s *strike) off() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inHand[s.held]--
	for i, a := range s.struck {
		if a.n == s.n {
			s.struck = append(s.struck[:i:i], s.struck[i+1:]...)
			return
		}
	}
}

func (s *strike) event(kind history.Kind) history.Event {
	e := history.Event{Kind: kind, N: int64(s.n), Reason: string(s.Kind), Session: s.session}
	if s.Kind.Scope() == fault.ScopeNode {
		e.Node = s.Target
	}
	return e
}

// last waits until the fault's duration is over, or the storm.
func (s *strike) last() { s.pause(s.For) }

// pause waits for d, or until the storm is over; then it reports false.
func (s *strike) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.storm.Done():
		return false
	}
}

// skip notes that the fault cannot strike, because of what struck before.
func (s *strike) skip(why string) {
	s.notef("fault %d (%s %s) did not strike: %s", s.n+1, s.Kind, s.Target, why)
}

// failed notes that something the fault needs did not work.
func (s *strike) failed(err error) {
	if err != nil && s.ctx.Err() == nil {
		s.notef("fault %d (%s %s): %v", s.n+1, s.Kind, s.Target, err)
	}
}
