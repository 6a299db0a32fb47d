package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// Provision starts a Redis or checks a given one. It creates the folders of its servers in dir ("": in memory if there is room, otherwise
// the system's temporary folder), and Close removes them. Errors wrap an error variable of this package. From then on,
// go-redis logs nothing in this process.
func Provision(ctx context.Context, c RedisChoice, dir string) (*Redis, error) {
	if c.URL != "" && c.Kind != kindURL {
		return nil, fmt.Errorf("%w: a URL is given, but the kind is %q instead of \"url\"", ErrChoice, c.Kind)
	}
	if c.Servers > 0 && c.Kind != "" && c.Kind != kindServer {
		return nil, fmt.Errorf("%w: %s: of several servers all are processes of the simulator's own: leave --redis out, "+
			"or give server", ErrChoice, c.shown())
	}
	logging.Disable() // it would log each connection that the plan breaks
	r := &Redis{Info: Info{Kind: c.Kind}, turn: make(chan struct{}, 1), lost: make(chan error, 1)}
	r.platform = processes{r, loopback}
	if c.Servers > 0 {
		r.Kind = kindServer
	}
	if r.Kind == "" {
		r.choose(ctx, c)
	}
	var err error
	if r.reaper, err = process.StartReaper(); err != nil {
		return nil, err
	}
	switch r.Kind {
	case kindServer:
		if c.Servers > 0 {
			err = r.provisionReplicated(ctx, c, dir)
			break
		}
		err = r.provisionServer(ctx, dir)
	case kindContainer:
		err = r.provisionContainer(ctx, c, dir)
	case kindEmbedded:
		err = r.provisionEmbedded()
	case kindCompose:
		err = r.provisionCompose(ctx, c.Project, dir)
	case kindURL:
		err = r.provisionURL(ctx, c.URL)
	default:
		err = fmt.Errorf("%w: %q: allowed are server, container, embedded, or a redis:// URL", ErrChoice, c.Kind)
	}
	if err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Redis) choose(ctx context.Context, c RedisChoice) {
	r.Kind = kindServer
	if _, err := findServer(); err == nil {
		return
	}
	r.Kind = kindContainer
	err := r.fetchRedis(ctx, c)
	if err == nil {
		return
	}
	r.Kind = kindEmbedded
	r.Note = fmt.Sprintf("no redis-server or valkey-server in PATH, and in a container none either (%v): the embedded Redis shows "+
		"the program at work, but not what Redis grants (G10), nor restarts with data, freezes or slow scripts of a real server", err)
}

func (r *Redis) provisionServer(ctx context.Context, dir string) error {
	binary, err := findServer()
	if err != nil {
		return fmt.Errorf("%w; install one, give a redis:// URL, or choose embedded", err)
	}
	folder, err := r.folder(cmp.Or(dir, host.Memory()))
	if err != nil {
		return err
	}
	r.server = r.process(binary, folder)
	if err := r.server.first(ctx); err != nil {
		return err
	}
	r.use("redis://" + r.server.addr)
	return r.check(ctx)
}

func (r *Redis) provisionEmbedded() error {
	var err error
	if r.mini, err = startEmbedded(); err != nil {
		return err
	}
	r.use("redis://" + r.mini.addr())
	r.Version = "miniredis"
	return nil
}

func (r *Redis) provisionURL(ctx context.Context, raw string) error {
	opts, err := redisurl.Parse(raw)
	switch {
	case err != nil:
		return fmt.Errorf("%w: --redis is %w", ErrChoice, err)
	case opts.Network != "tcp" || opts.TLSConfig != nil:
		return fmt.Errorf("%w: %s: nodes reach Redis through TCP proxies, so that only redis:// URLs can be used",
			ErrChoice, redisurl.Show(raw))
	}
	r.use(raw)
	if err := r.check(ctx); err != nil {
		return err
	}
	return r.claim(ctx)
}

