package real

import (
	"cmp"
	"context"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/real/target"
)

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
	return startBox(c, log, log)
}

type box struct{ *container.Running }

// startBox starts a container. It closes stdout and stderr at its end, or on an error.
func startBox(c *container.Container, stdout, stderr io.WriteCloser) (process.Program, error) {
	started, err := c.Start(stdout, stderr)
	if err != nil {
		return nil, err
	}
	return box{started}, nil
}

func (b box) ID() int { return b.PID }

func (b box) Begun() time.Time { return b.Started }

func (b box) Ended() <-chan struct{} { return b.Exited }

func (b box) End() (time.Time, int) { return b.When, b.Code }

func (b box) Kill() { b.Kill() }

func (b box) Freeze() error { return b.Pause() }

func (b box) Signal(s syscall.Signal) error { return b.Signal(s) }

// Thaw unpauses the container, if it is paused, and continues its program, which may have stopped itself.
func (b box) Thaw() error {
	_ = b.Unpause()
	return b.Signal(syscall.SIGCONT)
}

func (b box) Stop(begin, sent func()) {
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
	canary container.Spec
}

// canaryArg makes a program that calls ReaperMain first a canary. It prints when it was not scheduled, until SIGTERM.
const canaryArg = "__canary"

// InContainers makes later runs with this Redis start their nodes in containers. Its errors are those of package container.
func (r *Redis) InContainers(ctx context.Context, l Launcher) error {
	if err := r.findEngine(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	f := &fleet{processes{redis: r}, container.Spec{Name: "canary", Command: []string{self, canaryArg}}}
	if err == nil {
		f.canary.Image, err = r.engine.Build(ctx, self)
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
	r.site = f
	return err
}

// witness also starts a canary container, because containers have their own share of the machine. The canary ends with ctx.
func (f *fleet) witness(ctx context.Context, r *run) (*target.Target, error) {
	said, says := io.Pipe()
	canary, err := startBox(r.redis.engine.New(f.canary), says, says)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, canary.Kill)
	go r.hear(said)
	return f.processes.witness(ctx, r)
}

func (f *fleet) launch(s *slot, stdout, stderr *os.File) (process.Program, error) {
	const port = ":8080"
	if s.serves() {
		s.api = "0.0.0.0" + port
	}
	spec := container.Spec{Name: s.name, Image: s.run.redis.image, Command: s.run.cfg.NodeCmd, Env: s.env()}
	p, err := startBox(s.run.redis.engine.New(spec), stdout, stderr)
	if err == nil && s.serves() {
		s.api = "" // remains if the node has already ended
		if ip, _ := p.(box).ContainerIP(context.Background()); ip != "" {
			s.api = ip + port
		}
	}
	return p, err
}
