package virtual

import "slices"

// The servers as the hosts see them: which server a host is connected to, reaches, and takes for the master.

// reaches reports whether a host can connect to a server or, for nil, to the sentinels. Without sentinels there is one zone.
func (ss *servers) reaches(h *host, s *server) bool {
	zone := int32(0)
	if s != nil && s.peer != nil {
		zone = s.peer.zone
	}
	return h.route.anywhere || h.route.zone == zone
}

// accepts implements backend.
func (ss *servers) accepts(h *host, to int32) (run uint32, ok bool) {
	s := ss.all[to]
	return s.gen, !s.down && ss.reaches(h, s)
}

// subscribes implements backend.
func (ss *servers) subscribes(h *host) bool {
	s := ss.all[h.route.to]
	return !s.down && s.loading == 0 && s.hold == 0 && ss.reaches(h, s)
}

// hearSwitch makes a process learn the master after d, if it reaches a sentinel that knows the master. The process then closes its
// connections to other servers. A guest finds the master itself.
func (ss *servers) hearSwitch(h *host, d int64) {
	if ss.watched() {
		return
	}
	h.inProcess(d, func() {
		if r := &h.route; ss.reaches(h, nil) && r.to != ss.master.number && ss.sentinels.r.IntN(8) > 0 {
			r.told = ss.master.number
			if ss.clustered() { // requests pending elsewhere continue
				r.to = ss.master.number
				return
			}
			h.reset()
		}
	})
}

// dial implements backend. In most cases, the process learns the current master.
func (ss *servers) dial(h *host) {
	r, master := &h.route, ss.master.number
	if ss.sentinels == nil || ss.watched() || !ss.reaches(h, nil) || r.to == master || r.told != master && ss.sentinels.r.IntN(8) == 0 {
		return
	}
	r.to, r.told = master, master
	if !ss.clustered() && (h.sub.on || len(h.link.flight) > 0) {
		h.reset()
	}
}

// timedOut implements backend.
func (ss *servers) timedOut(h *host) {
	if ss.clustered() {
		ss.readMap(h)
	}
}

// readMap makes a process reread the slot map after a refusal or a timeout. Half of the time it has just read the map and waits a moment.
func (ss *servers) readMap(h *host) {
	r := ss.sentinels.r
	ss.hearSwitch(h, upTo(r, []int64{2 * int64(ss.cfg.Net.Delay+ss.cfg.Net.Jitter), mapPause}[r.IntN(2)]))
}

// passes implements backend. In a cluster, a message reaches the subscribers of all servers that meet.
func (ss *servers) passes(from, to int32) bool {
	return from == to || ss.clustered() && ss.all[from].peer.meets(ss.all[to].peer)
}

// cutOff breaks the requests of a host that are pending at a server.
func (s *server) cutOff(h *host) {
	for _, m := range h.link.flight {
		if m.to == s.number && !m.noReply {
			s.set.net.breaks(m)
		}
	}
}

// routed reports whether a host knows and reaches the master. A cluster client keeps a request that is pending elsewhere with a new map.
func (ss *servers) routed(h *host) bool {
	r, master := &h.route, ss.master
	elsewhere := func(m *message) bool { return m.to != r.to && !m.told }
	return (r.to == master.number || r.told == master.number) && ss.reaches(h, master) &&
		(!ss.clustered() || !slices.ContainsFunc(h.link.flight, elsewhere))
}
