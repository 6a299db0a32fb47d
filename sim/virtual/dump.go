package virtual

import "slices"

func (p *peer) save() *dump {
	d := &dump{p.s.Copy(), p.backlog}
	d.records, d.written = slices.Clip(d.records), slices.Clip(d.written)
	return d
}

// reload restarts a replica from a dump. Half of the replicas need a full synchronization, as if the master's repl-backlog-size were too
// small. A server that is down or has become a master is left alone.
func (w *world) reload(s *server, d *dump) {
	p := s.peer
	if s.down || p.of == nil {
		return
	}
	w.killServer(s)
	s.Restore(d.data)
	p.backlog = d.backlog
	p.acked = min(p.acked, len(p.written))
	if w.sentinels.r.IntN(2) == 0 {
		p.id, p.id2 = w.sentinels.newID(), 0
	}
	w.startServer(s, false)
	w.note("%s is back out of a dump at %d", s.name(), p.offset())
}
