package real

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	toxics "github.com/Shopify/toxiproxy/v2/client"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/fault"
	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
	"github.com/leasestorm/leasestorm/sim/real/target"
)

// processes runs nodes as processes of this machine, each behind a line of its own.
type processes struct {
	redis *Redis
	at    netip.Addr // address of this machine on which lines and target listen
}

func (p processes) witness(_ context.Context, r *run) (*target.Target, error) {
	return target.New(p.at, r.clock, r.rec, r.cfg.Serve, r.polled, r.abort)
}

func (p processes) open(s *slot, stream uint64) (err error) {
	if p.redis.replicated == nil {
		s.conn, err = proxy.New(s.name, p.at, p.redis.url.Addr, s.run.cfg.Seed, stream, s.run.abort)
	} else {
		s.conn, err = p.redis.replicated.open(s, stream)
	}
	if err == nil && len(s.run.cfg.Stores) > 0 {
		s.conn, err = withStores(s.conn, s, p.at, stream)
	}
	if err != nil || !s.serves() {
		return err
	}
	if s.api, s.reserved, err = redisfixture.Reserve(loopback); err != nil {
		s.conn.Close()
		return fmt.Errorf("API of %s: %w", s.name, err)
	}
	return nil
}

func (p processes) launch(s *slot, stdout, stderr *os.File) (process.Program, error) {
	defer func() { _, _ = stdout.Close(), stderr.Close() }()
	argv := s.run.cfg.NodeCmd
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(surroundings(os.Environ()), s.env()...), stdout, stderr
	var addrs []string
	if !s.run.cfg.NodeAlone {
		addrs = s.addrs()
	}
	started, err := process.Start(p.redis.reaper, cmd, s.mark(), addrs...)
	if err != nil {
		return nil, err
	}
	started.Parent = s.run.cfg.NodeParent
	return started, nil
}

// surroundings removes the protocol's variables: a setting from a shell would change the verdict, and no saved run would show it.
func surroundings(environ []string) []string {
	return slices.DeleteFunc(environ, func(v string) bool { return strings.HasPrefix(v, "LEASESTORM_") })
}

// RedisImage is the default image of a Redis in a container.
const RedisImage = "redis:7.2.4"

func (r *Redis) findEngine(ctx context.Context) (err error) {
	if r.engine == nil {
		r.engine, err = container.Find(ctx, r.lose)
	}
	return err
}

func (r *Redis) fetchRedis(ctx context.Context, c RedisChoice) error {
	if err := r.findEngine(ctx); err != nil {
		return err
	}
	return r.engine.Fetch(ctx, cmp.Or(c.Image, RedisImage), c.Pulling)
}

// provisionContainer starts a Redis container without a network. This machine reaches it through the socket in its folder.
func (r *Redis) provisionContainer(ctx context.Context, c RedisChoice, dir string) error {
	if err := r.fetchRedis(ctx, c); err != nil {
		return err
	}
	folder, err := r.folder(dir)
	if err != nil {
		return err
	}
	r.reaper.Add(reapRun, r.engine.Run)
	spec := container.Spec{Name: "Redis", Image: cmp.Or(c.Image, RedisImage), Folder: folder}
	socket := filepath.Join(folder, "s")
	r.server = r.process("redis-server of "+spec.Image, folder)
	r.server.addr = "127.0.0.1:6379" // inside the container
	r.server.launch = func(_ context.Context, args []string, log *os.File) (process.Program, error) {
		spec.Command = append(append([]string{"redis-server"}, args...), "--unixsocket", socket)
		return startServer(r.engine.New(spec), log.Name())
	}
	if err := r.server.start(ctx); err != nil {
		return err
	}
	r.use((&url.URL{Scheme: "unix", Path: socket}).String())
	return r.check(ctx)
}

func startServer(c *container.Container, logFile string) (process.Program, error) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	return startContainer(c, log, log)
}

type contained struct{ *container.Running }

// startContainer starts a container. It closes stdout and stderr at its end, or on an error.
func startContainer(c *container.Container, stdout, stderr io.WriteCloser) (process.Program, error) {
	started, err := c.Start(stdout, stderr)
	if err != nil {
		return nil, err
	}
	return contained{started}, nil
}

func (b contained) ID() int { return b.PID }

func (b contained) Begun() time.Time { return b.Started }

func (b contained) Ended() <-chan struct{} { return b.Exited }

func (b contained) End() (time.Time, int) { return b.When, b.Code }

func (b contained) Kill() { b.Running.Kill() }

func (b contained) Freeze() error { return b.Pause() }

func (b contained) Signal(s syscall.Signal) error { return b.Running.Signal(s) }

// Thaw unpauses the container, if it is paused, and continues its program, which may have stopped itself.
func (b contained) Thaw() error {
	_ = b.Unpause()
	return b.Signal(syscall.SIGCONT)
}

func (b contained) Stop(begin, sent func()) {
	begin()
	_ = b.Signal(syscall.SIGTERM)
	sent()
	_ = b.Thaw()
}

// Launcher configures nodes in containers.
type Launcher struct {
	// Image is the nodes' image, which runs its own command unless Config.NodeCmd is set. If it is "", an image is built from Program.
	Image   string
	Program string
	Pulling func(image string) // called before a pull; may be nil
}

// fleet runs nodes in containers on their own network. They reach only its gateway, on which their proxies and the target listen.
type fleet struct {
	processes
	meter container.Spec
}

// InContainers makes later runs with this Redis start their nodes in containers. Its errors are those of package container.
func (r *Redis) InContainers(ctx context.Context, l Launcher) error {
	if err := r.findEngine(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	f := &fleet{processes{redis: r}, container.Spec{Name: "canary", Command: []string{self, meterArg}}}
	if err == nil {
		f.meter.Image, err = r.engine.Build(ctx, self)
	}
	switch {
	case err != nil:
	case l.Image == "":
		r.Nodes, err = r.engine.Build(ctx, l.Program)
	default:
		r.Nodes, err = l.Image, r.engine.Fetch(ctx, l.Image, l.Pulling)
	}
	if err != nil {
		return err
	}
	r.reaper.Add(reapRun, r.engine.Run)
	f.at, err = r.engine.Network(ctx)
	r.platform = f
	return err
}

// witness also starts a canary container, because containers have their own share of the machine. The canary ends with ctx.
func (f *fleet) witness(ctx context.Context, r *run) (*target.Target, error) {
	said, says := io.Pipe()
	canary, err := startContainer(r.redis.engine.New(f.meter), says, says)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, canary.Kill)
	go r.readMeter(said)
	return f.processes.witness(ctx, r)
}

func (f *fleet) launch(s *slot, stdout, stderr *os.File) (process.Program, error) {
	const port = ":8080"
	if s.serves() {
		s.api = "0.0.0.0" + port
	}
	spec := container.Spec{Name: s.name, Image: s.run.redis.Nodes, Command: s.run.cfg.NodeCmd, Env: s.env()}
	p, err := startContainer(s.run.redis.engine.New(spec), stdout, stderr)
	if err == nil && s.serves() {
		s.api = "" // remains if the node has already ended
		if ip, _ := p.(contained).ContainerIP(context.Background()); ip != "" {
			s.api = ip + port
		}
	}
	return p, err
}

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
	r.platform, r.Nodes = c, c.nodes[0].Spec.Image
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
		for _, setting := range append(protocol.Timings(&cfg.Timings), cfg.NodeEnv...) {
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
