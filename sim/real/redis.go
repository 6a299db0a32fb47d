package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/leasestorm/leasestorm/internal/redisclient"
	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
)

// Errors of Provision. Each is wrapped in a message that names the URL and the allowed values.
var (
	// ErrChoice: the choice of Redis contradicts itself or names something unknown.
	ErrChoice = errors.New("no such Redis")
	// ErrNoServer: neither redis-server nor valkey-server is in PATH, or the server does not start.
	ErrNoServer = errors.New("no Redis server")
	// ErrNoRedis: no Redis answers at the URL.
	ErrNoRedis = errors.New("no Redis answers")
	// ErrPassword: Redis wants a password or another one, or the user lacks rights that a run needs.
	ErrPassword = errors.New("Redis refuses the password")
	// ErrReplica: the URL is that of a replica, which refuses writes.
	ErrReplica = errors.New("read-only replica")
	// ErrTooOld: Redis is older than 6.2, or than 7.0 if it has replicas.
	ErrTooOld = errors.New("Redis too old")
	// ErrNotEmpty: the database holds keys of the run's patterns, or another storm uses it.
	ErrNotEmpty = errors.New("database in use")
	// ErrGone: Redis is gone or was away, and no fault of the plan took it.
	ErrGone = errors.New("Redis went away, and not by the plan")
)

const (
	kindServer    = "server"
	kindContainer = "container"
	kindEmbedded  = "embedded"
	kindURL       = "url"
	kindCompose   = "compose"
)

// RedisChoice selects the Redis of a run. Kind is "" (redis-server or valkey-server from PATH, else a container, else embedded),
// "server", "container", "embedded", "url" with URL, or "compose" with Project.
type RedisChoice struct {
	Kind, URL string
	Project   string             // compose project whose fleet is stormed
	Image     string             // of a container; "": RedisImage
	Pulling   func(image string) // called before an image is pulled; may be nil
	// Servers is the number of the run's own servers if they have replicas and sentinels; 0: one server without replicas.
	Servers int
	Cluster bool // the servers form a Redis Cluster, with Servers per shard
}

// Redis is the Redis of a run: started by Provision, or given and checked by it. Its methods are safe for concurrent use.
type Redis struct {
	kind       string
	version    string
	note       string
	url        *redis.Options // of raw, as nodes connect
	admin      *redis.Options // as the harness itself connects
	claimed    bool           // this run claimed the given database, and deletes its keys
	raw        string
	reaper     *process.Reaper
	folders    []string
	server     *server           // nil: kindEmbedded, kindURL; of several, the last one under a fault, guarded by turn
	engine     *container.Engine // nil: the run has no containers
	mini       *embedded
	site       site
	image      string      // image of the nodes' containers; "": nodes are processes
	replicated *replicated // nil: Redis is one server
	client     atomic.Pointer[redis.Client]
	lost       chan error // gets the reason why the run ends, such as ErrGone

	turn     chan struct{} // a lock, held while a fault acts on Redis or the workload writes
	commands atomic.Int64  // executed before restarts
}

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
	r := &Redis{kind: c.Kind, turn: make(chan struct{}, 1), lost: make(chan error, 1)}
	r.site = processes{r, loopback}
	if c.Servers > 0 {
		r.kind = kindServer
	}
	if r.kind == "" {
		r.choose(ctx, c)
	}
	var err error
	if r.reaper, err = process.StartReaper(); err != nil {
		return nil, err
	}
	switch r.kind {
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
	r.kind = kindServer
	if _, err := findServer(); err == nil {
		return
	}
	r.kind = kindContainer
	err := r.fetchRedis(ctx, c)
	if err == nil {
		return
	}
	r.kind = kindEmbedded
	r.note = fmt.Sprintf("no redis-server or valkey-server in PATH, and in a container none either (%v): the embedded Redis shows "+
		"the program at work, but not what Redis grants (G10), nor restarts with data, freezes or slow scripts of a real server", err)
}

func (c RedisChoice) shown() string {
	if c.URL != "" {
		return redisurl.Show(c.URL)
	}
	return c.Kind
}

