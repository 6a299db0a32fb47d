package virtual

import (
	"strconv"
	"strings"

	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/virtual/redis"
)

// snapshot records all keys, as a replica reads them when it reconnects.
func (s *server) snapshot() {
	s.emit(history.Event{Kind: history.TapUp})
	s.Present(s.set.t, func(c redis.Change) { s.show(c, true) })
}

// emitOf records a server's action. It names a server other than the sentinels' master.
func (s *server) emit(e history.Event) {
	if s != s.set.master {
		e.Node = s.name()
	}
	s.set.emit(e)
}

// wrote appends a write to the server's stream. A server that history includes shows it.
func (s *server) wrote(c redis.Change) {
	p := s.peer
	if p != nil && c.Kind != redis.Added {
		p.write(c)
	}
	if p == nil || p.told {
		s.show(c, false)
	}
}

// show records a change of a server's keys in history, and schedules the check of the key's expiry. A snapshot shows the present keys.
func (s *server) show(c redis.Change, snapshot bool) {
	var e history.Event
	switch c.Kind {
	case redis.Granted:
		s.timer(evLeaseExpiry, c.N)
		if s == s.set.master {
			s.set.granted(c.N, c.Text)
		}
		e = history.Event{Kind: history.RedisGranted, Session: s.LeaseID(c.N), Instance: c.Text, Until: s.TrueOf(s.set.t, c.Expire)}
	case redis.Extended:
		e = history.Event{Kind: history.RedisExtended, Session: s.LeaseID(c.N), Instance: c.Text, Until: s.TrueOf(s.set.t, c.Expire)}
	case redis.Deleted:
		e = history.Event{Kind: history.RedisDeleted, Session: s.LeaseID(c.N)}
	case redis.Fenced:
		if c.At == 0 {
			return
		}
		e = history.Event{Kind: history.RedisFence, Session: s.LeaseID(c.N), Fence: c.At}
	case redis.EpochSet:
		e = history.Event{Kind: history.RedisEpoch, N: number(snapshot), Reason: c.Text}
	case redis.Beaten:
		s.timer(evBeatExpiry, c.N)
		e = history.Event{Kind: history.RedisBeat, Instance: s.BeatID(c.N), Until: s.TrueOf(s.set.t, c.Expire)}
	case redis.BeatGone:
		e = history.Event{Kind: history.RedisBeatGone, Instance: s.BeatID(c.N)}
	case redis.Flushed:
		e = history.Event{Kind: history.RedisFlushed}
	default:
		s.showRecord(c, snapshot)
		return
	}
	if snapshot && c.Kind != redis.EpochSet {
		e.Reason = "snapshot"
	}
	s.emit(e)
}

// showRecord records a change of a key that leases do not use. Only the intent system has such keys.
func (s *server) showRecord(c redis.Change, snapshot bool) {
	record, isRecord := strings.CutPrefix(c.Name, recordPrefix)
	idem, isIdem := strings.CutPrefix(c.Name, idemPrefix)
	switch {
	case c.Kind == redis.Stored && isIdem:
		e := history.Event{Kind: history.RedisKeyed, Session: c.Text, Reason: idem, N: number(snapshot)}
		if c.Expire != redis.Forever {
			e.Until = s.TrueOf(s.set.t, c.Expire)
		}
		s.emit(e)
	case c.Kind == redis.Hashed && isRecord:
		s.showState(record, c.Words, snapshot)
	case c.Kind == redis.Added && c.Name == busKey:
		e := history.Event{Kind: history.RedisIntent}
		for i := 0; i+1 < len(c.Words); i += 2 {
			switch c.Words[i] {
			case "session":
				e.Session = c.Words[i+1]
			case "type":
				e.Reason = c.Words[i+1]
			}
		}
		s.emit(e)
	case c.Kind == redis.Removed && isIdem:
		s.emit(history.Event{Kind: history.RedisUnkeyed, Reason: idem})
	case c.Kind == redis.Removed && isRecord:
		s.emit(history.Event{Kind: history.RedisState, Session: record, Reason: "gone"})
	}
}

func (s *server) showState(id string, pairs []string, snapshot bool) {
	e := history.Event{Kind: history.RedisState, Session: id, N: number(snapshot)}
	var state, reason string
	for i := 0; i+1 < len(pairs); i += 2 {
		switch pairs[i] {
		case "stop":
			if s.peer != nil { // with one server, the answers record it
				s.emit(history.Event{Kind: history.RedisIntent, Session: id, Reason: "stop", N: e.N})
			}
		case "state":
			state = pairs[i+1]
		case "reason":
			reason = pairs[i+1]
		case "fence":
			e.Fence, _ = strconv.ParseInt(pairs[i+1], 10, 64)
		}
	}
	if state == "" {
		return
	}
	if snapshot {
		e.Fence = 0 // a snapshot does not show the fence
	}
	e.Reason = strings.TrimSpace(state + " " + reason)
	s.emit(e)
}

// streamOf names a server's stream in history. The sentinels' master has "".
func (s *server) stream() string {
	if s == s.set.master {
		return ""
	}
	return s.name()
}