// Close stops the run's own servers and containers and removes their folders, deletes the run's keys from a given Redis, or heals a
// composed fleet. Call it once.
func (r *Redis) Close() error {
	var err error
	if r.Kind == kindURL && r.claimed {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if err = deleteRunKeys(ctx, r.client.Load()); err != nil {
			err = fmt.Errorf("keys of the run (%s) remain at %s: %w", strings.Join(runPatterns, " "), r.URL(), err)
		}
		cancel()
		r.claimed = false
		r.reaper.Drop(reapKeys, r.raw)
	}
	if c := r.client.Swap(nil); c != nil {
		_ = c.Close()
	}
	if r.engine != nil {
		if err = r.engine.Remove(); err == nil { // otherwise the reaper retries
			r.reaper.Drop(reapRun, r.engine.Run)
		}
	}
	switch c, ok := r.platform.(*composed); {
	case r.replicated != nil:
		r.replicated.close()
		r.replicated, r.server = nil, nil
	case ok:
		err = errors.Join(err, c.close())
	case r.server != nil:
		r.server.stop()
	}
	for _, folder := range r.folders {
		if e := os.RemoveAll(folder); e != nil {
			err = fmt.Errorf("folder of redis-server: %w", e)
		} else { // otherwise the reaper retries
			r.reaper.Drop(reapDir, folder)
		}
	}
	if r.engine != nil {
		_ = r.engine.Close()
	}
	if r.mini != nil {
		r.mini.close()
	}
	r.reaper.Close()
	return err
}

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
	d, err := proxy.NewRouter(p.abort)
	if err != nil {
		return err
	}
	from := loopback.As4()
	from[3] = byte(sourceHost + number)
	m := &member{
		number: number, name: fmt.Sprintf("server %d", number), router: d, from: netip.AddrFrom4(from),
		server: p.redis.process(binary, folder),
	}
	if p.cluster != nil {
		m.shard = (number - 1) / p.cluster.Size
		if m.bus, err = newBus(p.cluster, p.abort); err != nil {
			return err
		}
	}
	m.conf = m.writeConf
	m.Client, m.Port = m.client.Load, m.router.Port()
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
	for _, to := range p.members {
		if err := p.joinServer(to); err != nil {
			return err
		}
		to.router.Open()
		if to.bus != nil {
			to.bus.Open()
		}
	}
	return nil
}

// joinServer makes the proxies through which the other servers and the sentinels reach a server.
func (p *replicated) joinServer(to *member) (err error) {
	through := func(name string, stream int) (*proxy.Proxy, error) {
		return proxy.New(name+" to "+to.name, loopback, to.addr, 0, uint64(stream), p.abort)
	}
	for _, from := range p.members {
		if from == to {
			continue
		}
		if to.router.Servers[from.from], err = through(from.name, from.number); err != nil {
			return err
		}
		if to.bus != nil {
			if err = to.bus.join(from, to, p.abort); err != nil {
				return err
			}
		}
	}
	to.router.Sentinel, err = through("sentinels", 0)
	return err
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
		m.router.Close()
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

// claimKey exists while a run uses a given database, so that a concurrent run finds it.
const claimKey = "poll:storm"

const (
	usedWithin  = time.Minute    // enough to scan all keys of a large database
	claimWithin = 2 * usedWithin // TTL of a claim until the database is known to be unused
	unclaim     = 5 * time.Second
)

// claim claims a given database for this run, or returns why it cannot. Only a claimed database may be cleaned.
func (r *Redis) claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, usedWithin)
	defer cancel()
	where, client := redisurl.Show(r.raw), r.client.Load()
	ours, err := client.SetNX(ctx, claimKey, os.Getpid(), claimWithin).Result()
	if err != nil {
		return explain(where, err)
	}
	if !ours {
		return fmt.Errorf("%w: another storm plays at %s, or was killed there and left %q; give another database, or remove the keys "+
			"like %s once no storm plays there", ErrNotEmpty, where, claimKey, strings.Join(runPatterns, " "))
	}
	if err := refuseUsed(ctx, r); err != nil {
		back, cancel := context.WithTimeout(context.WithoutCancel(ctx), unclaim)
		defer cancel()
		_ = client.Del(back, claimKey).Err() // if this fails, the claim expires
		return err
	}
	r.claimed = true
	r.reaper.Add(reapKeys, r.raw)
	if err := client.Set(ctx, claimKey, os.Getpid(), 0).Err(); err != nil {
		return explain(where, err)
	}
	return nil
}

