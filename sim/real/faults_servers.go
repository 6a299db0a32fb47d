package real

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// injectMasterCut isolates the master, sometimes with replicas. Some nodes reach only the master's side, some only the other side,
// and some reach both sides.
func injectMasterCut(inj *injection) {
	p, r := inj.redis.replicated, inj.draws()
	slots, zone, shard := inj.allSlots(), inj.N+1, inj.redis.replicated.shard()
	inj.begin()
	inj.failed(p.partition(slots, func() {
		p.zones.held[zone] = r.IntN(2) == 0
		for _, m := range shard {
			if m == p.master || r.IntN(3) == 0 {
				m.zone = zone
			}
		}
		cut, both := r.IntN(4), r.IntN(4)
		for _, s := range slots {
			w := s.conn.(*proxies)
			switch i := r.IntN(5); {
			case i <= cut:
				w.zone, w.anywhere = zone, false
			case i <= cut+both:
				w.zone, w.anywhere = zone, true
			}
		}
	}))
	inj.last()
	inj.failed(p.rejoin(slots, zone))
	inj.end()
}

const orderWithin = 2 * time.Second

// order makes the sentinels or the cluster begin a failover as soon as they can, or returns why they cannot.
func (inj *injection) order() error {
	ctx, cancel := context.WithTimeout(inj.storm, orderWithin)
	defer cancel()
	force := inj.draws().IntN(2) == 0
	var err error
	if redisfixture.Await(ctx, func(ctx context.Context) bool {
		err = inj.redis.replicated.failOver(ctx, force)
		return err == nil
	}) != nil {
		return fmt.Errorf("no failover begins: %w", err)
	}
	return nil
}

// injectFailover orders a failover, and for FailoverTwice a second one Ms later, as soon as the first has ended.
func injectFailover(inj *injection) {
	if err := inj.order(); err != nil {
		inj.skip(err.Error())
		return
	}
	inj.begin()
	if inj.Kind != fault.FailoverTwice {
		return
	}
	if inj.pause(time.Duration(inj.Ms) * time.Millisecond) {
		inj.failed(inj.order())
	}
	inj.end()
}

// replica locks and returns a running replica under no other fault. If there is none, it skips the fault and returns nil. The
// caller unlocks the replica.
func (inj *injection) replica() *member {
	p := inj.redis.replicated
	master, r, shard := p.present(), inj.draws(), p.shard()
	for _, i := range r.Perm(len(shard)) {
		m := shard[i]
		if m == master || !m.fault.TryLock() {
			continue
		}
		if role, _ := m.role(inj.ctx); role == "slave" {
			return m
		}
		m.fault.Unlock()
	}
	inj.skip("no replica runs that is not under another fault")
	return nil
}

func injectReplicaCut(inj *injection, m *member) {
	p, zone := inj.redis.replicated, inj.N+1
	inj.begin()
	inj.failed(p.partition(inj.allSlots(), func() {
		p.zones.held[zone] = inj.draws().IntN(2) == 0
		m.zone = zone
	}))
	inj.last()
	inj.failed(p.rejoin(inj.allSlots(), zone))
	inj.end()
}

func injectReplicaLag(inj *injection, m *member) {
	late := proxy.Network{Latency: time.Duration(inj.Ms) * time.Millisecond}
	lines := m.router.Proxies()
	if m.bus != nil {
		lines = append(lines, m.bus.Proxies()...)
	}
	for _, to := range inj.redis.replicated.members {
		lines = append(lines, to.comesFrom(m)...)
	}
	inj.begin()
	for _, l := range lines {
		inj.failed(l.Apply(inj.N, proxy.Effect{Up: late, Down: late}))
	}
	inj.last()
	for _, l := range lines {
		inj.failed(l.Heal(inj.N))
	}
	inj.end()
}

func injectReplicaWipe(inj *injection, m *member) {
	inj.begin()
	m.kill()
	inj.failed(m.erase())
	inj.last()
	inj.failed(m.start(context.WithoutCancel(inj.ctx)))
	inj.redis.replicated.renew(m.server)
	inj.end()
}

// injectReplicaDump makes a replica save its data, kills it after For, and restarts it from the dump, unless it has become a master.
func injectReplicaDump(inj *injection, m *member) {
	if err := m.save(inj.ctx); err != nil {
		inj.skip(fmt.Sprintf("%s saves nothing: %v", m.name, err))
		return
	}
	inj.begin()
	inj.last()
	ctx := context.WithoutCancel(inj.ctx)
	if role, _ := m.role(ctx); role == "slave" {
		m.kill()
		inj.failed(m.reload(ctx))
		inj.redis.replicated.renew(m.server)
		inj.failed(m.appendAgain(ctx))
	}
	inj.end()
}

