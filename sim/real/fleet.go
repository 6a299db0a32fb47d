package real

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/leasestorm/leasestorm/sim/container"
)

// Launcher says how nodes run in containers.
type Launcher struct {
	// Image is that of the nodes, which run what it says unless they have a command; "": one made of Program.
	Image   string
	Program string
	Pulling func(image string) // hears that it is pulled
}

// boxAPI is where an API listens in a node's container.
const boxAPI = "8080"

// canaryArg makes a program that calls ReaperMain first into a canary: until it is asked to end it says no more than when it was not
// scheduled.
const canaryArg = "__canary"

// fleet starts the nodes of runs in containers, on a network of their own. They reach only its gateway, where their proxies and the
// target listen.
type fleet struct {
	gateway netip.Addr
	canary  container.Spec
}

// InContainers has the nodes of runs with this Redis in containers from now on. Errors are those of package container.
func (r *Redis) InContainers(ctx context.Context, l Launcher) error {
	if err := r.findEngine(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it in containers: %w", err)
	}
	image, err := r.engine.Build(ctx, self)
	if err != nil {
		return err
	}
	f := &fleet{canary: container.Spec{Name: "canary", Image: image, Command: []string{self, canaryArg}}}
	if l.Image == "" {
		r.image, err = r.engine.Build(ctx, l.Program)
	} else {
		r.image, err = l.Image, r.engine.Fetch(ctx, l.Image, l.Pulling)
	}
	if err != nil {
		return err
	}
	r.reaper.add(reapRun, r.engine.Run)
	f.gateway, err = r.engine.Network(ctx)
	r.site = f
	return err
}

// Nodes returns the image whose containers nodes are; "": they are processes.
func (r *Redis) Nodes() string { return r.image }

// witness also starts what measures how long containers wait while this process does not: the engine's have a share of the machine
// of their own. It ends with ctx, which is the run's.
func (f *fleet) witness(ctx context.Context, r *run) (*target, error) {
	said, says, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	canary, err := r.redis.startNode(ctx, f.canary, says, says)
	if err != nil {
		_ = said.Close()
		return nil, err
	}
	context.AfterFunc(ctx, canary.kill)
	go r.hear(said)
	return r.serve(f.gateway)
}

// startNode creates a container and starts it. It closes what the container writes to.
func (r *Redis) startNode(ctx context.Context, s container.Spec, stdout, stderr *os.File) (program, error) {
	c, err := r.engine.Create(ctx, s)
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return nil, err
	}
	return startBox(c, stdout, stderr)
}

// open implements site: a line at the network's gateway.
func (f *fleet) open(s *slot, stream uint64) error {
	return s.run.redis.line(s, f.gateway, stream)
}

// launch starts the node in a container. Its address is known then.
func (f *fleet) launch(s *slot, stdout, stderr *os.File) (program, error) {
	ctx := context.Background()
	if s.serves() {
		s.api = net.JoinHostPort("0.0.0.0", boxAPI)
	}
	spec := container.Spec{Name: s.name, Image: s.run.redis.image, Command: s.run.cfg.NodeCmd, Env: s.env(), Network: true}
	p, err := s.run.redis.startNode(ctx, spec, stdout, stderr)
	if err == nil && s.serves() {
		s.api = "" // of a node that has ended at once
		if ip, _ := p.(box).ContainerIP(ctx); ip != "" {
			s.api = net.JoinHostPort(ip, boxAPI)
		}
	}
	return p, err
}