func refuseUsed(ctx context.Context, r *Redis) error {
	for _, pattern := range runPatterns {
		it := r.client.Load().Scan(ctx, 0, pattern, 1000).Iterator()
		for it.Next(ctx) {
			if it.Val() != claimKey {
				return fmt.Errorf("%w: %s already holds keys like %.100q, and a run uses (and at its end removes) %s; "+
					"give an empty database", ErrNotEmpty, redisurl.Show(r.raw), it.Val(), strings.Join(runPatterns, " "))
			}
		}
		if err := it.Err(); err != nil {
			return explain(redisurl.Show(r.raw), err)
		}
	}
	return nil
}

// deleteRunKeys deletes a run's keys. It deletes the claim last: otherwise a new storm could claim the database and lose its own keys.
func deleteRunKeys(ctx context.Context, c *redis.Client) error {
	for _, pattern := range runPatterns {
		if err := deleteKeys(ctx, c, pattern); err != nil {
			return err
		}
	}
	return c.Unlink(ctx, claimKey).Err()
}

// deleteKeys deletes the keys that match the pattern, except the claim.
func deleteKeys(ctx context.Context, c *redis.Client, pattern string) (err error) {
	for cursor, more := uint64(0), true; more; more = cursor != 0 {
		var keys []string
		if keys, cursor, err = c.Scan(ctx, cursor, pattern, 1000).Result(); err != nil {
			return err
		}
		if keys = slices.DeleteFunc(keys, func(key string) bool { return key == claimKey }); len(keys) == 0 {
			continue
		}
		if err = c.Unlink(ctx, keys...).Err(); err != nil {
			return err
		}
	}
	return nil
}

// ReaperMain must be called first in main. It returns at once, except in a stall meter's container and in the reaper, which cleans up after
// the simulator's end and exits. Without this call, children still die with a killed simulator (Linux), but folders, keys and containers
// stay.
func ReaperMain() {
	if len(os.Args) == 2 && os.Args[1] == meterArg {
		end, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		host.MeterStalls(meterBoxEvery, host.Monotonic, end.Done(), func(from, to int64) { fmt.Println(from, to) })
		stop()
		os.Exit(0)
	}
	process.ReaperMain(cleaners()...)
}

// cleaners remove containers before their folders.
func cleaners() []process.Cleaner {
	return []process.Cleaner{
		{Kind: reapProject, Clean: healProject}, {Kind: reapRun, Clean: removeContainers}, {Kind: reapDir, Clean: removeFolder},
		{Kind: reapKeys, Clean: deleteKeysAt},
	}
}

func healProject(project string) {
	if r, err := Provision(context.Background(), RedisChoice{Kind: kindCompose, Project: project}, ""); err == nil {
		_ = r.Close()
	}
}

func removeContainers(run string) {
	if e, err := container.Find(context.Background(), nil); err == nil {
		e.Run = run
		_ = e.Remove()
	}
}

func removeFolder(dir string) {
	// A process that was just killed may still be writing its last file.
	for range 20 {
		if os.RemoveAll(dir) == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func deleteKeysAt(url string) {
	opts, err := redis.ParseURL(url)
	if err != nil {
		return
	}
	c := adminClient(adminOptions(opts))
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	_ = deleteRunKeys(ctx, c)
	cancel()
	_ = c.Close()
}
