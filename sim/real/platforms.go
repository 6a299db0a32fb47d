package real

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/container"
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
	started, err := process.Start(p.redis.reaper, cmd, s.mark(), s.addrs()...)
	if err != nil {
		return nil, err
	}
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

func (b contained) Kill() { b.Kill() }

func (b contained) Freeze() error { return b.Pause() }

func (b contained) Signal(s syscall.Signal) error { return b.Signal(s) }

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
		r.image, err = r.engine.Build(ctx, l.Program)
	default:
		r.image, err = l.Image, r.engine.Fetch(ctx, l.Image, l.Pulling)
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
	spec := container.Spec{Name: s.name, Image: s.run.redis.image, Command: s.run.cfg.NodeCmd, Env: s.env()}
	p, err := startContainer(s.run.redis.engine.New(spec), stdout, stderr)
	if err == nil && s.serves() {
		s.api = "" // remains if the node has already ended
		if ip, _ := p.(contained).ContainerIP(context.Background()); ip != "" {
			s.api = ip + port
		}
	}
	return p, err
}
