package real

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

type injector struct {
	inject   func(*injection) // injects, waits, heals, and records both
	embedded string           // why an embedded Redis cannot take it; "": it can
	given    string           // why a given Redis (kindURL) cannot take it; "": it can
	composed bool             // a composed fleet can take it, and keeps its data
	servers  bool             // it needs replicas
	cluster  bool             // it needs a Redis Cluster
}

const (
	notToKill    = "a given Redis is not the simulator's to kill"
	notToRestart = "a given Redis is not the simulator's to restart"
)

// injectors has one entry for each kind that this engine can inject. Set in init, because faults refer to it.
var injectors map[fault.Kind]injector

func init() {
	on := func(f func(*injection)) injector { return injector{inject: f} }
	anywhere := func(f func(*injection)) injector { return injector{inject: f, composed: true} }
	servers := func(f func(*injection)) injector { return injector{inject: f, servers: true} }
	refuse := injector{
		inject: alone(injectRefuse), embedded: "the embedded Redis refuses no writes",
		given: "a given Redis may have other clients, whose writes would fail",
	}
	injectors = map[fault.Kind]injector{
		fault.Crash: anywhere(onNode(injectCrash)), fault.CrashAll: anywhere(injectCrashAll),
		fault.Terminate: anywhere(onNode(injectTerminate)), fault.Freeze: anywhere(onNode(injectFreeze)),
		fault.CheckSend: anywhere(onNode(injectCheckSend)), fault.Join: on(injectJoin), fault.Leave: on(onNode(injectLeave)),

		fault.Cut: anywhere(onSlot(injectNetwork)), fault.BlackHole: anywhere(onSlot(injectNetwork)),
		fault.RequestsLost: anywhere(onSlot(injectNetwork)), fault.RepliesLost: anywhere(onSlot(injectNetwork)),
		fault.Latency: anywhere(onSlot(injectNetwork)), fault.Bandwidth: on(onSlot(injectNetwork)),
		fault.Fragments: on(onSlot(injectNetwork)), fault.Flapping: anywhere(onSlot(injectFlapping)),

		fault.RedisOutage:  {inject: alone(injectRedisOutage), given: notToKill, composed: true},
		fault.RedisRestart: {inject: alone(injectRedisOutage), given: notToRestart, composed: true},
		fault.RedisWipe:    {inject: alone(injectRedisWipe), given: notToKill},
		fault.RedisFlush:   {inject: alone(injectRedisFlush), given: "a given Redis may hold other data"},
		fault.RedisFreeze: {
			inject: alone(injectRedisFreeze), composed: true, given: "a given Redis is not the simulator's to stop",
			embedded: "the embedded Redis is no process of its own",
		},
		fault.RedisSlow: {
			inject: alone(injectRedisSlow), composed: true, given: "a given Redis may have other clients, which would wait",
			embedded: "the embedded Redis does not run scripts on one thread as Redis does",
		},
		fault.RedisLoading: {inject: alone(injectRedisLoading), given: notToRestart, embedded: "the embedded Redis loads nothing"},
		fault.ScriptFlush:  anywhere(alone(injectScriptFlush)),
		fault.ClientKill: {
			inject: alone(injectClientKill), composed: true, embedded: "the embedded Redis has no CLIENT KILL",
			given: "a given Redis may have other clients, which would lose their connections",
		},
		fault.KeyDelete: anywhere(alone(injectKeyDelete)), fault.BeatStale: on(onNode(injectBeatStale)),

		fault.RedisReadOnly: refuse, fault.RedisMemory: refuse, fault.RedisNoPerm: refuse, fault.RedisNoReplicas: refuse,
		fault.RedisMisconf: refuse,

		fault.SessionAdd: on(injectSessionAdd), fault.SessionRemove: on(injectSessionRemove),
		fault.SessionPause: on(injectSessionPause), fault.PollSlow: on(injectPollSlow),
		fault.PollHang: on(injectPollHang),

		fault.MasterCut: servers(injectMasterCut), fault.Failover: servers(injectFailover),
		fault.FailoverTwice: servers(injectFailover), fault.ReplicaCut: servers(onReplica(injectReplicaCut)),
		fault.ReplicaFlip: servers(onReplica(injectReplicaFlip)), fault.ReplicaLag: servers(onReplica(injectReplicaLag)),
		fault.ReplicaWipe: servers(onReplica(injectReplicaWipe)), fault.ReplicaDump: servers(onReplica(injectReplicaDump)),
		fault.ShardDown: {inject: injectShardDown, servers: true, cluster: true},
		fault.SlotMoved: {inject: injectSlotMoved, servers: true, cluster: true},
	}
}

