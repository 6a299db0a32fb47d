package real

import (
	"context"
	"strings"
	"sync"
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

type injector struct {
	inject   func(*injection) // injects, waits, heals, and records both
	embedded string           // why an embedded Redis cannot take it; "": it can
	given    string           // why a given Redis (kindURL) cannot take it; "": it can
	composed bool             // a composed fleet can take it, and keeps its data
	servers  bool             // it needs replicas
	cluster  bool             // it needs a Redis Cluster
}

const (
	refusesNone  = "the embedded Redis refuses no writes"
	othersWrite  = "a given Redis may have other clients, whose writes would fail"
	notToKill    = "a given Redis is not the simulator's to kill"
	notToStop    = "a given Redis is not the simulator's to stop"
	notToRestart = "a given Redis is not the simulator's to restart"
)

// injectors has one entry for each kind that this engine can inject. Set in init, because faults refer to it.
var injectors map[fault.Kind]injector

func init() {
	on := func(f func(*injection)) injector { return injector{inject: f} }
	anywhere := func(f func(*injection)) injector { return injector{inject: f, composed: true} }
	servers := func(f func(*injection)) injector { return injector{inject: f, servers: true} }
	refuse := injector{inject: alone((*injection).refuse), embedded: refusesNone, given: othersWrite}
	injectors = map[fault.Kind]injector{
		fault.Crash: anywhere((*injection).crash), fault.CrashAll: anywhere((*injection).crashAll),
		fault.Terminate: anywhere((*injection).terminate), fault.Freeze: anywhere((*injection).freeze),
		fault.CheckSend: anywhere((*injection).checkSend), fault.Join: on((*injection).join), fault.Leave: on((*injection).leave),

		fault.Cut: anywhere((*injection).network), fault.BlackHole: anywhere((*injection).network),
		fault.RequestsLost: anywhere((*injection).network), fault.RepliesLost: anywhere((*injection).network),
		fault.Latency: anywhere((*injection).network), fault.Bandwidth: on((*injection).network),
		fault.Fragments: on((*injection).network), fault.Flapping: anywhere((*injection).flapping),

		fault.RedisOutage:  {inject: alone((*injection).redisOutage), given: notToKill, composed: true},
		fault.RedisRestart: {inject: alone((*injection).redisOutage), given: notToRestart, composed: true},
		fault.RedisWipe:    {inject: alone((*injection).redisWipe), given: notToKill},
		fault.RedisFlush:   {inject: alone((*injection).redisFlush), given: "a given Redis may hold other data"},
		fault.RedisFreeze: {
			inject: alone((*injection).redisFreeze), composed: true, given: notToStop, embedded: "the embedded Redis is no process of its own",
		},
		fault.RedisSlow: {
			inject: alone((*injection).redisSlow), composed: true, given: "a given Redis may have other clients, which would wait",
			embedded: "the embedded Redis does not run scripts on one thread as Redis does",
		},
		fault.RedisLoading: {inject: alone((*injection).redisLoading), given: notToRestart, embedded: "the embedded Redis loads nothing"},
		fault.ScriptFlush:  anywhere(alone((*injection).scriptFlush)),
		fault.ClientKill: {
			inject: alone((*injection).clientKill), composed: true, embedded: "the embedded Redis has no CLIENT KILL",
			given: "a given Redis may have other clients, which would lose their connections",
		},
		fault.KeyDelete: anywhere(alone((*injection).keyDelete)), fault.BeatStale: on((*injection).beatStale),

		fault.RedisReadOnly: refuse, fault.RedisMemory: refuse, fault.RedisNoPerm: refuse, fault.RedisNoReplicas: refuse,
		fault.RedisMisconf: refuse,

		fault.SessionAdd: on((*injection).sessionAdd), fault.SessionRemove: on((*injection).sessionRemove),
		fault.SessionPause: on((*injection).sessionPause), fault.PollSlow: on((*injection).pollSlow),
		fault.PollHang: on((*injection).pollHang),

		fault.MasterCut: servers((*injection).masterCut), fault.Failover: servers((*injection).failover),
		fault.FailoverTwice: servers((*injection).failoverTwice), fault.ReplicaCut: servers((*injection).replicaCut),
		fault.ReplicaFlip: servers((*injection).replicaFlip), fault.ReplicaLag: servers((*injection).replicaLag),
		fault.ReplicaWipe: servers((*injection).replicaWipe), fault.ReplicaDump: servers((*injection).replicaDump),
		fault.ShardDown: {inject: (*injection).shardDown, servers: true, cluster: true},
		fault.SlotMoved: {inject: (*injection).slotMoved, servers: true, cluster: true},
	}
}

// injectAll injects the plan's faults at their times after start. It returns when all are healed, soon after the storm's end.
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
		found := inj.aim() // in this goroutine: faults aim in the order of the plan
		all.Go(func() {
			defer inj.off()
			if inj.aimed(found, start.Add(f.At)) {
				injectors[f.Kind].inject(inj)
			}
		})
	}
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
	inj.inHand[inj.held]--
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
	host.TellExhausted(err, inj.starve)
	if err != nil && inj.ctx.Err() == nil {
		inj.notef("fault %d (%s %s): %v", inj.n+1, inj.Kind, inj.Target, err)
	}
}
