package virtual

import (
	"slices"
	"strconv"

	"github.com/leasestorm/leasestorm/sim/protocol"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// Guests reach the sentinels as one, which is a server without data. Unlike our own clients, they find the master themselves.

const masterName = "storm"

// The hosts and ports that guests dial. A server's port is guestPort plus its number.
const (
	guestHost      = "10.0.0.1"
	guestHostLocal = "127.0.0.1" // a Redis there needs no quarantine (Config.Local)
	guestPort      = 6379
	watcherPort    = 26379
)

// addr returns the address at which guests reach a server.
func (s *server) addr() redis.Addr {
	host, port := guestHost, guestPort+int(s.number)
	if s.set.cfg.Local {
		host = guestHostLocal
	}
	if s.Config.Watch != nil {
		port = watcherPort
	}
	return redis.Addr{Host: host, Port: strconv.Itoa(port)}
}

// at returns the server at an address that a guest dials, nil if there is none.
func (ss *servers) at(addr string) *server {
	i := slices.IndexFunc(ss.all, func(s *server) bool { return s.addr().String() == addr })
	if i < 0 {
		return nil
	}
	return ss.all[i]
}

func (se *sentinels) addWatcher() {
	se.watcher = se.servers.add("w")
	se.watcher.Config.Watch = func() redis.Watch {
		w := redis.Watch{Name: masterName, Master: se.home.master.s.addr()}
		for _, x := range se.peers {
			if x != se.home.master {
				w.Replicas = append(w.Replicas, redis.Watched{Addr: x.s.addr(), RunID: x.s.RunID, Down: !x.visible()})
			}
		}
		return w
	}
}

// guestEnv returns the variables that name the servers to a guest.
func (ss *servers) guestEnv() []string {
	if ss.sentinels == nil {
		return nil
	}
	var ways []string
	for _, s := range ss.all {
		ways = append(ways, s.addr().String()+"="+s.addr().String())
	}
	return append(protocol.Sentinels([]string{ss.sentinels.watcher.addr().String()}, masterName, ways), protocol.Replicas(ss.cfg.Replicas))
}

// hangUp breaks the connections of a host to the server.
func (s *server) hangUp(h *host) {
	switch {
	case s.set.watched() && h.receiver.disconnected(s):
		s.cutOff(h)
	case h.route.to == s.number:
		h.reset()
	}
}

// part breaks the connections of a host to servers that it no longer reaches.
func (ss *servers) part(h *host) {
	if !ss.watched() && !ss.reaches(h, ss.all[h.route.to]) {
		h.reset()
	}
	for _, s := range ss.all {
		switch {
		case ss.reaches(h, s):
		case ss.clustered():
			s.cutOff(h)
		case ss.watched():
			s.hangUp(h)
		}
	}
}

// watched reports whether guests find the master by a sentinel.
func (ss *servers) watched() bool { return ss.sentinels != nil && ss.sentinels.watcher != nil }

// offset returns the offset of the stream for replicas.
func (s *server) offset() int {
	if s.peer == nil {
		return 0
	}
	return s.peer.offset()
}

// acks returns how many replicas have acknowledged the writes of a connection, and whether WAIT needs no more of them.
func (s *server) acks(c *guestConn, wait *redis.WaitFor) (n redis.Reply, enough bool) {
	if s.peer == nil || wait.Replicas == 0 {
		return nil, false
	}
	acked := s.peer.acknowledged(c.wrote)
	return acked, acked >= int64(wait.Replicas)
}
