package proxy

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/internal/redisfixture"
	"github.com/leasestorm/leasestorm/sim/real/host"
)

// Router is a server's announced address, with one proxy per other server and one for the sentinels, so that any two can be separated.
type Router struct {
	listener *net.TCPListener
	Servers  map[netip.Addr]*Proxy // by the source address of a server's connections
	Sentinel *Proxy                // for all other sources; nil: they are refused
	short    func(error)
	done     chan struct{} // closed when serve returns; nil: it never ran
}

// NewRouter returns a router that refuses connections until Open. short is as in New.
func NewRouter(short func(error)) (*Router, error) {
	d := &Router{Servers: map[netip.Addr]*Proxy{}, short: short}
	err := redisfixture.Listen(redisfixture.Loopback, func(addr string) error {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			d.listener = l.(*net.TCPListener)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("address of a server for the others: %w", err)
	}
	return d, nil
}

// Port returns the port of the announced address.
func (d *Router) Port() int { return d.listener.Addr().(*net.TCPAddr).Port }

// Addr returns the announced address.
func (d *Router) Addr() string { return d.listener.Addr().String() }

// Proxies returns the proxies of all sources.
func (d *Router) Proxies() []*Proxy {
	all := slices.Collect(maps.Values(d.Servers))
	if d.Sentinel != nil {
		all = append(all, d.Sentinel)
	}
	return all
}

// Open accepts connections from now on.
func (d *Router) Open() {
	d.done = make(chan struct{})
	go d.serve()
}

func (d *Router) serve() {
	defer close(d.done)
	for {
		c, err := d.listener.AcceptTCP()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err != nil:
			host.TellExhausted(err, d.short)
			time.Sleep(acceptAgain)
			continue
		}
		l := d.Sentinel
		if from, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil && d.Servers[from.Addr()] != nil {
			l = d.Servers[from.Addr()]
		}
		if l == nil {
			host.Reset(c)
			continue
		}
		if e := l.listener.admit(c); e != nil {
			go l.listener.connect(e)
		}
	}
}

// Close closes the router and its proxies.
func (d *Router) Close() {
	_ = d.listener.Close()
	if d.done != nil {
		<-d.done
	}
	for _, l := range d.Proxies() {
		l.Close()
	}
}
