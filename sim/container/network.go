package container

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
)

// Network is a bridge of one run: its containers reach each other and this machine, and nothing else reaches them. Its
// methods are safe for concurrent use.
type Network struct {
	engine *Engine
	run    string
	id     string
	name   string

	mu   sync.Mutex
	next netip.Addr
	all  netip.Prefix
}

// networkTries: another run may take the same addresses in the moment between their choice and their use.
const networkTries = 10

// Network makes the run's network.
func (e *Engine) Network(ctx context.Context, run string) (*Network, error) {
	n := &Network{engine: e, run: run, name: "leasestorm-" + run}
	// Containers keep their addresses only where the network was given its own: so an engine is asked which are free.
	var err error
	for range networkTries {
		if err = n.make(ctx); err == nil || !strings.Contains(err.Error(), "overlap") {
			return n, err
		}
	}
	return nil, err
}

// make asks for a network with any addresses, and makes it again with the same.
func (n *Network) make(ctx context.Context) error {
	api := n.engine.api
	options := client.NetworkCreateOptions{Driver: "bridge", Internal: true, Labels: map[string]string{Label: n.run}}
	asked, err := api.NetworkCreate(ctx, n.name, options)
	if err != nil {
		return said("network "+n.name, err)
	}
	got, err := api.NetworkInspect(ctx, asked.ID, client.NetworkInspectOptions{})
	if err != nil {
		return said("network "+n.name, err)
	}
	if _, err := api.NetworkRemove(ctx, asked.ID, client.NetworkRemoveOptions{}); err != nil {
		return said("network "+n.name, err)
	}
	for _, c := range got.Network.IPAM.Config {
		if c.Subnet.Addr().Is4() {
			n.all, n.next = c.Subnet, c.Subnet.Addr().Next() // the first is this machine's
			options.IPAM = &network.IPAM{Config: []network.IPAMConfig{{Subnet: c.Subnet}}}
		}
	}
	if options.IPAM == nil {
		return fmt.Errorf("%w: network %s has no addresses of IPv4", ErrEngine, n.name)
	}
	made, err := api.NetworkCreate(ctx, n.name, options)
	if err != nil {
		return said("network "+n.name, err)
	}
	n.id = made.ID
	return nil
}

// Gateway returns the address of this machine in the network.
func (n *Network) Gateway() netip.Addr { return n.all.Masked().Addr().Next() }

// Address returns an address of the network that no container has had.
func (n *Network) Address() (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	next := n.next.Next()
	if !n.all.Contains(next.Next()) { // the last is for broadcasts
		return netip.Addr{}, fmt.Errorf("%w: network %s has no address left in %s", ErrEngine, n.name, n.all)
	}
	n.next = next
	return next, nil
}