// injectReplicaFlip makes a replica follow another master, deposed or current, and moves it to that master's zone.
func injectReplicaFlip(inj *injection, m *member) {
	p := inj.redis.replicated
	to := inj.another(m)
	if to == nil {
		inj.skip("no other server takes itself for a master")
		return
	}
	inj.begin()
	inj.failed(p.partition(inj.allSlots(), func() { m.zone = to.zone }))
	inj.failed(m.followNow(inj.ctx, to))
	inj.last()
	inj.failed(p.partition(inj.allSlots(), func() { m.zone = 0 }))
	if p.cluster != nil {
		inj.failed(p.followAgain(context.WithoutCancel(inj.ctx), m))
	}
	inj.end()
}

func (inj *injection) another(m *member) *member {
	_, of := m.role(inj.ctx)
	for _, to := range inj.redis.replicated.shard() {
		if role, _ := to.role(inj.ctx); to != m && role == "master" && to.router.Addr() != of {
			return to
		}
	}
	return nil
}

var errGivenUp = errors.New("the slot stays where it is")

// injectShardDown kills all servers of the leases' shard and restarts them with their data after For.
func injectShardDown(inj *injection) {
	shard := inj.redis.replicated.shard()
	if !tryLockAll(shard) {
		inj.skip("a server of the shard is under another fault")
		return
	}
	defer unlockAll(shard)
	inj.begin()
	inj.down()
	for _, m := range shard {
		m.kill()
	}
	inj.last()
	var all sync.WaitGroup
	for _, m := range shard {
		all.Go(func() {
			inj.failed(m.start(context.WithoutCancel(inj.ctx)))
			inj.redis.replicated.renew(m.server)
		})
	}
	all.Wait()
	inj.answers()
}

func tryLockAll(members []*member) bool {
	for i, m := range members {
		if !m.fault.TryLock() {
			unlockAll(members[:i])
			return false
		}
	}
	return true
}

func unlockAll(members []*member) {
	for _, m := range members {
		m.fault.Unlock()
	}
}

type move struct {
	p        *replicated
	from, to *member
	held     []*member // locked servers: the shard that the slot leaves, and to
}

// injectSlotMoved moves the leases' slot to the other shard. It waits up to For until the shard is healthy.
func injectSlotMoved(inj *injection) {
	ctx, cancel := context.WithTimeout(inj.storm, inj.For)
	defer cancel()
	var mv *move
	err := redisfixture.Await(ctx, func(context.Context) bool {
		mv = inj.redis.replicated.beginMove(inj.ctx)
		return mv != nil
	})
	if err != nil {
		inj.skip("the shard of the leases was not well meanwhile")
		return
	}
	defer unlockAll(mv.held)
	inj.begin()
	for _, m := range []*member{mv.from, mv.to} { // moved keys are neither granted nor deleted leases
		inj.streams[m.number-1].Hold()
		defer inj.streams[m.number-1].Report(context.WithoutCancel(inj.ctx))
	}
	r := inj.draws()
	err = mv.carry(inj.ctx, func() int { return 1 + r.IntN(10) }, func() {
		inj.pause(time.Duration(r.Int64N(int64(inj.cfg.TTL)/16 + 1)))
	})
	if err == nil {
		err = mv.settle(inj.ctx)
	}
	if err != nil {
		inj.notef("fault %d: %v: %v", inj.N+1, errGivenUp, err)
		inj.failed(mv.giveUp(context.WithoutCancel(inj.ctx)))
		inj.failed(inj.work.restore(inj.ctx))
	}
	inj.end()
}

// beginMove begins to migrate the slot. It returns nil unless its shard and the other shard's master are healthy.
func (p *replicated) beginMove(ctx context.Context) *move {
	mv := &move{p: p, from: p.present(), held: p.shard()}
	for _, m := range p.members {
		if role, _ := m.role(ctx); m.shard != mv.from.shard && m != p.voter() && role == "master" && m.serves(ctx) {
			mv.to = m
		}
	}
	if mv.to == nil {
		return nil
	}
	mv.held = append(mv.held, mv.to)
	switch {
	case !tryLockAll(mv.held):
		return nil
	case mv.whole(ctx) && mv.set(ctx, mv.to, "IMPORTING", mv.from.ID) == nil && mv.set(ctx, mv.from, "MIGRATING", mv.to.ID) == nil:
		return mv
	}
	unlockAll(mv.held)
	return nil
}

