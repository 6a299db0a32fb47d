package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisurl"
	"github.com/leasestorm/leasestorm/sim/real/host"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/redis/go-redis/v9/logging"
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
