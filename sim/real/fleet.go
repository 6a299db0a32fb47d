package real

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/leasestorm/leasestorm/sim/container"
)

// Launcher says how nodes run in containers.
type Launcher struct {
	// Image is that of the nodes, which run what it says unless they have a command; "": one made of Program.
	Image   string
	Program string
	Pulling func(image string) // hears that it is pulled
}

// What a program needs no rights for runs as nobody.
const boxUser = "65534:65534"

// boxAPI is where an API listens in a node's container.
const boxAPI = 8080

// canaryArg makes a program that calls ReaperMain first into a canary: until it is asked to end it says no more than when it was not
// scheduled.
const canaryArg = "__canary"

// fleet is how the nodes of runs with a Redis are started in containers, on a network of their own: what they reach there is the gateway,
// where their proxies and the target listen.
type fleet struct {
	*boxes
	network *container.Network
	image   string // of nodes
	user    string // whom they run as; "": as the image says
	canary  container.Spec
}

// InContainers has the nodes of runs with this Redis in containers from now on, each slot with an address of its own.
// Errors are those of package container.
func (r *Redis) InContainers(ctx context.Context, l Launcher) error {
	if err := r.findBoxes(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it in containers: %w", err)
	}
	image, err := r.boxes.engine.Build(ctx, "simulate", self)
	if err != nil {
		return err
	}
	f := &fleet{boxes: r.boxes, image: cmp.Or(l.Image, image), canary: container.Spec{
		Name: "canary", Image: image, Command: []string{self, canaryArg}, User: boxUser,
	}}
	switch {
	case l.Image != "":
		err = r.boxes.engine.Fetch(ctx, l.Image, l.Pulling)
	case l.Program != self:
		f.image, err = r.boxes.engine.Build(ctx, "node", l.Program)
		fallthrough
	default:
		f.user = boxUser
	}
	if err != nil {
		return err
	}
	f.network, err = r.network(ctx, "nodes")
	r.site = f
	return err
}

// Nodes returns the image whose containers nodes are; "": they are processes.
func (r *Redis) Nodes() string { return r.site.what() }

func (f *fleet) what() string { return f.image }

// witness also starts what measures how long containers wait while this process does not: the engine's have a share of the machine
// of their own. It ends with ctx, which is the run's.
func (f *fleet) witness(ctx context.Context, r *run) (*target, error) {
	said, says, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	spec := f.canary
	if spec.Address, err = f.network.Address(); err != nil {
		return nil, err
	}
	b, err := startBox(ctx, f.network, spec, says, says, func(box) {})
	if err != nil {
		_ = said.Close()
		return nil, err
	}
	context.AfterFunc(ctx, b.kill)
	go r.hear(said)
	return r.serve(f.network.Gateway())
}

// open implements site: a line at the network's gateway.
func (f *fleet) open(s *slot, stream uint64) error {
	l, err := s.run.redis.line(s, f.network.Gateway(), stream)
	if err != nil {
		return err
	}
	s.way = l
	s.address, err = f.network.Address()
	if s.serves() {
		s.api = netip.AddrPortFrom(s.address, boxAPI).String()
	}
	return err
}

func (f *fleet) leave(s *slot) { s.way.close() }

// launch starts the node in a container at the slot's address.
func (f *fleet) launch(s *slot, stdout, stderr *os.File) (program, error) {
	spec := container.Spec{
		Name: s.name, Image: f.image, Command: s.run.cfg.NodeCmd, User: f.user, Address: s.address, Env: map[string]string{},
	}
	for _, e := range s.env() {
		name, value, _ := strings.Cut(e, "=")
		spec.Env[name] = value
	}
	b, err := startBox(context.Background(), f.network, spec, stdout, stderr, f.watch)
	if err != nil {
		return nil, err
	}
	return b, nil
}
