package page

import (
	"cmp"
	"fmt"

	"github.com/leasestorm/leasestorm/sim/history"
)

// nameTokens replaces the tokens in a lease's key by the instances that own them. As in G1, a token belongs to the instance that first
// reports acquired while Redis holds it.
func (c *collector) nameTokens(events []event) {
	holder, owner := "", map[string]string{}
	for _, e := range events {
		switch e.kind {
		case history.RedisGranted:
			holder = e.instance
		case history.RedisDeleted:
			holder = ""
		case history.Acquired:
			if _, named := c.instances[holder]; !named {
				owner[holder] = cmp.Or(owner[holder], e.instance)
			}
		}
	}
	delete(owner, "")
	for i := range events {
		if e := &events[i]; e.kind.OfRedis() {
			e.instance = cmp.Or(owner[e.instance], e.instance)
		}
	}
}

// renewsAnothers reports whether, between from and to, the instance by reported a renewal, and Redis extended the key more often than its
// owner of reported.
func (s *story) renewsAnothers(by, of int, from, to int64) bool {
	id, other := shown(s.Owners[by].Instance), shown(s.Owners[of].Instance)
	renewed, extended := false, 0
	for _, e := range s.events {
		switch {
		case e.at < from || e.at > to+int64(s.p.RenewTimeout):
		case e.instance == other && (e.kind == history.Renewed || e.kind == history.RenewFailed):
			extended--
		case e.at > to:
		case e.instance == other && e.kind == history.RedisExtended:
			extended++
		case e.instance == id && e.kind == history.Renewed:
			renewed = true
		}
	}
	return renewed && extended > 0
}

// lasted explains why the overlap outlasted the first owner's next renewal; "" if that is unknown.
func (s *story) lasted() string {
	if !s.renewsAnothers(0, 1, s.From, s.To) {
		return ""
	}
	return fmt.Sprintf(" It lasted because %s kept renewing the lease of %s without comparing its owner.", s.owners[0].Name, s.owners[1].Name)
}

// begins returns the verb for how the second owner came to trust the lease.
func (s *story) begins() string {
	if e := s.lastOf(s.Owners[1].Instance, s.From, history.Acquired, history.Renewed); e != nil && e.kind == history.Renewed {
		return "renews"
	}
	return "acquires"
}
