package virtual

import "slices"

// dump is what a replica has on disk: its data, and where they are in the stream, by which it goes on from there if its master still has
// what came after. TestOldDump of internal/redisstore holds it to a real server.
type dump struct {
	data *redis
	backlog
}

func (p *peer) save() *dump {
	d := &dump{p.s.copyData(), p.backlog}
	d.records, d.written = slices.Clip(d.records), slices.Clip(d.written)
	return d
}

// reload restarts a replica from a dump. Whether its master has what came after depends on how much that keeps (repl-backlog-size): one of
// two has not, and the replica copies everything. What has become a master meanwhile, or is gone, is left alone.
func (w *world) reload(s *server, d *dump) {
	p := s.peer
	if s.down || p.of == nil {
		return
	}
	w.killServer(s)
	s.restore(d.data)
	p.backlog = d.backlog
	p.acked = min(p.acked, len(p.written))
	if w.sentinels.r.IntN(2) == 0 {
		p.id, p.id2 = w.sentinels.newID(), 0
	}
	w.startServer(s, false)
	w.note("%s is back out of a dump at %d", s.name(), p.offset())
}
