package real

import (
	"errors"
	"strings"

	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/real/proxy"
)

// proxies are one node's lines to all servers and sentinels.
type proxies struct {
	lines
	servers   []*proxy.Proxy // in the order of replicated.members
	sentinels []*proxy.Proxy

	// Guarded by replicated.mu.
	zone     int
	anywhere bool // it reaches every zone
}

func (w *proxies) Sent() (n int64) {
	for _, l := range w.servers {
		n += l.Sent()
	}
	return n
}

func (p *replicated) open(s *slot, stream uint64) (*proxies, error) {
	w := &proxies{}
	for _, to := range p.upstreams() {
		l, err := proxy.New(s.name, loopback, to, s.run.cfg.Seed, stream, s.run.abort)
		if err != nil {
			w.Close()
			return nil, err
		}
		w.lines = append(w.lines, l)
		if len(w.servers) < len(p.members) {
			w.servers = append(w.servers, l)
		} else {
			w.sentinels = append(w.sentinels, l)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return w, p.lead(w)
}

func (p *replicated) upstreams() (all []string) {
	for _, m := range p.members {
		all = append(all, m.addr)
	}
	for _, s := range p.sentinels {
		all = append(all, s.addr)
	}
	return all
}

// env returns a node's lines to the sentinels or the cluster's servers, and a table that maps announced addresses to lines.
func (p *replicated) env(w *proxies) []string {
	var sentinels, table []string
	for i, m := range p.members {
		table = append(table, m.router.Addr()+"="+w.servers[i].Addr())
	}
	if p.cluster != nil {
		var own []string
		for _, l := range w.servers {
			own = append(own, l.Addr())
		}
		return []string{"LEASESTORM_CLUSTER=" + strings.Join(own, ","), "LEASESTORM_WAYS=" + strings.Join(table, ",")}
	}
	for i, s := range p.sentinels {
		sentinels = append(sentinels, w.sentinels[i].Addr())
		table = append(table, s.addr+"="+w.sentinels[i].Addr())
	}
	return protocol.Sentinels(sentinels, masterName, table)
}

// zonesFault is the fault number under which lines get the effect of zones. No fault of a plan has it.
const zonesFault = -1

func (z zones) separate(l *proxy.Proxy, a, b int) error {
	switch {
	case a == b:
		return l.Heal(zonesFault)
	case z.held[a] || z.held[b]:
		hold := proxy.Network{Hold: true}
		return l.Apply(zonesFault, proxy.Effect{Up: hold, Down: hold})
	}
	return l.Apply(zonesFault, proxy.Effect{Cut: true})
}

// lead cuts a node's lines to servers in other zones, and restores its lines within its zone. mu is held.
func (p *replicated) lead(w *proxies) error {
	var err error
	between := func(l *proxy.Proxy, zone int) {
		if w.anywhere {
			zone = w.zone
		}
		err = errors.Join(err, p.zones.separate(l, w.zone, zone))
	}
	for i, m := range p.members {
		between(w.servers[i], m.zone)
	}
	for _, l := range w.sentinels {
		between(l, 0)
	}
	return err
}

// partition calls change, which may move servers and nodes to other zones, with mu held, and applies the zones to all lines.
func (p *replicated) partition(slots []*slot, change func()) error {
	p.settling.RLock()
	defer p.settling.RUnlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	var err error
	for _, to := range p.members {
		for _, from := range p.members {
			for _, l := range to.comesFrom(from) {
				err = errors.Join(err, p.zones.separate(l, from.zone, to.zone))
			}
		}
		err = errors.Join(err, p.zones.separate(to.router.Sentinel, 0, to.zone))
	}
	for _, s := range slots {
		err = errors.Join(err, p.lead(s.conn.(*proxies)))
	}
	return err
}

func (p *replicated) rejoin(slots []*slot, zone int) error {
	return p.partition(slots, func() {
		for _, m := range p.members {
			if m.zone == zone {
				m.zone = 0
			}
		}
		for _, s := range slots {
			if w := s.conn.(*proxies); w.zone == zone {
				w.zone, w.anywhere = 0, false
			}
		}
		delete(p.zones.held, zone)
	})
}
