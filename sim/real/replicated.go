package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// replicated is the run's own Redis with replicas: one master, replicas and sentinels, or a Redis Cluster. The sentinels or the cluster
// choose the master of the leases. A deposed master may act as one until it notices.
type replicated struct {
	redis     *Redis
	members   []*member
	sentinels []*sentinel
	cluster   *cluster                    // nil: no cluster
	short     atomic.Pointer[func(error)] // gate.short of the run

	stop chan struct{}
	done chan struct{}

	settling sync.RWMutex // held while a shard learns of a moved slot; zones do not change then

	mu       sync.Mutex
	master   *member
	switched func(*member) // called for each new master; may be nil
	zones    zones
}

type member struct {
	*server
	number int // from 1
	name   string
	from   netip.Addr // source address of its connections to other servers
	door   *proxy.Router
	bus    *bus                         // nil: no cluster
	shard  int                          // index of its shard, in a cluster
	client atomic.Pointer[redis.Client] // the harness's own
	redisfixture.Node

	hand sync.Mutex // held by the fault that acts on its process
	zone int        // guarded by replicated.mu
}

// sourceHost plus a server's number is the last byte of its source address.
const sourceHost = 10

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

// writeConf writes the server's settings. It keeps the master that Sentinel or the harness wrote there (CONFIG REWRITE).
func (m *member) writeConf() (string, error) {
	file := filepath.Join(m.dir, "redis.conf")
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	text := fmt.Sprintf("replica-announce-ip %s\nreplica-announce-port %d\nbind-source-addr %s\n"+
		"repl-ping-replica-period 1\nrepl-timeout 5\n", loopback, m.door.Port(), m.from)
	if m.bus != nil {
		return file, os.WriteFile(file, []byte(text+m.clusterConf()), 0o600)
	}
	for l := range strings.Lines(string(before)) {
		if strings.HasPrefix(l, "replicaof ") {
			text += l
		}
	}
	return file, os.WriteFile(file, []byte(text), 0o600)
}

func (m *member) renew() {
	if old := m.client.Swap(adminClient(harnessOptions(m.addr))); old != nil {
		_ = old.Close()
	}
}

// followNow makes m a replica of another server, also after restarts.
func (m *member) followNow(ctx context.Context, of *member) error {
	c := m.client.Load()
	if of.bus != nil {
		return c.ClusterReplicate(ctx, of.ID).Err()
	}
	if err := c.ReplicaOf(ctx, loopback.String(), fmt.Sprint(of.door.Port())).Err(); err != nil {
		return err
	}
	return c.ConfigRewrite(ctx).Err()
}

// role returns the server's role in its own view, and the door of its master; "" if it does not answer.
func (m *member) role(ctx context.Context) (role, of string) {
	client := m.client.Load()
	if client == nil { // it was not started yet
		return "", ""
	}
	ctx, cancel := context.WithTimeout(ctx, sentinelAnswer)
	defer cancel()
	text, err := client.Info(ctx, "replication").Result()
	if err != nil {
		return "", ""
	}
	f := infoFields(text)
	return f["role"], f["master_host"] + ":" + f["master_port"]
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

// comesFrom returns the lines through which another server reaches m; none if that is m itself.
func (m *member) comesFrom(other *member) []*proxy.Proxy {
	if m == other {
		return nil
	}
	lines := []*proxy.Proxy{m.door.Servers[other.from]}
	if m.bus != nil {
		lines = append(lines, m.bus.Servers[other.from])
	}
	return lines
}

// shard returns the servers that may hold the leases: all, or one shard of a cluster.
func (p *replicated) shard() []*member {
	master := p.present()
	return slices.DeleteFunc(slices.Clone(p.members), func(m *member) bool { return m.shard != master.shard })
}

func (p *replicated) starve(err error) {
	if tell := p.short.Load(); tell != nil {
		(*tell)(err)
	}
}

func (p *replicated) settle(ctx context.Context, so func(context.Context) bool) error {
	return apart(redisfixture.Await(ctx, so))
}

func apart(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: servers, and sentinels, do not find each other (connections of servers come from 127.0.0.%d and on, "+
		"which this system may not have): %w", ErrNoServer, sourceHost+1, err)
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

// named returns the master according to the cluster or most sentinels; nil: they disagree.
func (p *replicated) named() *member {
	if p.cluster != nil {
		return p.owner(p.voter())
	}
	votes := map[string]int{}
	for _, s := range p.sentinels {
		votes[s.says(context.Background())]++
	}
	for _, m := range p.members {
		if votes[m.door.Addr()] > sentinelCount/2 {
			return m
		}
	}
	return nil
}

func (p *replicated) present() *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.master
}

// hear sets a run's callbacks: short as in gate.short, and switched, called for each new master unless nil.
func (p *replicated) hear(short func(error), switched func(*member)) {
	p.short.Store(&short)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.switched = switched
}

func (p *replicated) renew(of *server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.of(of)
	m.renew()
	if m == p.master {
		p.redis.client.Store(m.client.Load())
	}
}

func (p *replicated) of(s *server) *member {
	return p.members[slices.IndexFunc(p.members, func(m *member) bool { return m.server == s })]
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
