package page

import (
	"fmt"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// server returns the Redis server of the event; "" for the only one, or for the master that the sentinels know.
func (s *story) server(e *event) string {
	if e.node < 0 || !(e.kind.OfRedis() || e.kind.OfRecords()) {
		return ""
	}
	if name := s.m.Nodes[e.node].Name; s.c.servers[name] {
		return name
	}
	return ""
}

func (s *story) known(server string) string {
	switch {
	case server != "":
		return server
	case s.p.Topology == check.TopologyCluster:
		return "the master of the slot"
	}
	return "the master that the sentinels know"
}

// split explains the overlap by two servers that acted as masters, if it finds the last grant of each server.
func (s *story) split(first *event, a, z string) bool {
	second := s.grantOf(shown(s.Owners[1].Instance))
	if first == nil || second == nil || s.server(first) == s.server(second) {
		return false
	}
	at := s.server(second)
	did := func(e *event, what string) string {
		if e.kind == history.RedisExtended {
			return "extended " + what + " for"
		}
		return "granted " + what + " to"
	}
	s.why = fmt.Sprintf("Two servers of Redis acted as masters: %s had %s %s at %s (until %s), and %s %s %s at %s",
		s.known(s.server(first)), did(first, "the lease"), a, when(first.at), when(first.until), s.known(at), did(second, "it"), z,
		when(second.at))
	gone := s.before(second.at, func(e *event) bool { return e.kind == history.RedisDeleted && s.server(e) == at })
	if gone == nil || gone.at+int64(s.p.TTL) < second.at { // that deletion belongs to an earlier lease
		s.why += "."
		return true
	}
	own := s.before(gone.at, func(e *event) bool {
		return (e.kind == history.RedisGranted || e.kind == history.RedisExtended) && s.server(e) == at && e.at < gone.at
	})
	how := "was deleted"
	if own != nil && own.until != 0 && own.until <= gone.at+int64(untilSlack) {
		how = "expired"
	}
	s.why += fmt.Sprintf(", where the key %s at %s.", how, when(gone.at))
	s.due, s.missed = gone.at, "the key at "+s.known(at)+" "+how
	s.step2 = fmt.Sprintf("The key at %s %s. %s has the lease at %s and knows nothing of it.", s.known(at), how, a, s.known(s.server(first)))
	return true
}
