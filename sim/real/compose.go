package real

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"

	toxics "github.com/Shopify/toxiproxy/v2/client"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/history"
)

// ErrProject: a compose project is not a fleet that can be stormed; the message says what is missing or set otherwise.
var ErrProject = errors.New("compose project cannot be stormed")

// Services of a composed fleet (docker/compose.yaml); its nodes are named as slots are.
const (
	serviceRedis  = "redis"
	serviceProxy  = "toxiproxy"
	serviceTarget = "target"
	portRedis     = "6379"
	portProxy     = "8474"
)

// composed is a fleet of a compose project. It is stormed from outside: its containers by the engine, its network by its toxiproxy.
type composed struct {
	redis    *Redis
	project  string
	services map[string]*container.Container
	proxy    *toxics.Client
	claim    net.Listener // there is one storm over a fleet
}

// provisionCompose finds the fleet of a compose project, and mends it.
func (r *Redis) provisionCompose(ctx context.Context, project, dir string) error {
	c, err := r.findComposed(ctx, project)
	if err != nil {
		return err
	}
	r.site, r.image = c, c.services[fault.NodeTarget(1)].Image
	r.reaper.add(reapProject, project)
	if err := c.mend(ctx); err != nil {
		return err
	}
	redis := c.services[serviceRedis]
	addr, err := c.reach(ctx, redis, portRedis)
	if err != nil {
		return err
	}
	folder, err := r.folder(dir)
	if err != nil {
		return err
	}
	r.server = &server{
		daemon: daemon{lose: r.lose}, binary: "redis of " + project, dir: folder, addr: addr,
		launch: func(_ context.Context, _ []string, log *os.File) (program, error) {
			return startServer(redis, log.Name())
		},
	}
	if r.server.proc, err = startServer(redis, r.server.logFile()); err != nil {
		return err
	}
	r.server.serves(r.server.binary)
	r.use("redis://" + addr)
	// It may have been down.
	err = redisfixture.Await(ctx, func(ctx context.Context) bool { return r.client.Load().Ping(ctx).Err() == nil })
	return cmp.Or(err, r.check(ctx))
}

// findComposed finds a fleet and claims it. It touches nothing.
func (r *Redis) findComposed(ctx context.Context, project string) (*composed, error) {
	if err := r.findEngine(ctx); err != nil {
		return nil, err
	}
	services, err := r.engine.Project(ctx, project)
	if err != nil {
		return nil, err
	}
	if len(services) == 0 {
		return nil, fmt.Errorf("%w: there are no containers of %q: start docker/compose.yaml, whose project is \"docker\" unless it is "+
			"given another name", ErrProject, project)
	}
	for _, name := range []string{serviceRedis, serviceProxy, serviceTarget, fault.NodeTarget(1)} {
		if services[name] == nil {
			return nil, fmt.Errorf("%w: %q has no service %q: start docker/compose.yaml as it is in this version", ErrProject, project, name)
		}
	}
	c := &composed{redis: r, project: project, services: services}
	at, err := c.reach(ctx, services[serviceProxy], portProxy)
	if err != nil {
		return nil, err
	}
	c.proxy = toxics.NewClient(at)
	// The kernel gives up a claim with the process that holds it, however that ends. All who can storm the fleet share this network namespace.
	if c.claim, err = net.Listen("unix", "@leasestorm-"+services[serviceProxy].GetContainerID()); err != nil {
		return nil, fmt.Errorf("%w: another storm is over %q: wait for its end (%w)", ErrProject, project, err)
	}
	return c, nil
}

// reach returns where this program reaches a service.
func (c *composed) reach(ctx context.Context, s *container.Container, port string) (string, error) {
	all, err := s.ContainerIPs(ctx)
	if err == nil && len(all) == 0 {
		err = errors.New("it does not run")
	}
	if err != nil {
		return "", fmt.Errorf("%w: service %q of %q: %w", ErrProject, s.Name, c.project, err)
	}
	return net.JoinHostPort(all[0], port), nil
}

// mend has everything run as a fleet should: what is stopped, frozen or cut off goes on.
func (c *composed) mend(ctx context.Context) error {
	if err := within(c.proxy.ResetState); err != nil {
		return fmt.Errorf("%w: toxiproxy of %q, whose networks are reached from this machine, or from a container with network_mode: host: %w",
			ErrProject, c.project, err)
	}
	return each(append(c.nodes(), c.services[serviceRedis], c.services[serviceTarget]), func(s *container.Container) error {
		_ = s.Unpause()
		return s.Container.Start(ctx)
	})
}

