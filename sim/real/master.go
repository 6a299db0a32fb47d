package real

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
	"github.com/leasestorm/leasestorm/sim/real/stream"
)

func (r *Redis) systemOf(name string) *system {
	switch {
	case !r.clustered():
		return systems[name]
	case name == systemPolling:
		return clusteredPolling
	}
	return nil
}

func (p *replicated) deciders() string {
	if p.cluster != nil {
		return "those who vote"
	}
	return "the sentinels"
}

func newBus(of *cluster, short func(error)) (*bus, error) {
	d, err := proxy.NewRouter(short)
	return &bus{Router: d, cluster: of}, err
}

func (b *bus) join(from, to *member, short func(error)) error {
	at := netip.AddrPortFrom(loopback, to.busPort()).String()
	l, err := proxy.New(from.name+" to the bus of "+to.name, loopback, at, 0, uint64(from.number), short)
	if err == nil {
		b.Servers[from.from] = l
	}
	return err
}

// drawTimeout sets the node timeout. A third of all runs adds up to 1.5 TTL to the timeout, because a cut-off master keeps serving
// until the timeout.
func (p *replicated) drawTimeout(ctx context.Context, seed uint64, ttl time.Duration) error {
	timeout := nodeTimeout
	if r := rand.New(rand.NewPCG(seed, streamServers-1)); r.IntN(3) == 0 {
		timeout += time.Duration(r.Int64N(int64(ttl) * 3 / 2))
	}
	p.cluster.timeout.Store(timeout.Milliseconds())
	var err error
	for _, m := range p.members {
		err = errors.Join(err, m.client.Load().ConfigSet(ctx, "cluster-node-timeout", fmt.Sprint(timeout.Milliseconds())).Err())
	}
	return err
}

func (p *replicated) form(ctx context.Context, _ string) error {
	c := p.cluster
	for _, m := range p.members {
		c.Nodes = append(c.Nodes, &m.Node)
	}
	if err := c.Form(ctx, clusterTag); err != nil {
		return apart(err)
	}
	for n := 0; c.marks[0] == "" || c.marks[1] == ""; n++ {
		key := fmt.Sprint(stream.Channel, ":", n)
		slot, err := c.Voter().Client().ClusterKeySlot(ctx, key).Result()
		if err != nil {
			return fmt.Errorf("%w: slots of a cluster: %w", ErrNoServer, err)
		}
		if shard := c.Shard(slot); slot != c.Slot && shard < len(c.marks) {
			c.marks[shard] = key
		}
	}
	return nil
}

func (p *replicated) mark(m *member) string {
	if p.cluster == nil {
		return ""
	}
	return p.cluster.marks[m.shard]
}

func (p *replicated) owner(by *member) *member {
	if i := p.cluster.Owner(context.Background(), &by.Node); i >= 0 {
		return p.members[i]
	}
	return nil
}

func (p *replicated) replace(ctx context.Context, force bool) error {
	how := []any{"CLUSTER", "FAILOVER"}
	if force {
		how = append(how, "FORCE")
	}
	err := fmt.Errorf("no replica answers")
	for _, m := range p.shard() {
		if role, _ := m.role(ctx); role == "slave" {
			if err = m.client.Load().Do(ctx, how...).Err(); err == nil {
				return nil
			}
		}
	}
	return err
}

func (p *replicated) followAgain(ctx context.Context, m *member) error {
	if role, _ := m.role(ctx); role != "slave" || m.shard != p.present().shard {
		return nil
	}
	return m.followNow(ctx, p.present())
}

func (p *replicated) startSentinel(ctx context.Context, folder string) (*sentinel, error) {
	s := &sentinel{daemon: daemon{lose: p.redis.lose}}
	conf, logFile := filepath.Join(folder, "sentinel.conf"), filepath.Join(folder, "redis.log")
	err := redisfixture.First(func(addr string) error {
		host, port, _ := net.SplitHostPort(addr)
		text := fmt.Sprintf("bind %s\nport %s\ndir %q\n", host, port, folder)
		for _, set := range []string{
			fmt.Sprintf("monitor %s %s %d %d", masterName, loopback, p.members[0].router.Port(), sentinelCount/2+1),
			fmt.Sprintf("down-after-milliseconds %s %d", masterName, sentinelDown.Milliseconds()),
			fmt.Sprintf("failover-timeout %s %d", masterName, sentinelRetry.Milliseconds()),
			fmt.Sprintf("parallel-syncs %s %d", masterName, len(p.members)),
		} {
			text += "sentinel " + set + "\n"
		}
		if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
			return err
		}
		s.addr = addr
		return s.run(ctx, "a sentinel on "+addr, logFile, redisfixture.Watching, serverStart, func(log *os.File) (process.Program, error) {
			return p.redis.launchProcess(p.members[0].binary)(ctx, []string{conf, "--sentinel"}, log)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("sentinel: %w", err)
	}
	o := adminOptions(&redis.Options{Addr: s.addr})
	o.ReadTimeout, o.DialTimeout = sentinelAnswer, sentinelAnswer
	s.client = redis.NewSentinelClient(o)
	return s, nil
}

// says returns the master's address according to the sentinel; "" if it does not answer.
func (s *sentinel) says(ctx context.Context) string {
	where, err := s.client.GetMasterAddrByName(ctx, masterName).Result()
	if err != nil || len(where) != 2 {
		return ""
	}
	return net.JoinHostPort(where[0], where[1])
}

// settled reports whether the sentinel sees the other sentinels, a healthy master and this number of healthy replicas.
func (s *sentinel) settled(ctx context.Context, replicas int) bool {
	master, err := s.client.Master(ctx, masterName).Result()
	if err != nil || master["flags"] != "master" || master["num-other-sentinels"] != fmt.Sprint(sentinelCount-1) {
		return false
	}
	all, err := s.client.Replicas(ctx, masterName).Result()
	if err != nil || len(all) != replicas {
		return false
	}
	for _, one := range all {
		if one["flags"] != "slave" || one["master-link-status"] != "ok" {
			return false
		}
	}
	return true
}

// failOver requests a failover and returns nil once it has begun. force lets a cluster's replica skip the consent of its master.
func (p *replicated) failOver(ctx context.Context, force bool) error {
	if p.cluster != nil {
		return p.replace(ctx, force)
	}
	var err error
	for _, s := range p.sentinels {
		if err = s.client.Failover(ctx, masterName).Err(); err == nil {
			return nil
		}
	}
	return err
}

func (s *sentinel) stop() {
	if s.client != nil {
		_ = s.client.Close()
	}
	s.kill()
}

// watchEvery is the interval at which sentinels or the cluster are queried for the master.
const watchEvery = 50 * time.Millisecond

func (p *replicated) watch() {
	defer close(p.done)
	host.Every(watchEvery, p.stop, func() {
		m := p.named()
		p.mu.Lock()
		tell := p.switched
		changes := m != nil && m != p.master
		if changes {
			p.master = m
			p.redis.client.Store(m.client.Load())
		}
		p.mu.Unlock()
		if changes && tell != nil {
			tell(m)
		}
	})
}

// named returns the master according to the cluster or to most sentinels; nil if they disagree.
func (p *replicated) named() *member {
	if p.cluster != nil {
		return p.owner(p.voter())
	}
	votes := map[string]int{}
	for _, s := range p.sentinels {
		votes[s.says(context.Background())]++
	}
	for _, m := range p.members {
		if votes[m.router.Addr()] > sentinelCount/2 {
			return m
		}
	}
	return nil
}
