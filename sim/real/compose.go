package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"

	toxics "github.com/Shopify/toxiproxy/v2/client"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
	"github.com/leasestorm/leasestorm/sim/real/target"
)

// ErrProject: the compose project cannot be stormed; the message names the missing service or the setting that differs.
var ErrProject = errors.New("compose project cannot be stormed")

const (
	serviceRedis  = "redis"
	serviceProxy  = "toxiproxy"
	serviceTarget = "target"
)

// composed is the fleet of a compose project. A storm controls its containers through the engine and its network through its toxiproxy.
type composed struct {
	redis    *Redis
	project  string
	services map[string]*container.Container
	nodes    []*container.Container
	proxy    *toxics.Client
	claim    net.Listener // held by the fleet's only storm
}

func (r *Redis) provisionCompose(ctx context.Context, project, dir string) error {
	c, err := r.findComposed(ctx, project)
	if err != nil {
		return err
	}
	r.platform, r.image = c, c.nodes[0].Spec.Image
	r.reaper.Add(reapProject, project)
	if err := c.heal(ctx); err != nil {
		return err
	}
	redis := c.services[serviceRedis]
	addr, err := c.reach(ctx, redis, "6379")
	if err != nil {
		return err
	}
	folder, err := r.folder(dir)
	if err != nil {
		return err
	}
	r.server = r.process("redis of "+project, folder)
	r.server.addr = addr
	r.server.launch = func(_ context.Context, _ []string, log *os.File) (process.Program, error) {
		return startServer(redis, log.Name())
	}
	if r.server.proc, err = startServer(redis, r.server.logFile()); err != nil {
		return err
	}
	r.server.serves(r.server.binary)
	r.use("redis://" + addr)
	// mend may just have started it.
	err = redisfixture.Await(ctx, func(ctx context.Context) bool { return r.client.Load().Ping(ctx).Err() == nil })
	return cmp.Or(err, r.check(ctx))
}

func (r *Redis) findComposed(ctx context.Context, project string) (*composed, error) {
	if err := r.findEngine(ctx); err != nil {
		return nil, err
	}
	services, err := r.engine.Project(ctx, project)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{serviceRedis, serviceProxy, serviceTarget, fault.NodeTarget(1)} {
		if services[name] == nil {
			return nil, fmt.Errorf("%w: there is no container of service %q in project %q: start docker/compose.yaml of this version, whose "+
				"project is \"docker\" unless it is given another name", ErrProject, name, project)
		}
	}
	c := &composed{redis: r, project: project, services: services}
	for name, s := range services {
		if _, ok := fault.NodeIndex(name); ok {
			c.nodes = append(c.nodes, s)
		}
	}
	at, err := c.reach(ctx, services[serviceProxy], "8474")
	if err != nil {
		return nil, err
	}
	c.proxy = toxics.NewClient(at)
	// The kernel releases the claim when this process ends. All processes that can storm the fleet share this network namespace.
	if c.claim, err = net.Listen("unix", "@leasestorm-"+services[serviceProxy].GetContainerID()); err != nil {
		return nil, fmt.Errorf("%w: another storm is over %q: wait for its end (%w)", ErrProject, project, err)
	}
	return c, nil
}

func (c *composed) reach(ctx context.Context, s *container.Container, port string) (string, error) {
	all, err := s.ContainerIPs(ctx)
	if err != nil || len(all) == 0 {
		return "", fmt.Errorf("%w: service %q of %q: %w", ErrProject, s.Spec.Name, c.project, cmp.Or(err, errors.New("it does not run")))
	}
	return net.JoinHostPort(all[0], port), nil
}

func (c *composed) heal(ctx context.Context) error {
	if err := proxy.Within(c.proxy.ResetState); err != nil {
		return fmt.Errorf("%w: toxiproxy of %q, whose networks are reached from this machine, or from a container with network_mode: host: %w",
			ErrProject, c.project, err)
	}
	return each(append(slices.Clone(c.nodes), c.services[serviceRedis], c.services[serviceTarget]), func(s *container.Container) error {
		_ = s.Unpause()
		return s.Container.Start(ctx)
	})
}

func each(all []*container.Container, f func(*container.Container) error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, s := range all {
		group.Go(func() { errs[i] = f(s) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (c *composed) close() error {
	err := c.heal(context.Background())
	if c.redis.server != nil && c.redis.server.proc != nil {
		c.redis.server.proc.(contained).Detach()
	}
	_ = c.claim.Close()
	if err == nil {
		c.redis.reaper.Drop(reapProject, c.project)
	}
	return err
}

func (c *composed) fits(ctx context.Context, cfg *Config) error {
	for _, node := range c.nodes {
		s, err := node.Inspect(ctx)
		if err != nil {
			return err
		}
		for _, setting := range append(cfg.timings(), cfg.NodeEnv...) {
			if !slices.Contains(s.Config.Env, setting) {
				return fmt.Errorf("%w: %q of %q runs without %s, which the storm has: storm docker/compose.yaml of this version with the "+
					"timings of docker/storm.yaml, or give both the same", ErrProject, node.Spec.Name, c.project, setting)
			}
		}
	}
	return nil
}

func (c *composed) open(s *slot, _ uint64) error {
	p, err := c.proxy.Proxy(s.name)
	if err == nil {
		s.conn, err = proxy.NewRemote(p)
	}
	if err != nil {
		err = fmt.Errorf("%w: proxy %q of %q's toxiproxy: %w", ErrProject, s.name, c.project, err)
	}
	return err
}

func (c *composed) launch(s *slot, stdout, stderr *os.File) (process.Program, error) {
	return startContainer(c.services[s.name], stdout, stderr)
}

// witness stops all nodes, so that the history begins without any, and reads the log of the fleet's target.
func (c *composed) witness(ctx context.Context, r *run) (*target.Target, error) {
	if err := c.fits(ctx, &r.cfg); err != nil {
		return nil, err
	}
	if err := each(c.nodes, func(s *container.Container) error { return s.Stop(ctx, nil) }); err != nil {
		return nil, err
	}
	out, in := io.Pipe()
	running, err := c.services[serviceTarget].Start(in, in)
	if err != nil {
		return nil, err
	}
	return target.Follow(out, r.clock, r.rec, r.polled, running.Detach, func() {
		c.redis.lose(fmt.Errorf("container lost: the target of %q ended, and nobody sees what is polled", c.project))
	}), nil
}