func findServer() (string, error) {
	path, err := redisfixture.Find()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	return path, nil
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

func (r *Redis) process(binary, folder string) *server {
	return &server{
		daemon: daemon{lose: r.lose},
		binary: binary, dir: folder, launch: r.launchProcess(binary),
	}
}

// folder creates a folder for a server's data. The path is absolute, because the reaper works elsewhere and an engine requires it.
func (r *Redis) folder(dir string) (string, error) {
	dir, err := filepath.Abs(cmp.Or(dir, os.TempDir()))
	var folder string
	if err == nil {
		folder, err = os.MkdirTemp(dir, "redis-")
	}
	if err != nil {
		return "", fmt.Errorf("folder for redis-server: %w", err)
	}
	r.reaper.Add(reapDir, folder)
	r.folders = append(r.folders, folder)
	return folder, nil
}

func (r *Redis) provisionEmbedded() error {
	var err error
	if r.mini, err = startEmbedded(); err != nil {
		return err
	}
	r.use("redis://" + r.mini.addr())
	r.version = "miniredis"
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

// use makes raw, a valid URL, the Redis of this run.
func (r *Redis) use(raw string) {
	opts, _ := redis.ParseURL(raw)
	r.raw, r.url, r.admin = raw, opts, adminOptions(opts)
	if r.server != nil && r.kind != kindCompose {
		r.admin = harnessOptions(opts.Addr)
	}
	r.renewClient()
}

// renewClient replaces the harness's client, because after a restart an old one may wait before it dials again.
func (r *Redis) renewClient() {
	if r.replicated != nil {
		r.replicated.renew(r.server)
		return
	}
	if old := r.client.Swap(adminClient(r.admin)); old != nil {
		_ = old.Close()
	}
}

func adminClient(o *redis.Options) *redis.Client {
	c := redis.NewClient(o)
	c.AddHook(redisclient.Masking{})
	return c
}

// adminOptions returns the options of the harness's own connections: few, short timeouts, no retries, no extra commands.
func adminOptions(o *redis.Options) *redis.Options {
	return &redis.Options{
		Addr: o.Addr, Username: o.Username, Password: o.Password, DB: o.DB,
		Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true,
		DialTimeout: 2 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 5 * time.Second, PoolSize: 4, DialerRetries: 1,
	}
}

func harnessOptions(addr string) *redis.Options {
	return adminOptions(&redis.Options{Addr: addr, Username: harnessUser, Password: harnessPassword})
}

func (r *Redis) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	where := redisurl.Show(r.raw)
	info, err := r.client.Load().Info(ctx).Result()
	if err != nil {
		return explain(where, err)
	}
	if err := r.read(where, info); err != nil {
		return err
	}
	if err := r.client.Load().Eval(ctx, "return 1", nil).Err(); err != nil { // otherwise nodes would be blamed for the refusal
		return explain(where, err)
	}
	return nil
}

func (r *Redis) read(where, info string) error {
	fields := infoFields(info)
	r.version = cmp.Or(fields["valkey_version"], fields["redis_version"])
	if r.version == "" {
		return fmt.Errorf("%w at %s: its INFO names no version", ErrNoRedis, where)
	}
	major, minor := 6, 2
	if r.replicated != nil {
		major, minor = 7, 0
	}
	if !atLeast(fields["redis_version"], major, minor) {
		return fmt.Errorf("%w: %s runs %s, and %d.%d or newer is needed", ErrTooOld, where, fields["redis_version"], major, minor)
	}
	if fields["role"] == "slave" {
		return fmt.Errorf("%w: %s follows %s:%s and takes no writes; give its master's URL", ErrReplica, where,
			fields["master_host"], fields["master_port"])
	}
	return nil
}

func explain(where string, err error) error {
	text := err.Error()
	var dial *net.OpError
	switch {
	case strings.HasPrefix(text, "NOAUTH"):
		return fmt.Errorf("%w: %s wants one; give it in LEASESTORM_REDIS_PASSWORD or --redis-password-file", ErrPassword, where)
	case strings.HasPrefix(text, "WRONGPASS"), strings.HasPrefix(text, "ERR invalid password"),
		strings.HasPrefix(text, "ERR AUTH"):
		return fmt.Errorf("%w: %s: %v", ErrPassword, where, err)
	case strings.HasPrefix(text, "NOPERM"):
		return fmt.Errorf("%w: %s: the user may not do what a run needs: %v", ErrPassword, where, err)
	case strings.HasPrefix(text, "ERR unknown command"):
		return fmt.Errorf("%w: %s lacks a command that a run needs: %v", ErrChoice, where, err)
	case errors.As(err, &dial) && dial.Op == "dial":
		return fmt.Errorf("%w at %s: %v; is it running?", ErrNoRedis, where, err)
	case errors.Is(err, context.DeadlineExceeded), os.IsTimeout(err):
		return fmt.Errorf("%w at %s within 5 s: something listens there, but it is silent", ErrNoRedis, where)
	}
	return fmt.Errorf("%w at %s: %v", ErrNoRedis, where, err)
}

// infoFields parses the reply of INFO. If a name repeats, its first line counts.
func infoFields(info string) map[string]string {
	fields := map[string]string{}
	for l := range strings.SplitSeq(info, "\n") {
		if k, v, ok := strings.Cut(strings.TrimSpace(l), ":"); ok {
			if _, known := fields[k]; !known {
				fields[k] = v
			}
		}
	}
	return fields
}

func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return false
	}
	a, errA := strconv.Atoi(parts[0])
	b, errB := strconv.Atoi(parts[1])
	return errA == nil && errB == nil && (a > major || a == major && b >= minor)
}

// Kind returns "server", "container", "embedded", "url" or "compose".
func (r *Redis) Kind() string { return r.kind }

// Version returns the version that Redis reports, or "miniredis".
func (r *Redis) Version() string { return r.version }

// URL returns the URL of Redis without its password.
func (r *Redis) URL() string { return redisurl.Show(r.raw) }

// Note returns a remark on this Redis for the reader, or "".
func (r *Redis) Note() string { return r.note }

// Close stops the run's own servers and containers and removes their folders, deletes the run's keys from a given Redis, or heals a
// composed fleet. Call it once.
func (r *Redis) Close() error {
	var err error
	if r.kind == kindURL && r.claimed {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		if _, err = deleteRunKeys(ctx, r.client.Load()); err != nil {
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
	switch c, ok := r.site.(*composed); {
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

// gone returns ErrGone if Redis does not answer although every fault is healed.
func (r *Redis) gone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.renewClient()
	if err := r.client.Load().Ping(ctx).Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %v; what the run shows is worth nothing", ErrGone, err)
	}
	return nil
}

// loopback is the address on which everything listens, unless nodes run in containers.
var loopback = redisfixture.Loopback