// ErrUnsupported: the fault cannot be injected with this kind of Redis; the message gives the reason.
var ErrUnsupported = errors.New("fault cannot be injected")

// Supports returns nil if the fault can be injected with this Redis, else ErrUnsupported or the error of [fault.Kind.Available].
func (r *Redis) Supports(k fault.Kind) error {
	if err := k.Available(); err != nil {
		return err
	}
	in, why := injectors[k], ""
	switch {
	case in.servers && r.replicated == nil:
		return fmt.Errorf("%w: %q: Redis has no replicas; use --topology sentinel", ErrUnsupported, string(k))
	case in.cluster && !r.clustered():
		return fmt.Errorf("%w: %q: Redis is no cluster; use --topology cluster", ErrUnsupported, string(k))
	}
	switch r.Kind {
	case kindEmbedded:
		why = in.embedded
	case kindURL:
		why = in.given
	case kindCompose:
		if !in.composed {
			return fmt.Errorf("%w: %q: a composed fleet is somebody else's, who goes on with it and its data", ErrUnsupported, string(k))
		}
	}
	if why != "" {
		return fmt.Errorf("%w: %q: %s; use --redis server", ErrUnsupported, string(k), why)
	}
	return nil
}

func alone(f func(*injection)) func(*injection) {
	return func(inj *injection) {
		if inj.take() {
			defer inj.done()
			f(inj)
		}
	}
}

// onSlot, onNode and onReplica skip a fault whose target is not there.
func onSlot(f func(*injection, *slot)) func(*injection) {
	return func(inj *injection) {
		if at := inj.slot(inj.Target); at != nil {
			f(inj, at)
		} else {
			inj.skip("there is no such node")
		}
	}
}

func onNode(f func(*injection, *slot, *node)) func(*injection) {
	return onSlot(func(inj *injection, at *slot) {
		at.mu.Lock()
		n := at.node
		at.mu.Unlock()
		if n != nil && n.alive() {
			f(inj, at, n)
		} else {
			inj.skip("it does not run")
		}
	})
}

func onReplica(f func(*injection, *member)) func(*injection) {
	return func(inj *injection) {
		if m := inj.replica(); m != nil {
			defer m.fault.Unlock()
			f(inj, m)
		}
	}
}

// injectAll injects the plan's faults at their times after start. It returns when all are healed, soon after the storm's end.
func (r *run) injectAll(ctx, storm context.Context, start time.Time) {
	var all sync.WaitGroup
	defer all.Wait()
	for n, f := range r.cfg.Plan.Faults {
		if !host.Sleep(storm.Done(), time.Until(start.Add(f.At))) && (f.At < r.cfg.Storm || ctx.Err() != nil) {
			return
		}
		if time.Since(start)-f.At > lateAfter {
			r.mu.Lock()
			r.late++
			r.mu.Unlock()
		}
		inj := &injection{run: r, Interval: r.cfg.Plan.Interval(n), ctx: ctx, storm: storm}
		found := inj.aim() // in this goroutine: faults aim in the order of the plan
		all.Go(func() {
			defer inj.off()
			if inj.aimed(found, start.Add(f.At)) {
				injectors[f.Kind].inject(inj)
			}
		})
	}
}

// aim resolves the target of a fault that hits an owner, and counts a node's fault at its slot. It returns false if there is no such
// owner.
func (inj *injection) aim() bool {
	if inj.Kind.Scope() != fault.ScopeNode {
		return true
	}
	instances, stay := inj.running()
	holders := inj.owners.slots(inj.work.ids(), instances)
	inj.mu.Lock()
	defer inj.mu.Unlock()
	switch {
	case inj.Target == fault.Same:
		slot := inj.struck[fault.Lead(inj.cfg.Plan.Faults, inj.N)]
		if slot == "" {
			return false
		}
		inj.Target = slot
	case inj.Aims():
		i, ok := fault.Resolve(inj.Target, holders, func(i int) bool { return stay[i] && inj.faulted[fault.NodeTarget(i)] == 0 })
		if !ok {
			return false
		}
		inj.Target = fault.NodeTarget(i)
		inj.struck[inj.N] = inj.Target
	}
	inj.held = inj.Target
	inj.faulted[inj.held]++
	return true
}

func (inj *injection) aimed(found bool, due time.Time) bool {
	retry := time.NewTicker(fault.Retry(inj.cfg.Renew))
	defer retry.Stop()
	for last := false; !found; found = inj.aim() {
		if last {
			inj.skip("nobody that no other fault has in hand owned it within a renewal interval")
			return false
		}
		select {
		case <-retry.C:
			last = time.Since(due) > inj.cfg.Renew
		case <-inj.storm.Done():
			inj.skip("the storm ended before anybody owned it")
			return false
		}
	}
	return true
}
