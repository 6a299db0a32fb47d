package real

import (
	"context"
	"fmt"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// masterCut isolates the master, sometimes with replicas. Some nodes are cut off with it, some from it, and some reach both sides.
func (inj *injection) masterCut() {
	p, r := inj.redis.replicated, inj.draws()
	slots, zone, shard := inj.allSlots(), inj.n+1, inj.redis.replicated.shard()
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
			w := s.way.(*ways)
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

func (inj *injection) failover() {
	if err := inj.order(); err != nil {
		inj.skip(err.Error())
		return
	}
	inj.begin()
}

// failoverTwice orders a second failover Ms later, as soon as the first has ended.
func (inj *injection) failoverTwice() {
	if err := inj.order(); err != nil {
		inj.skip(err.Error())
		return
	}
	inj.begin()
	if inj.pause(time.Duration(inj.Ms) * time.Millisecond) {
		inj.failed(inj.order())
	}
	inj.end()
}

// replica locks and returns a running replica under no other fault. Without one it skips the fault and returns nil. The caller unlocks
// it.
func (inj *injection) replica() *member {
	p := inj.redis.replicated
	master, r, shard := p.present(), inj.draws(), p.shard()
	for _, i := range r.Perm(len(shard)) {
		m := shard[i]
		if m == master || !m.hand.TryLock() {
			continue
		}
		if role, _ := m.role(inj.ctx); role == "slave" {
			return m
		}
		m.hand.Unlock()
	}
	inj.skip("no replica runs that is not under another fault")
	return nil
}

func (inj *injection) replicaCut() {
	m := inj.replica()
	if m == nil {
		return
	}
	defer m.hand.Unlock()
	p, zone := inj.redis.replicated, inj.n+1
	inj.begin()
	inj.failed(p.partition(inj.allSlots(), func() {
		p.zones.held[zone] = inj.draws().IntN(2) == 0
		m.zone = zone
	}))
	inj.last()
	inj.failed(p.rejoin(inj.allSlots(), zone))
	inj.end()
}

func (inj *injection) replicaLag() {
	m := inj.replica()
	if m == nil {
		return
	}
	defer m.hand.Unlock()
	late := proxy.Network{Latency: time.Duration(inj.Ms) * time.Millisecond}
	lines := m.door.Proxies()
	if m.bus != nil {
		lines = append(lines, m.bus.Proxies()...)
	}
	for _, to := range inj.redis.replicated.members {
		lines = append(lines, to.comesFrom(m)...)
	}
	inj.begin()
	for _, l := range lines {
		inj.failed(l.Apply(inj.n, proxy.Effect{Up: late, Down: late}))
	}
	inj.last()
	for _, l := range lines {
		inj.failed(l.Heal(inj.n))
	}
	inj.end()
}

func (inj *injection) replicaWipe() {
	m := inj.replica()
	if m == nil {
		return
	}
	defer m.hand.Unlock()
	inj.begin()
	m.kill()
	inj.failed(m.erase())
	inj.last()
	inj.failed(m.start(context.WithoutCancel(inj.ctx)))
	inj.redis.replicated.renew(m.server)
	inj.end()
}

// replicaDump makes a replica save its data, kills it after For, and restarts it from the dump, unless it has become a master.
func (inj *injection) replicaDump() {
	m := inj.replica()
	if m == nil {
		return
	}
	defer m.hand.Unlock()
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

// replicaFlip makes a replica follow another master, deposed or current, and moves it to that master's zone.
func (inj *injection) replicaFlip() {
	m := inj.replica()
	if m == nil {
		return
	}
	defer m.hand.Unlock()
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
		if role, _ := to.role(inj.ctx); to != m && role == "master" && to.door.Addr() != of {
			return to
		}
	}
	return nil
}
