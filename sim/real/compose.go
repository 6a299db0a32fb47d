package real

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	toxics "github.com/Shopify/toxiproxy/v2/client"

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
	portRedis     = 6379
	portProxy     = 8474
)

// composed is a fleet of a compose project. It is stormed from outside: its containers by the engine, its network by its toxiproxy.
type composed struct {
	*boxes
	project  string
	services map[string]*container.Service
	proxy    *toxics.Client
	claim    net.Listener // there is one storm over a fleet
}

// provisionCompose finds the fleet of a compose project, and has it whole: what is stopped, frozen or cut off there goes on.
func (r *Redis) provisionCompose(ctx context.Context, project, dir string) error {
	if err := r.findBoxes(ctx); err != nil {
		return err
	}
	c, err := findComposed(ctx, r.boxes, project)
	if err != nil {
		return err
	}
	r.site = c
	r.reaper.add(reapProject, c.toReap())
	if err := c.mend(ctx); err != nil {
		return err
	}
	at, err := c.reach(ctx, serviceRedis, portRedis)
	if err != nil {
		return err
	}
	folder, err := r.folder(dir)
	if err != nil {
		return err
	}
	running, err := c.services[serviceRedis].Adopt(nil, nil)
	if err != nil {
		return err
	}
	r.server = &server{
		daemon: daemon{proc: box{Container: running}, lose: r.lose},
		binary: "redis of " + project, dir: folder, files: folder, addr: at.String(),
		launch: func(ctx context.Context, _ []string, _ *os.File) (program, error) {
			again, err := c.services[serviceRedis].Start(ctx, nil, nil)
			if err != nil {
				return nil, err
			}
			return box{Container: again}, nil
		},
	}
	r.server.serves(r.server.binary)
	r.use("redis://" + r.server.addr)
	return r.check(ctx)
}

// findComposed finds a fleet and claims it. It touches nothing.
func findComposed(ctx context.Context, b *boxes, project string) (*composed, error) {
	services, err := b.engine.Project(ctx, project)
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
	c := &composed{boxes: b, project: project, services: services}
	at, err := c.reach(ctx, serviceProxy, portProxy)
	if err != nil {
		return nil, err
	}
	c.proxy = toxics.NewClient(at.String())
	// The kernel gives up a claim with the process that holds it, however that ends. Who hits is in this network namespace: nobody else
	// reaches the fleet.
	c.claim, err = net.Listen("unix", "@leasestorm-"+services[serviceProxy].ID())
	if err != nil {
		return nil, fmt.Errorf("%w: another storm is over %q: wait for its end (%w)", ErrProject, project, err)
	}
	return c, nil
}

// reachWithin bounds the wait for a service that has just been started.
const reachWithin = 3 * time.Second

// reach returns an address of a service that this program reaches.
func (c *composed) reach(ctx context.Context, name string, port uint16) (at netip.AddrPort, err error) {
	why := errors.New("it does not run")
	for end := time.Now().Add(reachWithin); time.Now().Before(end) && ctx.Err() == nil; {
		all, err := c.services[name].Addresses(ctx)
		if err != nil {
			return at, err
		}
		for _, a := range all {
			at = netip.AddrPortFrom(a, port)
			conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", at.String())
			if err == nil {
				return at, conn.Close()
			}
			why = err
		}
		if len(all) == 0 {
			break
		}
	}
	return at, fmt.Errorf("%w: service %q of %q: %w (its networks are reached from this machine, or from a container with network_mode: host)",
		ErrProject, name, c.project, why)
}

// mendWithin bounds what an engine under load takes to start a fleet.
const mendWithin = 30 * time.Second

// mend has everything run as a fleet should, whatever a storm left behind.
func (c *composed) mend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mendWithin)
	defer cancel()
	err := within(c.proxy.ResetState)
	return errors.Join(err, each(append(c.nodes(), c.services[serviceRedis], c.services[serviceTarget]), func(s *container.Service) error {
		return s.Begin(ctx)
	}))
}

func (c *composed) nodes() (all []*container.Service) {
	for name, s := range c.services {
		if _, ok := fault.NodeIndex(name); ok {
			all = append(all, s)
		}
	}
	return all
}

// each calls f for all at once, and returns what went wrong.
func each(all []*container.Service, f func(*container.Service) error) (err error) {
	ends := make(chan error)
	for _, s := range all {
		go func() { ends <- f(s) }()
	}
	for range all {
		err = errors.Join(err, <-ends)
	}
	return err
}

// close leaves the fleet to itself.
func (c *composed) close(redis *server, r *reaper) error {
	err := c.mend(context.Background())
	if redis != nil {
		redis.proc.(box).Detach()
	}
	_ = c.claim.Close()
	if err == nil {
		r.drop(reapProject, c.toReap())
	}
	return err
}

func (c *composed) toReap() string { return c.engine.Host() + " " + c.project }

