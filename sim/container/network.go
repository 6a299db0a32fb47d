package container

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// Network is an internal bridge: its containers reach each other and this machine at its gateway, and have no route to anything else,
// such as another network of the run. Its methods are safe for concurrent use.
type Network struct {
	engine    *Engine
	run, name string

	mu   sync.Mutex
	next netip.Addr
	all  netip.Prefix
}

// networkTries: another run may take the same addresses in the moment between their choice and their use.
const networkTries = 10

// Network makes a network of the run.
func (e *Engine) Network(ctx context.Context, run, name string) (*Network, error) {
	n := &Network{engine: e, run: run, name: "leasestorm-" + run + "-" + name}
	err := n.make(ctx)
	for tries := 1; err != nil && tries < networkTries && strings.Contains(err.Error(), "overlap"); tries++ {
		err = n.make(ctx)
	}
	if err != nil {
		return nil, said("network "+n.name, err)
	}
	// All that nodes are told of listens there.
	l, err := net.Listen("tcp", netip.AddrPortFrom(n.Gateway(), 0).String())
	if err != nil {
		return nil, fmt.Errorf("%w at %s: the gateway of its networks is no address here (%w)", ErrNoEngine, e.api.DaemonHost(), err)
	}
	return n, l.Close()
}

// make asks for a network with any addresses that are free, and makes it again with the same ones as its own: only there an engine gives
// containers the addresses that it is asked for.
func (n *Network) make(ctx context.Context) error {
	api := n.engine.api
	options := client.NetworkCreateOptions{Driver: "bridge", Internal: true, Labels: map[string]string{Label: n.run}}
	free, err := api.NetworkCreate(ctx, n.name, options)
	if err != nil {
		return err
	}
	got, err := api.NetworkInspect(ctx, free.ID, client.NetworkInspectOptions{})
	if err != nil {
		return err
	}
	if _, err := api.NetworkRemove(ctx, free.ID, client.NetworkRemoveOptions{}); err != nil {
		return err
	}
	n.all = got.Network.IPAM.Config[0].Subnet
	n.next = n.Gateway()
	options.IPAM = &network.IPAM{Config: []network.IPAMConfig{{Subnet: n.all}}}
	_, err = api.NetworkCreate(ctx, n.name, options)
	return err
}

// Gateway returns the address of this machine in the network.
func (n *Network) Gateway() netip.Addr { return n.all.Masked().Addr().Next() }

// Address returns an address of the network that no container has had.
func (n *Network) Address() (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next = n.next.Next(); !n.all.Contains(n.next.Next()) { // the last is for broadcasts
		return netip.Addr{}, fmt.Errorf("%w: network %s has no address left in %s", ErrEngine, n.name, n.all)
	}
	return n.next, nil
}

// Spec says what runs in a container.
type Spec struct {
	Name    string            // of the program, for messages
	Image   string            // must be there
	Command []string          // the program and its arguments, in place of all that the image says; nil: what the image says
	Env     map[string]string // all of it
	Folders []string          // folders of this machine and where the program sees them, "/here:/there"
	User    string            // "uid:gid"; "": as the image says
	Address netip.Addr        // of the network
}

// Create makes a container in the network. It is started once.
func (n *Network) Create(ctx context.Context, s Spec) (*Container, error) {
	made, err := n.engine.creator.CreateContainer(ctx, testcontainers.ContainerRequest{
		Image: s.Image, Env: s.Env, Labels: map[string]string{Label: n.run}, Networks: []string{n.name},
		ConfigModifier: func(c *container.Config) {
			c.User = s.User
			if len(s.Command) > 0 {
				c.Entrypoint, c.Cmd = s.Command[:1], s.Command[1:]
			}
		},
		HostConfigModifier: func(h *container.HostConfig) {
			h.Init, h.Binds, h.LogConfig = new(true), s.Folders, container.LogConfig{Type: "none"}
			h.NetworkMode = container.NetworkMode(n.name)
		},
		EndpointSettingsModifier: func(all map[string]*network.EndpointSettings) {
			all[n.name].IPAMConfig = &network.EndpointIPAMConfig{IPv4Address: s.Address}
		},
	})
	if err != nil {
		return nil, said("container of "+s.Name+" ("+s.Image+")", err)
	}
	return &Container{Name: s.Name, Image: s.Image, ID: made.GetContainerID(), engine: n.engine, made: made}, nil
}
