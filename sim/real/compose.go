package real

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	services map[string]*container.Container
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
	r.reaper.add(reapProject, project)
	if err := c.mend(); err != nil {
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
	running, err := c.services[serviceRedis].Adopt(io.Discard)
	if err != nil {
		return err
	}
	r.server = &server{
		daemon: daemon{proc: box{Running: running}, lose: r.lose},
		binary: "redis of " + project, dir: folder, files: folder, addr: at.String(),
		launch: func(context.Context, []string, *os.File) (program, error) {
			again, err := c.services[serviceRedis].Start(io.Discard, io.Discard)
			if err != nil {
				return nil, err
			}
			return box{Running: again}, nil
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
	c.claim, err = net.Listen("unix", "@leasestorm-"+services[serviceProxy].ID)
	if err != nil {
		return nil, fmt.Errorf("%w: another storm is over %q: wait for its end (%w)", ErrProject, project, err)
	}
	return c, nil
}

// reachWithin bounds the wait for a service that has just been started.
const reachWithin = 3 * time.Second

// reach returns an address of a service that this program reaches.
func (c *composed) reach(ctx context.Context, name string, port uint16) (netip.AddrPort, error) {
	why := errors.New("it does not run")
	for end := time.Now().Add(reachWithin); time.Now().Before(end) && ctx.Err() == nil; {
		all, _, err := c.services[name].Look()
		if len(all) == 0 {
			why = cmp.Or(err, why)
			break
		}
		for _, a := range all {
			at := netip.AddrPortFrom(a, port)
			conn, err := net.DialTimeout("tcp", at.String(), time.Second)
			if err == nil {
				return at, conn.Close()
			}
			why = err
		}
	}
	return netip.AddrPort{}, fmt.Errorf("%w: service %q of %q: %w (its networks are reached from this machine, or from a container with "+
		"network_mode: host)", ErrProject, name, c.project, why)
}

// mend has everything run as a fleet should, whatever a storm left behind.
func (c *composed) mend() error {
	err := within(c.proxy.ResetState)
	return errors.Join(err, each(append(c.nodes(), c.services[serviceRedis], c.services[serviceTarget]), (*container.Container).Begin))
}

func (c *composed) nodes() (all []*container.Container) {
	for name, s := range c.services {
		if _, ok := fault.NodeIndex(name); ok {
			all = append(all, s)
		}
	}
	return all
}

// each calls f for all at once, and returns what went wrong.
func each(all []*container.Container, f func(*container.Container) error) (err error) {
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
	err := c.mend()
	if redis != nil {
		redis.proc.(box).Detach()
	}
	_ = c.claim.Close()
	if err == nil {
		r.drop(reapProject, c.project)
	}
	return err
}

// mendProject mends the fleet of a simulator that was killed, unless another storm is over it by now, which has mended it.
func mendProject(project string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := container.Find(ctx)
	if err != nil {
		return err
	}
	c, err := findComposed(ctx, &boxes{engine: e}, project)
	for end := time.Now().Add(reachWithin); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(end); { // who was killed ends
		time.Sleep(10 * time.Millisecond)
		c, err = findComposed(ctx, &boxes{engine: e}, project)
	}
	if err != nil {
		return err
	}
	return c.mend()
}

func (c *composed) what() string { return c.services[fault.NodeTarget(1)].Image }

// fits wants the fleet to be the one that is judged: as many sessions and nodes, with those timings.
func (c *composed) fits(ctx context.Context, r *Redis, cfg *Config) error {
	ids, err := r.sessions(ctx)
	if err != nil {
		return err
	}
	nodes := len(c.nodes())
	for _, n := range []struct {
		what       string
		has, wants int
	}{{"sessions", len(ids), cfg.Sessions}, {"nodes", nodes, cfg.Nodes}} {
		if n.has != n.wants {
			return fmt.Errorf("%w: %q has %d %s: give --%[4]s %[3]d, or --scenario docker/storm.yaml", ErrProject, c.project, n.has, n.what)
		}
	}
	for i := range nodes {
		name := fault.NodeTarget(i + 1)
		if c.services[name] == nil {
			return fmt.Errorf("%w: %q has %d nodes, and no service %q", ErrProject, c.project, nodes, name)
		}
		_, env, err := c.services[name].Look()
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
	b, err := runBox(c.services[s.name], stdout, stderr, c.watch)
	if err != nil {
		return nil, err
	}
	return b, nil
}

func (c *composed) leave(s *slot) { s.way.close() }

// witness stops all nodes, so that the history begins with none, and reads what the fleet's own target says.
func (c *composed) witness(ctx context.Context, r *run) (*target, error) {
	if err := c.fits(ctx, r.redis, &r.cfg); err != nil {
		return nil, err
	}
	if err := each(c.nodes(), (*container.Container).Stop); err != nil {
		return nil, err
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("polled target: %w", err)
	}
	running, err := c.services[serviceTarget].Adopt(in)
	if err != nil {
		_, _ = out.Close(), in.Close()
		return nil, err
	}
	t := &target{
		rec: r.rec, tell: func(e *history.Event) { r.watch.tell(e) }, served: make(chan struct{}), stop: make(chan struct{}),
		sessions: map[string]*polled{}, away: running.Detach,
	}
	go func() {
		<-running.Exited
		_ = in.Close()
		if !closed(t.stop) {
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