// mendProject mends the fleet of a simulator that was killed, unless another storm is over it by now, which has mended it.
func mendProject(ctx context.Context, host, project string) error {
	e, err := container.At(host)
	if err != nil {
		return err
	}
	defer func() { _ = e.Close() }()
	c, err := findComposed(ctx, &boxes{engine: e}, project)
	for end := time.Now().Add(reachWithin); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); { // who was killed ends
		time.Sleep(10 * time.Millisecond)
		c, err = findComposed(ctx, &boxes{engine: e}, project)
	}
	if err != nil {
		return err
	}
	defer func() { _ = c.claim.Close() }()
	return c.mend(ctx)
}

func (c *composed) what() string { return c.services[fault.NodeTarget(1)].Image }

func (c *composed) proxied() error {
	return errors.New("between composed nodes and Redis is a toxiproxy")
}

// fits wants the fleet to be the one that is judged: as many sessions and nodes, with those timings.
func (c *composed) fits(ctx context.Context, r *Redis, cfg *Config) error {
	ids, err := r.sessions(ctx)
	if err != nil {
		return err
	}
	if has := len(ids); has != cfg.Sessions {
		return fmt.Errorf("%w: %q has %d sessions: give --sessions %d, or --scenario docker/storm.yaml", ErrProject, c.project, has, has)
	}
	nodes := len(c.nodes())
	if nodes != cfg.Nodes {
		return fmt.Errorf("%w: %q has %d nodes: give --nodes %d, or --scenario docker/storm.yaml", ErrProject, c.project, nodes, nodes)
	}
	for i := range nodes {
		name := fault.NodeTarget(i + 1)
		if c.services[name] == nil {
			return fmt.Errorf("%w: %q has %d nodes, and no service %q", ErrProject, c.project, nodes, name)
		}
		env, err := c.services[name].Env(ctx)
		if err != nil {
			return err
		}
		for _, setting := range append(cfg.timings(), cfg.NodeEnv...) {
			if variable, want, _ := strings.Cut(setting, "="); env[variable] != want {
				return fmt.Errorf("%w: %s of %q is %q, and the storm's is %q: storm docker/compose.yaml of this version with the timings of "+
					"docker/storm.yaml, or give both the same", ErrProject, variable, name, env[variable], want)
			}
		}
	}
	return nil
}

// empty stops all nodes, so that the history begins with none.
func (c *composed) empty(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mendWithin)
	defer cancel()
	return each(c.nodes(), func(s *container.Service) error { return s.Stop(ctx) })
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
	ctx, cancel := context.WithTimeout(context.Background(), boxWithin)
	defer cancel()
	started, err := c.services[s.name].Start(ctx, stdout, stderr)
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return nil, err
	}
	go func() {
		<-started.Exited()
		_, _ = stdout.Close(), stderr.Close()
		c.watch(container.Spec{Name: s.name, Image: c.services[s.name].Image}, started.Exit())
	}()
	pid, _ := started.PID(ctx) // it may have ended already
	return box{started, pid}, nil
}

func (c *composed) leave(s *slot) { s.way.close() }

// witness reads what the fleet's own target says.
func (c *composed) witness(ctx context.Context, r *run) (*target, error) {
	err := c.fits(ctx, r.redis, &r.cfg)
	if err == nil {
		err = c.empty(ctx)
	}
	if err != nil {
		return nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("polled target: %w", err)
	}
	running, err := c.services[serviceTarget].Adopt(in, nil)
	if err != nil {
		_, _ = out.Close(), in.Close()
		return nil, err
	}
	t := &target{
		rec: r.rec, tell: func(e *history.Event) { r.watch.tell(e) }, served: make(chan struct{}), stop: make(chan struct{}),
		sessions: map[string]*polled{}, away: running.Detach,
	}
	go func() {
		<-running.Exited()
		_ = in.Close()
		select {
		case <-t.stop:
		default:
			c.lose(fmt.Errorf("%w: the target of %q ended, and nobody sees what is polled", ErrLost, c.project))
		}
	}()
	go func() {
		defer close(t.served)
		defer func() { _ = out.Close() }()
		var decoder history.Decoder
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			var e history.Event
			if decoder.Decode(lines.Bytes(), &e) != nil {
				continue // the line that it was in the middle of
			}
			if e.T = r.clock.fromMono(e.T); e.T >= 0 {
				t.heard(&e)
			}
		}
		if err := lines.Err(); err != nil {
			c.lose(fmt.Errorf("%w: what the target of %q says cannot be read: %w", ErrLost, c.project, err))
		}
	}()
	return t, nil
}

// sessions returns those that there are, in order.
func (r *Redis) sessions(ctx context.Context) ([]string, error) {
	var ids []string
	all := r.client.Load().Scan(ctx, 0, "session:*", 1000).Iterator()
	for all.Next(ctx) {
		if len(ids) == sessionsMax { // a hostile server's scan has no end
			return nil, fmt.Errorf("sessions cannot be read: there are more than %d keys like %.100q", sessionsMax, all.Val())
		}
		ids = append(ids, strings.TrimPrefix(all.Val(), "session:"))
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("sessions cannot be read: %w", err)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
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
