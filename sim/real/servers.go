package real

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

func (r *Redis) provisionReplicated(ctx context.Context, c RedisChoice, dir string) error {
	binary, err := findServer()
	if err != nil {
		return fmt.Errorf("%w; install one of Redis 7 or later, because all servers of this topology are processes of the simulator's own, "+
			"or storm a model of them in virtual time (--engine virtual)", err)
	}
	p := &replicated{
		redis: r, stop: make(chan struct{}), done: make(chan struct{}), zones: zones{held: map[int]bool{}},
	}
	r.replicated = p
	close(p.done) // watch does not run yet
	servers, decide := c.Servers, p.watched
	if c.Cluster {
		p.cluster, servers, decide = &cluster{Cluster: redisfixture.Cluster{Size: c.Servers}}, redisfixture.ClusterSize(c.Servers), p.form
		p.cluster.timeout.Store(nodeTimeout.Milliseconds())
	}
	for i := range servers {
		if err := p.addMember(ctx, binary, i+1, dir); err != nil {
			return err
		}
	}
	first := p.members[0]
	p.master, r.server = first, first.server
	r.use("redis://" + first.addr)
	if err := r.check(ctx); err != nil {
		return err
	}
	if err := p.connect(); err != nil {
		return err
	}
	if err := decide(ctx, dir); err != nil {
		return err
	}
	p.done = make(chan struct{})
	go p.watch()
	return nil
}

func (p *replicated) watched(ctx context.Context, dir string) error {
	first, servers := p.members[0], len(p.members)
	for _, m := range p.members[1:] {
		if err := m.followNow(ctx, first); err != nil {
			return fmt.Errorf("%w: %s cannot be made a replica: %w", ErrNoServer, m.name, err)
		}
	}
	if err := p.settle(ctx, func(ctx context.Context) bool { return first.Replicas(ctx) == servers-1 }); err != nil {
		return err
	}
	for range sentinelCount {
		folder, err := p.redis.folder(dir)
		if err != nil {
			return err
		}
		s, err := p.startSentinel(ctx, folder)
		if err != nil {
			return err
		}
		p.sentinels = append(p.sentinels, s)
	}
	return p.settle(ctx, func(ctx context.Context) bool {
		return !slices.ContainsFunc(p.sentinels, func(s *sentinel) bool { return !s.settled(ctx, servers-1) })
	})
}

func (p *replicated) addMember(ctx context.Context, binary string, number int, dir string) error {
	folder, err := p.redis.folder(cmp.Or(dir, host.Memory()))
	if err != nil {
		return err
	}
	d, err := proxy.NewRouter(p.starve)
	if err != nil {
		return err
	}
	from := loopback.As4()
	from[3] = byte(sourceHost + number)
	m := &member{
		number: number, name: fmt.Sprintf("server %d", number), door: d, from: netip.AddrFrom4(from),
		server: p.redis.process(binary, folder),
	}
	if p.cluster != nil {
		m.shard = (number - 1) / p.cluster.Size
		if m.bus, err = newBus(p.cluster, p.starve); err != nil {
			return err
		}
	}
	m.conf = m.writeConf
	m.Client, m.Port = m.client.Load, m.door.Port()
	if m.bus != nil {
		m.Bus = m.bus.Router.Port()
	}
	p.members = append(p.members, m)
	if err := m.first(ctx); err != nil {
		return err
	}
	m.renew()
	return nil
}

func (p *replicated) connect() error {
	lead := func(name string, to *member, stream int) (*proxy.Proxy, error) {
		return proxy.New(name+" to "+to.name, loopback, to.addr, 0, uint64(stream), p.starve)
	}
	for _, to := range p.members {
		var err error
		for _, from := range p.members {
			if from == to {
				continue
			}
			if to.door.Servers[from.from], err = lead(from.name, to, from.number); err != nil {
				return err
			}
			if to.bus != nil {
				if err := to.bus.join(from, to, p.starve); err != nil {
					return err
				}
			}
		}
		if to.door.Sentinel, err = lead("sentinels", to, 0); err != nil {
			return err
		}
		to.door.Open()
		if to.bus != nil {
			to.bus.Open()
		}
	}
	return nil
}

func (p *replicated) settle(ctx context.Context, so func(context.Context) bool) error {
	return apart(redisfixture.Await(ctx, so))
}

func (p *replicated) close() {
	close(p.stop)
	<-p.done
	for _, m := range p.members {
		m.server.stop()
	}
	for _, s := range p.sentinels {
		s.stop()
	}
	for _, m := range p.members {
		m.door.Close()
		if m.bus != nil {
			m.bus.Close()
		}
		if c := m.client.Load(); c != nil {
			_ = c.Close()
		}
	}
}

func findServer() (string, error) {
	path, err := redisfixture.Find()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	return path, nil
}
