package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasestorm/leasestorm/internal/redisclient"
	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/real/stream"
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

// Info describes the Redis of a run.
type Info struct {
	Kind    string // "server", "container", "embedded", "url", "compose"; "model" in virtual time
	Version string // as Redis reports it, or "miniredis"
	Note    string // limits of this kind, "" for none
	Nodes   string // image of the nodes' containers, "" for processes
}

// Redis is the Redis of a run: started by Provision, or given and checked by it. Its methods are safe for concurrent use.
type Redis struct {
	Info
	url        *redis.Options // of raw, as nodes connect
	admin      *redis.Options // as the harness itself connects
	claimed    bool           // this run claimed the given database, and deletes its keys
	raw        string
	reaper     *process.Reaper
	folders    []string
	server     *server           // nil: kindEmbedded, kindURL; of several, the last one under a fault, guarded by turn
	engine     *container.Engine // nil: the run has no containers
	mini       *embedded
	platform   platform
	replicated *replicated // nil: Redis is one server
	stores     []*ownStore // stores that suffer its outages too, guarded by turn
	client     atomic.Pointer[redis.Client]
	lost       chan error // gets the reason why the run ends, such as ErrGone

	turn     chan struct{} // a lock, held while a fault acts on Redis or the workload writes
	commands atomic.Int64  // executed before restarts
}

func (c RedisChoice) shown() string {
	if c.URL != "" {
		return redisurl.Show(c.URL)
	}
	return c.Kind
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

// use makes raw, a valid URL, the Redis of this run.
func (r *Redis) use(raw string) {
	opts, _ := redis.ParseURL(raw)
	r.raw, r.url, r.admin = raw, opts, adminOptions(opts)
	if r.server != nil && r.Kind != kindCompose {
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
	r.Version = cmp.Or(fields["valkey_version"], fields["redis_version"])
	if r.Version == "" {
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

// URL returns the URL of Redis without its password.
func (r *Redis) URL() string { return redisurl.Show(r.raw) }

// gone returns ErrGone if Redis does not answer after every fault has been healed.
func (r *Redis) gone(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r.renewClient()
	if err := r.client.Load().Ping(ctx).Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %v; what the run shows is worth nothing", ErrGone, err)
	}
	return nil
}

// lose ends the run. Only the first reason given counts.
func (r *Redis) lose(why error) {
	select {
	case r.lost <- why:
	default:
	}
}

func (r *Redis) launchProcess(binary string) launcher {
	return func(_ context.Context, args []string, log *os.File) (process.Program, error) {
		cmd := exec.Command(binary, args...)
		cmd.Stdout, cmd.Stderr = log, log
		p, err := process.Start(r.reaper, cmd, "")
		if err != nil {
			return nil, err
		}
		return p, nil
	}
}

// own returns the harness's client of the server under the current fault. The caller has the turn.
func (r *Redis) own() *redis.Client {
	if r.replicated != nil {
		return r.replicated.of(r.server).client.Load()
	}
	return r.client.Load()
}

func (r *Redis) clients() []*redis.Client {
	if r.replicated == nil {
		return []*redis.Client{r.client.Load()}
	}
	var all []*redis.Client
	for _, m := range r.replicated.members {
		all = append(all, m.client.Load())
	}
	return all
}

func executedBy(ctx context.Context, client *redis.Client) int64 {
	info, err := client.Info(ctx, "stats").Result()
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(infoFields(info)["total_commands_processed"], 10, 64)
	return n
}

// executed returns how many commands all servers have executed over all restarts. A server that does not answer counts as 0.
func (r *Redis) executed(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	n := r.commands.Load()
	for _, client := range r.clients() {
		n += executedBy(ctx, client)
	}
	return n
}

// halt kills Redis. The caller has the turn.
func (r *Redis) halt(ctx context.Context) {
	if r.replicated == nil {
		r.commands.Store(r.executed(ctx))
	} else {
		r.commands.Add(executedBy(ctx, r.own()))
	}
	for _, s := range r.stores {
		s.kill()
	}
	if r.mini != nil {
		r.mini.halt()
		return
	}
	r.server.kill()
}

// erase deletes the data of a halted Redis. The caller has the turn.
func (r *Redis) erase() error {
	for _, s := range r.stores {
		if err := s.erase(); err != nil {
			return err
		}
	}
	if r.mini != nil {
		r.mini.m.FlushAll()
		return nil
	}
	return r.server.erase()
}

// resume starts a halted Redis and returns when it accepts commands. The caller has the turn.
func (r *Redis) resume(ctx context.Context, args ...string) error {
	defer r.renewClient()
	for _, s := range r.stores {
		if err := s.restart(ctx); err != nil {
			return err
		}
	}
	if r.mini != nil {
		return r.mini.resume()
	}
	var err error
	for range 3 { // another process may hold the port for a moment
		if err = r.server.start(ctx, args...); !errors.Is(err, redisfixture.ErrPortTaken) {
			break
		}
	}
	if err == nil && r.clustered() {
		r.replicated.awaitServing(ctx, r.replicated.of(r.server))
	}
	return err
}

// compact makes Redis rewrite its append-only file, so that loading takes one step per key. It returns the number of keys.
func (r *Redis) compact(ctx context.Context) (keys int64, err error) {
	client := r.own()
	if err := client.BgRewriteAOF(ctx).Err(); err != nil {
		return 0, err
	}
	if err := awaitFile(ctx, client); err != nil {
		return 0, err
	}
	return client.DBSize(ctx).Result()
}

func awaitFile(ctx context.Context, client *redis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, serverStart)
	defer cancel()
	return redisfixture.Await(ctx, func(ctx context.Context) bool {
		f := infoFields(client.Info(ctx, "persistence").Val())
		return f["aof_enabled"] == "1" && f["aof_rewrite_in_progress"] == "0" && f["aof_rewrite_scheduled"] == "0"
	})
}

func (r *Redis) take(done <-chan struct{}) bool {
	select {
	case r.turn <- struct{}{}:
		return true
	case <-done:
		return false
	}
}

func (r *Redis) give() { <-r.turn }

// turnWithin is how long a fault waits for its turn. It is longer than a write of the workload takes.
const turnWithin = 250 * time.Millisecond

// streamed returns the only server, for its stream.
func (r *Redis) streamed() stream.Server {
	return stream.Server{Admin: r.admin, Client: r.client.Load, Skewed: r.Kind == kindURL}
}

func (r *Redis) clustered() bool { return r.replicated != nil && r.replicated.cluster != nil }

// Kinds of entries that the reaper cleans up, besides processes.
const (
	reapDir     = "dir"     // a folder: removed with its content
	reapKeys    = "keys"    // a redis:// URL: the run's keys are deleted there
	reapProject = "project" // a compose project: its services run again and its toxiproxy is reset
	reapRun     = "run"     // a label's value: the containers and networks with it are removed
)
