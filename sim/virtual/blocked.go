package virtual

import (
	"slices"
	"time"

	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

func (w *world) block(s *server, m *message, wait redis.WaitFor) {
	b := &blockedRead{m, wait.Key}
	m.refs++
	s.blocked = append(s.blocked, b)
	w.after(s.Clock.TrueOf(0, wait.Block*int64(time.Millisecond)), func() { w.unblock(s, b) })
}

// unblock replies that no entry came, once the server runs.
func (w *world) unblock(s *server, b *blockedRead) {
	i := slices.Index(s.blocked, b)
	switch {
	case i < 0:
		return
	case s.hold > 0:
		w.after(int64(10*time.Millisecond), func() { w.unblock(s, b) })
		return
	}
	s.blocked = slices.Delete(s.blocked, i, i+1)
	b.m.reply = nil
	w.reply(b.m)
	w.release(b.m)
}

// feedBlocked answers reads of the streams that the last command added to.
func (w *world) feedBlocked(s *server) {
	for _, key := range s.TakeFed() {
		for _, b := range slices.Clone(s.blocked) {
			if b.key != key {
				continue
			}
			n := w.nodes[b.m.node]
			gone := b.m.noReply || b.m.gen != n.gen && n.link.holdOut == 0
			got := redis.Reply(nil)
			if !gone {
				got = s.Obey(w.t, b.m.cmd.Args)
				if _, still := got.(redis.WaitFor); still {
					continue
				}
			}
			s.blocked = slices.DeleteFunc(s.blocked, func(o *blockedRead) bool { return o == b })
			if b.m.reply = got; !gone {
				w.reply(b.m)
			}
			w.release(b.m)
		}
	}
}

func (w *world) unblockAll(s *server) {
	for _, b := range s.blocked {
		w.release(b.m)
	}
	s.blocked = nil
}

// textUnblocked is Redis' reply to a blocked read when the server becomes a replica.
const textUnblocked = "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)"

func (w *world) demoteBlocked(p *peer) {
	if len(p.s.blocked) == 0 {
		return
	}
	w.toServer(p, 0, func() {
		for _, b := range p.s.blocked {
			b.m.reply = redis.Refusal(textUnblocked)
			w.reply(b.m)
		}
		w.unblockAll(p.s)
	})
}