func (mv *move) set(ctx context.Context, at *member, words ...any) error {
	ctx, cancel := context.WithTimeout(ctx, sentinelAnswer)
	defer cancel()
	return at.client.Load().Do(ctx, append([]any{"CLUSTER", "SETSLOT", mv.p.cluster.Slot}, words...)...).Err()
}

// whole reports whether all servers of the shard can be reached and its replicas follow its master. Only then may the slot leave: a
// server that missed the move would keep serving it (docs/replicas.md).
func (mv *move) whole(ctx context.Context) bool {
	if mv.from != mv.p.present() || mv.from.Replicas(ctx) != mv.p.cluster.Size-1 {
		return false
	}
	mv.p.mu.Lock()
	cut := slices.ContainsFunc(mv.held, func(m *member) bool { return m.zone != 0 })
	mv.p.mu.Unlock()
	return !cut && !slices.ContainsFunc(mv.held, func(m *member) bool {
		role, of := m.role(ctx)
		follows := role == "slave" && of == mv.from.router.Addr()
		return !m.serves(ctx) || !follows && (m != mv.from && m != mv.to || role != "master")
	})
}

const migrateWithin = 1000

// carry moves the keys, a few at a time. A started move continues after the storm's end; pause then returns at once.
func (mv *move) carry(ctx context.Context, few func() int, pause func()) error {
	for {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case mv.from != mv.p.present():
			return errors.New("its shard has another master")
		}
		keys, err := mv.keys(ctx, mv.from, few())
		if err == nil && len(keys) == 0 {
			return nil
		}
		if err == nil {
			err = mv.migrate(ctx, keys)
		}
		if err != nil {
			return err
		}
		pause()
	}
}

func (mv *move) migrate(ctx context.Context, keys []string) error {
	words := []any{"MIGRATE", loopback.String(), mv.to.router.Port(), "", 0, migrateWithin, "KEYS"}
	for _, key := range keys {
		words = append(words, key)
	}
	return mv.from.client.Load().Do(ctx, words...).Err()
}

func (mv *move) keys(ctx context.Context, at *member, n int) ([]string, error) {
	return at.client.Load().ClusterGetKeysInSlot(ctx, int(mv.p.cluster.Slot), n).Result()
}

const heardWithin = 5 * time.Second

// settle assigns the slot to the other shard and waits until all servers of the old shard know.
func (mv *move) settle(ctx context.Context) error {
	p := mv.p
	p.settling.Lock()
	defer p.settling.Unlock()
	if !mv.whole(ctx) {
		return errors.New("its shard is not well any more")
	}
	for { // keys written since
		keys, err := mv.keys(ctx, mv.from, 100)
		if err == nil && len(keys) > 0 {
			err = mv.migrate(ctx, keys)
		}
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
	}
	if err := mv.set(ctx, mv.to, "NODE", mv.to.ID); err != nil {
		return fmt.Errorf("SETSLOT at %s: %w", mv.to.name, err)
	}
	for _, m := range []*member{mv.from, p.voter()} {
		_ = mv.set(ctx, m, "NODE", mv.to.ID) // faster than gossip, which spreads it anyway
	}
	ctx, cancel := context.WithTimeout(ctx, heardWithin)
	defer cancel()
	_ = redisfixture.Await(ctx, func(context.Context) bool {
		return !slices.ContainsFunc(mv.held, func(m *member) bool { return p.owner(m) != mv.to })
	})
	return nil // the slot has moved in any case
}

// giveUp leaves the slot in its shard and deletes the keys that have already moved.
func (mv *move) giveUp(ctx context.Context) error {
	keys, err := mv.keys(ctx, mv.to, 1<<20)
	if err == nil && len(keys) > 0 {
		_, err = mv.to.client.Load().Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for _, key := range keys {
				pipe.Do(ctx, "ASKING")
				pipe.Del(ctx, key)
			}
			return nil
		})
	}
	if role, _ := mv.from.role(ctx); role == "master" { // a deposed master has no migrating slot
		err = errors.Join(err, mv.set(ctx, mv.from, "STABLE"))
	}
	return errors.Join(err, mv.set(ctx, mv.to, "STABLE"))
}
