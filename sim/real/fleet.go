package real

import (
	"context"
	"io"
	"os"

	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/real/process"
	"github.com/leasestorm/leasestorm/sim/real/target"
)

// Launcher configures nodes in containers.
type Launcher struct {
	// Image is the nodes' image, which runs its own command unless Config.NodeCmd is set. If it is "", an image is built from Program.
	Image   string
	Program string
	Pulling func(image string) // called before a pull; may be nil
}

// canaryArg makes a program that calls ReaperMain first a canary. It prints when it was not scheduled, until SIGTERM.
const canaryArg = "__canary"

// fleet runs nodes in containers on their own network. They reach only its gateway, on which their proxies and the target listen.
type fleet struct {
	processes
	canary container.Spec
}

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

// Nodes returns the image of the nodes' containers; "": nodes are processes.
func (r *Redis) Nodes() string { return r.image }

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
