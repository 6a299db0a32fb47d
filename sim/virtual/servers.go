package virtual

import (
	"slices"

	"github.com/leasestorm/leasestorm/sim/history"
)

// History contains the streams of all acting masters, their acknowledged writes, and when the sentinels' master was available to whom.

func (w *world) retap() {
	for _, p := range w.sentinels.peers {
		if p.told && (!p.acts() || p.toldAs != w.streamOf(p.s)) {
			e := history.Event{Kind: history.TapDown, Node: p.toldAs}
			if p.acts() {
				e.Reason = w.streamOf(p.s)
			}
			w.emit(e)
			p.told = false
		}
	}
	for _, p := range w.sentinels.peers {
		if !p.told && p.acts() {
			p.told, p.toldAs = true, w.streamOf(p.s)
			w.snapshot(p.s)
		}
	}
}

func (p *peer) acts() bool { return p.of == nil && !p.s.down && (p.owned || !p.w.clustered()) }

// follows reports whether the server is a replica, which expires keys only when its master does.
func (s *server) follows() bool { return s.peer != nil && s.peer.of != nil }

// streamOf names a server's stream in history. The sentinels' master has "".
func (w *world) streamOf(s *server) string {
	if s == w.server {
		return ""
	}
	return s.name()
}

func (w *world) majority() int { return (w.cfg.Replicas + 1) / 2 }

// tellAcked records up to which time a majority has acknowledged a master's writes.
func (w *world) tellAcked(p *peer) {
	k := w.majority()
	if !p.told || k == 0 {
		return
	}
	offsets := make([]int, 0, len(p.acks))
	for _, a := range p.acks {
		if a.attached {
			offsets = append(offsets, a.offset)
		}
	}
	if len(offsets) < k {
		return
	}
	slices.Sort(offsets)
	at := offsets[len(offsets)-k] - p.base
	if at <= p.acked || at > len(p.written) {
		return
	}
	p.acked = at
	w.emit(history.Event{Kind: history.RedisAcked, Node: p.toldAs, Until: p.written[at-1]})
}

func (w *world) tellServers() {
	se, s := w.sentinels, w.server
	lived := s.Life()
	switch {
	case se.knew == nil || se.lived == lived && se.knew == s:
	case se.knew != s:
		w.emit(history.Event{Kind: history.RedisLife, Reason: history.LifeSwitch})
	case se.runID != s.RunID:
		w.emit(history.Event{Kind: history.RedisLife, Reason: history.LifeRestart})
	default:
		w.emit(history.Event{Kind: history.RedisLife, Reason: history.LifeAttachment})
	}
	begun := se.knew != nil
	se.knew, se.lived, se.runID = s, lived, s.RunID
	if serves := w.serves(s.peer); serves != se.serves || !begun {
		se.serves = serves
		w.emit(history.Event{Kind: history.RedisMajority, N: number(serves)})
	}
	for _, n := range w.nodes {
		l := &n.link
		if routed := (l.to == s.number || l.told == s) && w.reaches(n, s) && !w.waitsElsewhere(l); n.alive && routed == l.astray {
			l.astray = !routed
			w.emit(history.Event{Kind: history.Routed, Node: n.name, N: number(routed)})
		}
	}
}

func number(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (w *world) serves(m *peer) bool {
	s := m.s
	if m.of != nil || s.down || m.refusesAll() || s.hold > 0 || s.loading > 0 || s.Refuses() {
		return false
	}
	n := 0
	for _, x := range w.sentinels.peers {
		if a := m.acks[x.s.number]; x.of == m && x.linked && w.meet(x, m) && x.s.hold == 0 && a.link == x.link && a.offset >= 0 {
			n++
		}
	}
	return n >= w.majority()
}
