package real

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"

	"github.com/leasestorm/leasestorm/sim/container"
	"github.com/leasestorm/leasestorm/sim/fault"
)

// Launcher says how nodes run in containers.
type Launcher struct {
	// Image is that of the nodes, which run what it says unless they have a command; "": one made of Program.
	Image   string
	Program string
	Pulling func(done, total int64) // hears how it is fetched, in bytes; may be nil
}

// What a program needs no rights for runs as nobody.
const boxUser = "65534:65534"

// hostAPI is where an API listens at its host.
const hostAPI = 8080

// hostArg makes a program that calls ReaperMain first into a host: until it is asked to end it says no more than when it was not
// scheduled. The nodes of a slot, one after another, have its network.
const hostArg = "__host"

// fleet is how the nodes of runs with a Redis are started in containers.
type fleet struct {
	*boxes
	image string // of nodes
	user  string // whom they run as; "": as the image says
	host  container.Spec
	// For tests.
	memory   int64 // that a node may take, bytes; 0: no limit
	firewall func(context.Context, *container.Container) (*container.Firewall, error)
	bare     atomic.Pointer[error] // why hosts have no firewall
}

// InContainers has the nodes of runs with this Redis in containers from now on, each slot at a host with an address of its own.
// Errors are those of package container.
func (r *Redis) InContainers(ctx context.Context, l Launcher) error {
	if err := r.findBoxes(ctx); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, to start it as a host: %w", err)
	}
	image, err := r.boxes.engine.Build(ctx, "simulate", self)
	if err != nil {
		return err
	}
	f := &fleet{
		boxes: r.boxes, image: l.Image, host: container.Spec{Image: image, Command: []string{self, hostArg}, User: boxUser},
		firewall: func(ctx context.Context, c *container.Container) (*container.Firewall, error) { return c.Firewall(ctx) },
	}
	switch {
	case l.Image != "":
		err = r.boxes.fetch(ctx, l.Image, l.Pulling)
	case l.Program == self:
		f.image, f.user = image, boxUser
	default:
		f.user = boxUser
		f.image, err = r.boxes.engine.Build(ctx, "node", l.Program)
	}
	if err != nil {
		return err
	}
	if err := r.boxes.open(ctx, r.reaper); err != nil {
		return err
	}
	r.site = f
	return nil
}

// Nodes returns the image whose containers nodes are; "": they are processes.
func (r *Redis) Nodes() string { return r.site.what() }

func (f *fleet) what() string { return f.image }

func (f *fleet) witness(_ context.Context, r *run) (*target, error) {
	return r.serve(f.network.Gateway())
}

func (f *fleet) proxied() error {
	if why := f.bare.Load(); why != nil {
		return *why
	}
	return nil
}

// open implements site: a host, and a line at the network's gateway.
func (f *fleet) open(s *slot, stream uint64) error {
	l, err := s.run.redis.line(s, f.network.Gateway(), stream)
	if err != nil {
		return err
	}
	if err := f.house(s, l); err != nil {
		l.close()
		return err
	}
	if s.serves() {
		s.api = netip.AddrPortFrom(s.host.Address(), hostAPI).String() // where nothing else listens
	}
	s.way = l
	return nil
}

func (f *fleet) leave(s *slot) {
	s.way.close()
	s.host.close()
}

// host is where the programs of a slot run in containers, one after another.
type host struct {
	*container.Container
	firewall *container.Firewall // nil: there are no rights for it
}

// await makes the slots of those who join, because a host of containers takes a moment to start and a join hits at its time.
func (r *run) await() error {
	for _, f := range r.cfg.Plan.Faults {
		if f.Kind != fault.Join || f.Target == "" || r.awaited[f.Target] != nil {
			continue
		}
		s, err := r.newSlot(f.Target, r.nextStream())
		if err != nil {
			return err
		}
		r.awaited[f.Target] = s
	}
	return nil
}

// house starts the slot's host.
func (f *fleet) house(s *slot, l *line) error {
	spec := f.host
	spec.Name = "host of " + s.name
	var err error
	if spec.Address, err = f.network.Address(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), boxWithin)
	defer cancel()
	said, says := io.Pipe()
	spec.Stdout = says
	c, err := f.network.Start(ctx, spec)
	if err != nil {
		return err
	}
	go s.run.hear(said)
	go func() {
		<-c.Exited()
		_ = says.Close()
		f.watch(spec, c.Exit())
	}()
	s.host = &host{Container: c}
	s.host.firewall, err = f.firewall(ctx, c)
	if errors.Is(err, container.ErrRights) {
		f.bare.CompareAndSwap(nil, &err)
		return nil
	}
	if err != nil {
		return err
	}
	l.filter = s.host.filter(netip.MustParseAddrPort(l.addr()))
	return nil
}

// filter blocks a host's way to a line.
func (h *host) filter(to netip.AddrPort) func(up, down, refuse bool) error {
	return func(up, down, refuse bool) error {
		return h.firewall.Set(container.Block{Peer: to, Out: up, In: down, Reset: refuse})
	}
}

// close removes the host.
func (h *host) close() {
	if h.firewall != nil {
		_ = h.firewall.Close()
	}
	_ = box{Container: h.Container}.do(h.Remove) // what remains is removed by its label
}

// launch starts the node in a container at the slot's host.
func (f *fleet) launch(s *slot, stdout, stderr *os.File) (program, error) {
	spec := container.Spec{
		Name: s.name, Image: f.image, Command: s.run.cfg.NodeCmd, User: f.user, Host: s.host.Container,
		Memory: f.memory, Env: map[string]string{}, Stdout: stdout, Stderr: stderr,
	}
	for _, e := range s.env() {
		name, value, _ := strings.Cut(e, "=")
		spec.Env[name] = value
	}
	ctx, cancel := context.WithTimeout(context.Background(), boxWithin)
	defer cancel()
	c, err := f.network.Start(ctx, spec)
	if err != nil {
		_, _ = stdout.Close(), stderr.Close()
		return nil, err
	}
	pid, _ := c.PID(ctx) // it may have ended already
	b := box{c, pid}
	go func() {
		<-c.Exited()
		_, _ = stdout.Close(), stderr.Close()
		f.watch(spec, c.Exit())
		_ = b.do(c.Remove)
	}()
	return b, nil
}
