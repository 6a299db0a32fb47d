package real

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

// door is a server's announced address, with one line per other server and one for the sentinels, so that any two can be separated.
type door struct {
	listener *net.TCPListener
	servers  map[netip.Addr]*line // by the source address of a server's connections
	sentinel *line                // for all other sources; nil: they are refused
	short    func(error)
	done     chan struct{} // closed when serve returns; nil: it never ran
}

func newDoor(short func(error)) (*door, error) {
	d := &door{servers: map[netip.Addr]*line{}, short: short}
	err := redisfixture.Listen(loopback, func(addr string) error {
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

func (d *door) port() int { return d.listener.Addr().(*net.TCPAddr).Port }

func (d *door) addr() string { return d.listener.Addr().String() }

func (d *door) lines() []*line {
	all := slices.Collect(maps.Values(d.servers))
	if d.sentinel != nil {
		all = append(all, d.sentinel)
	}
	return all
}

func (d *door) open() {
	d.done = make(chan struct{})
	go d.serve()
}

func (d *door) serve() {
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
		l := d.sentinel
		if from, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil && d.servers[from.Addr()] != nil {
			l = d.servers[from.Addr()]
		}
		if l == nil {
			host.Reset(c)
			continue
		}
		if e := l.gate.enter(c); e != nil {
			go l.gate.lead(e)
		}
	}
}

func (d *door) close() {
	_ = d.listener.Close()
	if d.done != nil {
		<-d.done
	}
	for _, l := range d.lines() {
		l.close()
	}
}
