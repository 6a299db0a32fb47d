package real

import (
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
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// replicated is the run's own Redis with replicas: one master, replicas and sentinels, or a Redis Cluster. The sentinels or the
// cluster choose the master of the leases. A deposed master may still act as a master until it learns of the failover.
type replicated struct {
	redis     *Redis
	members   []*member
	sentinels []*sentinel
	cluster   *cluster                    // nil: no cluster
	short     atomic.Pointer[func(error)] // as short in proxy.New

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
	router *proxy.Router
	bus    *bus                         // nil: no cluster
	shard  int                          // index of its shard, in a cluster
	client atomic.Pointer[redis.Client] // the harness's own
	redisfixture.Node

	fault sync.Mutex // held by the fault that acts on its process
	zone  int        // guarded by replicated.mu
}

// sourceHost plus a server's number is the last byte of its source address.
const sourceHost = 10

// writeConf writes the server's settings. It keeps the master that Sentinel or the harness wrote there (CONFIG REWRITE).
func (m *member) writeConf() (string, error) {
	file := filepath.Join(m.dir, "redis.conf")
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	text := fmt.Sprintf("replica-announce-ip %s\nreplica-announce-port %d\nbind-source-addr %s\n"+
		"repl-ping-replica-period 1\nrepl-timeout 5\n", loopback, m.router.Port(), m.from)
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
	if err := c.ReplicaOf(ctx, loopback.String(), fmt.Sprint(of.router.Port())).Err(); err != nil {
		return err
	}
	return c.ConfigRewrite(ctx).Err()
}

// role returns the server's role in its own view, and the address of its master; "" if it does not answer.
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

// comesFrom returns the proxies through which another server reaches m; none if the other server is m itself.
func (m *member) comesFrom(other *member) []*proxy.Proxy {
	if m == other {
		return nil
	}
	lines := []*proxy.Proxy{m.router.Servers[other.from]}
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

func (p *replicated) abort(err error) {
	if tell := p.short.Load(); tell != nil {
		(*tell)(err)
	}
}

func apart(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: servers, and sentinels, do not find each other (connections of servers come from 127.0.0.%d and on, "+
		"which this system may not have): %w", ErrNoServer, sourceHost+1, err)
}

func (p *replicated) present() *member {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.master
}

// hear sets a run's callbacks: short as in proxy.New, and switched, called for each new master unless nil.
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

// zones are network partitions, by number. The sentinels are in zone 0.
type zones struct {
	held map[int]bool // zones whose traffic waits for their end; all others reset connections and refuse new ones
}

// cluster turns a replicated Redis into a Redis Cluster: two shards, one with the leases' slot, and a third master that only votes.
type cluster struct {
	redisfixture.Cluster
	timeout atomic.Int64 // cluster-node-timeout, in milliseconds
	marks   [2]string    // one key per shard whose slot never moves, for the marks of streams
}

// bus is the cluster-bus address of a server. Like a router, it has one proxy per peer; it refuses all other connections.
type bus struct {
	*proxy.Router
	*cluster
}

type sentinel struct {
	daemon
	addr   string
	client *redis.SentinelClient
}

const masterName = "storm"

const (
	sentinelCount = 3
	// sentinelDown is the silence after which a sentinel considers a server down. sentinelRetry is the pause between failovers.
	sentinelDown  = time.Second
	sentinelRetry = 2 * time.Second
	// sentinelAnswer bounds a query to a sentinel or a server, which may be frozen.
	sentinelAnswer = 500 * time.Millisecond
)

func (m *member) serves(ctx context.Context) bool { return m.bus == nil || m.Serves(ctx) }

func (m *member) busPort() uint16 {
	at, _ := netip.ParseAddrPort(m.addr)
	return at.Port() + redisfixture.BusOffset
}

func (p *replicated) voter() *member { return p.members[len(p.members)-1] }

// nodeTimeout is the least cluster-node-timeout: after this silence a server considers another one failed. A run may draw more.
const nodeTimeout = sentinelDown

const streamServers = 1 << 32

// save saves the server's data for reload, under a name that a later synchronization with a master does not overwrite.
func (m *member) save(ctx context.Context) error {
	if err := m.client.Load().Save(ctx).Err(); err != nil {
		return err
	}
	return os.Rename(filepath.Join(m.dir, dumpFile), filepath.Join(m.dir, savedFile))
}

// reload starts a killed server from its saved dump, without an append-only file: only a dump has the replication offset.
func (m *member) reload(ctx context.Context) error {
	if err := m.erase(); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(m.dir, savedFile), filepath.Join(m.dir, dumpFile)); err != nil {
		return err
	}
	return m.start(ctx, "--appendonly", "no")
}

func (m *member) appendAgain(ctx context.Context) error {
	c := m.client.Load()
	if err := c.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
		return err
	}
	if err := awaitFile(ctx, c); err != nil {
		return fmt.Errorf("%s does not append to its file: %w", m.name, err)
	}
	return nil
}

func (m *member) clusterConf() string {
	return fmt.Sprintf("cluster-enabled yes\ncluster-config-file nodes.conf\ncluster-announce-ip %s\ncluster-announce-port %d\n"+
		"cluster-announce-bus-port %d\ncluster-node-timeout %d\ncluster-allow-replica-migration no\n"+
		"cluster-require-full-coverage no\ncluster-replica-validity-factor 0\n",
		loopback, m.Port, m.Bus, m.bus.timeout.Load())
}

func (p *replicated) awaitServing(ctx context.Context, m *member) {
	p.renew(m.server)
	ctx, cancel := context.WithTimeout(ctx, servesWithin)
	defer cancel()
	_ = redisfixture.Await(ctx, m.serves)
}

// servesWithin is longer than the 2 s in which a server that has just started refuses to serve.
const servesWithin = 4 * time.Second