func (c *composed) nodes() (all []*container.Container) {
	for name, s := range c.services {
		if _, ok := fault.NodeIndex(name); ok {
			all = append(all, s)
		}
	}
	return all
}

// each calls f for all at once.
func each(all []*container.Container, f func(*container.Container) error) error {
	errs := make([]error, len(all))
	var group sync.WaitGroup
	for i, s := range all {
		group.Go(func() { errs[i] = f(s) })
	}
	group.Wait()
	return errors.Join(errs...)
}

// close leaves the fleet to itself.
func (c *composed) close() error {
	err := c.mend(context.Background())
	if c.redis.server != nil && c.redis.server.proc != nil {
		c.redis.server.proc.(box).Detach()
	}
	_ = c.claim.Close()
	if err == nil {
		c.redis.reaper.drop(reapProject, c.project)
	}
	return err
}

// fits wants the fleet to be the one that is judged: as many sessions and nodes, with those timings.
func (c *composed) fits(ctx context.Context, cfg *Config) error {
	ids, err := c.redis.sessions(ctx)
	if err != nil {
		return err
	}
	for _, n := range []struct {
		what       string
		has, wants int
	}{{"sessions", len(ids), cfg.Sessions}, {"nodes", len(c.nodes()), cfg.Nodes}} {
		if n.has != n.wants {
			return fmt.Errorf("%w: %q has %d %s: give --%[4]s %[3]d, or --scenario docker/storm.yaml", ErrProject, c.project, n.has, n.what)
		}
	}
	for _, node := range c.nodes() {
		s, err := node.Inspect(ctx)
		if err != nil {
			return err
		}
		for _, setting := range append(cfg.timings(), cfg.NodeEnv...) {
			if !slices.Contains(s.Config.Env, setting) {
				return fmt.Errorf("%w: %q of %q runs without %s, which the storm has: storm docker/compose.yaml of this version with the "+
					"timings of docker/storm.yaml, or give both the same", ErrProject, node.Name, c.project, setting)
			}
		}
	}
	return nil
}

// open implements site.
func (c *composed) open(s *slot, _ uint64) error {
	p, err := c.proxy.Proxy(s.name)
	if err == nil {
		s.way, err = newRemote(p)
	}
	if err != nil {
		return fmt.Errorf("%w: proxy %q of %q's toxiproxy: %w", ErrProject, s.name, c.project, err)
	}
	return nil
}

func (c *composed) launch(s *slot, stdout, stderr *os.File) (program, error) {
	return startBox(c.services[s.name], stdout, stderr)
}

// witness stops all nodes, so that the history begins with none, and reads what the fleet's own target says.
func (c *composed) witness(ctx context.Context, r *run) (*target, error) {
	if err := c.fits(ctx, &r.cfg); err != nil {
		return nil, err
	}
	if err := each(c.nodes(), func(s *container.Container) error { return s.Stop(ctx, nil) }); err != nil {
		return nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("polled target: %w", err)
	}
	running, err := c.services[serviceTarget].Start(in, in)
	if err != nil {
		_ = out.Close()
		return nil, err
	}
	t := &target{
		rec: r.rec, tell: func(e *history.Event) { r.watch.tell(e) }, served: make(chan struct{}), stop: make(chan struct{}),
		sessions: map[string]*polled{}, away: running.Detach,
	}
	go func() {
		defer close(t.served)
		defer func() { _ = out.Close() }()
		var decoder history.Decoder
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var e history.Event
			if decoder.Decode(lines.Bytes(), &e) != nil {
				continue // the line that it was in the middle of, or one of its log
			}
			if e.T = r.clock.fromMono(e.T); e.T >= 0 {
				t.heard(&e)
			}
		}
		if !closed(t.stop) {
			c.redis.lose(fmt.Errorf("%w: the target of %q ended, and nobody sees what is polled", container.ErrLost, c.project))
		}
	}()
	return t, nil
}

// sessions returns the IDs of those that exist, in order.
func (r *Redis) sessions(ctx context.Context) ([]string, error) {
	ids, err := r.client.Load().Keys(ctx, pollSessions+"*").Result()
	if err != nil {
		return nil, fmt.Errorf("sessions cannot be read: %w", err)
	}
	for i, key := range ids {
		ids[i] = strings.TrimPrefix(key, pollSessions)
	}
	slices.Sort(ids)
	return ids, nil
}

// find takes the sessions that a composed fleet has for the run's.
func (w *workload) find(ctx context.Context) error {
	ids, err := w.run.redis.sessions(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found = true
	for _, id := range ids {
		w.know(id)
	}
	return err
}
