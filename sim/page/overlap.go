package page

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
)

// untilSlack is how much longer than Redis' grant a node may trust its lease, because its messages arrive late.
const untilSlack = 5 * time.Millisecond

// overlap explains a lease that two owners trusted at once.
type overlap struct {
	*story
	why   string
	step2 string // text of the step at the missed deadline
}

func (s *overlap) explain() ([]part, []step) {
	s.because()
	a, z := s.owners[0].Name, s.owners[1].Name
	sentence := []part{
		{a, "a"},
		{Text: " and "},
		{z, "b"},
		{Text: " both trusted the lease of session "},
		{s.name, "code"},
		{Text: " for "},
		{plainly(s.To - s.From), "red"},
		{Text: " from " + when(s.From) + ". " + s.why + s.lasted()},
	}
	steps := s.faultStep()
	if s.due != 0 && s.step2 != "" {
		steps = append(steps, step{us(s.due), s.step2})
	}
	begins := s.begins()
	third := fmt.Sprintf("%s %s while %s still trusts. Two owners from here.", z, begins, a)
	if s.due > s.From {
		third = fmt.Sprintf("%s %s, %s too early. Two owners from here.", z, begins, plainly(s.due-s.From))
	} else if g := s.before(s.From, isGrant); begins == "acquires" && g != nil && g.instance == shown(s.Owners[1].Instance) {
		third = fmt.Sprintf("%s grants the lease to %s, which acquires it. Two owners from here.", cmp.Or(s.server(g), "Redis"), z)
	}
	steps = append(steps, step{us(s.From), third}, step{us(s.To), fmt.Sprintf("%s: %s with two owners.", s.ending(), plainly(s.To-s.From))})
	return sentence, steps
}

// because explains why two owners trusted one lease, by the first rule that fits.
func (s *overlap) because() {
	a, z := s.owners[0].Name, s.owners[1].Name
	said := s.lastOf(s.Owners[0].Instance, s.From, history.Acquired, history.Renewed)
	lead := func(then string) string {
		if c := s.struck(); c != "" {
			return c + ": " + then
		}
		return strings.ToUpper(then[:1]) + then[1:]
	}
	granted := s.granted()
	if s.split(granted, a, z) {
		return
	}
	if at, what, ok := s.forgot(); ok {
		s.due, s.missed = at+int64(s.p.TTL), z+" had to wait until here (one TTL)"
		s.why = fmt.Sprintf("%s had erased the lease that %s held, and %s did not wait one TTL (until %s) before it acquired.", what, a, z,
			when(s.due))
		s.step2 = fmt.Sprintf("%s may trust its lease until here; before %s nobody else may be given it.", a, when(s.due))
		return
	}
	if s.begins() == "renews" && s.renewsAnothers(1, 0, s.From-int64(s.p.RenewTimeout), s.From) {
		s.due = 0 // the first owner trusts rightly
		s.why = lead(fmt.Sprintf("%s renewed the lease of %s without comparing its owner.", z, a))
		return
	}
	if said != nil && said.until == 0 && granted != nil {
		s.ends(granted, a)
		s.why = lead(fmt.Sprintf("its lease ended at Redis at %s, but %s had set itself no deadline (no “until”) and trusted on.",
			when(s.due), a))
		s.step2 = fmt.Sprintf("The lease of %s ends at Redis. By here it must have stopped trusting. It gave no deadline (no “until”), "+
			"so it never does.", a)
		return
	}
	if key := s.erased(granted); key != nil {
		s.due, s.missed = key.at, "the key of "+a+" was deleted"
		s.why = fmt.Sprintf("The key of %s was deleted at %s, %s before its end, %s.", a, when(key.at), plainly(granted.until-key.at),
			s.eraser(key))
		s.step2 = fmt.Sprintf("The key is deleted %s; %s knows nothing of it.", s.eraser(key), a)
		return
	}
	if said != nil && granted != nil && said.until > granted.until+int64(untilSlack) {
		s.ends(granted, a)
		s.why = lead(fmt.Sprintf("%s trusted until %s, %s longer than Redis had granted it (until %s).", a, when(said.until),
			plainly(said.until-granted.until), when(s.due)))
		s.step2 = fmt.Sprintf("The lease of %s ends at Redis. Its own deadline, %s, is too late.", a, when(said.until))
		return
	}
	if s.due != 0 {
		s.missed = "the lease of " + a + " ended at Redis"
		s.step2 = fmt.Sprintf("By here %s must have stopped trusting.", a)
	}
	s.why = s.lastFault()
}

// split explains the overlap by two servers that acted as masters, if it finds the last grant of each server.
func (s *overlap) split(first *event, a, z string) bool {
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

// renewsAnothers reports whether, between from and to, the instance by reported a renewal, and Redis extended the key more often than its
// owner of reported.
func (s *overlap) renewsAnothers(by, of int, from, to int64) bool {
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
func (s *overlap) lasted() string {
	if !s.renewsAnothers(0, 1, s.From, s.To) {
		return ""
	}
	return fmt.Sprintf(" It lasted because %s kept renewing the lease of %s without comparing its owner.", s.owners[0].Name, s.owners[1].Name)
}

// begins returns the verb for how the second owner came to trust the lease.
func (s *overlap) begins() string {
	if e := s.lastOf(s.Owners[1].Instance, s.From, history.Acquired, history.Renewed); e != nil && e.kind == history.Renewed {
		return "renews"
	}
	return "acquires"
}

// forgot returns when Redis returned without its data while the first owner had its lease; false if it did not.
func (s *overlap) forgot() (at int64, what string, ok bool) {
	since := s.lastOf(s.Owners[0].Instance, s.From, history.Acquired)
	for _, m := range s.m.Marks {
		t := m.At * perMs
		empty := m.Kind == history.RedisFlushed.String() || m.Kind == history.RedisUp.String() && m.Why == "empty"
		if empty && t <= s.From && t+int64(s.p.TTL) > s.From && (since == nil || since.at < t) {
			at, ok = t, true
		}
	}
	if !ok {
		return 0, "", false
	}
	what = "Redis, which came back empty,"
	for _, f := range s.m.Faults {
		if f.Node < 0 && f.From*perMs <= at+perMs && at <= f.To*perMs+int64(time.Second) {
			what = "A " + f.Kind
		}
	}
	return at, what, true
}

func (s *overlap) ends(granted *event, a string) {
	s.due, s.missed = granted.until, "deadline: the lease of "+a+" ended at Redis"
}

// erased returns the deletion of the first owner's key before the key's end; nil if there is none.
func (s *overlap) erased(granted *event) *event {
	if granted == nil {
		return nil
	}
	key := s.before(s.From, func(e *event) bool { return e.kind == history.RedisDeleted && s.server(e) == s.server(granted) })
	if key == nil || key.at < granted.at || key.at >= granted.until-int64(untilSlack) {
		return nil
	}
	return key
}

// eraser describes who deleted the key. A delayed release that does not compare owners may have deleted another owner's key.
func (s *overlap) eraser(key *event) string {
	for _, e := range s.events {
		if e.kind == history.Released && e.at >= key.at-int64(deletedBy) && e.at <= key.at+int64(deletedBy) {
			return "when " + s.nameOf(e.node, e.instance) + " released"
		}
	}
	for _, f := range s.m.Faults {
		if at := f.From * perMs; f.Kind == "key-delete" && at >= key.at-int64(deletedBy) && at <= key.at+int64(deletedBy) {
			return "by the plan’s foreign hand (key-delete)"
		}
	}
	late := s.before(key.at, func(e *event) bool { return e.kind == history.Released })
	if late != nil && late.at >= key.at-2*int64(s.p.TTL) {
		return fmt.Sprintf("when the release of %s came, %s late", s.nameOf(late.node, late.instance), plainly(key.at-late.at))
	}
	return "and it is not known by whom"
}

func (s *overlap) ending() string {
	for _, e := range s.events {
		own := slices.IndexFunc(s.Owners, func(o check.Owner) bool { return shown(o.Instance) == e.instance })
		if own < 0 || e.at < s.To-perMs || e.at > s.To+perMs {
			continue
		}
		name := s.owners[own].Name
		why := ""
		if e.reason != "" {
			why = ", “" + e.reason + "”"
		}
		switch e.kind {
		case history.Lost:
			return name + " learns of it and lets go (lost" + why + ")"
		case history.Released:
			return name + " releases it" + why
		case history.RenewFailed:
			return name + " cannot renew and stops trusting" + why
		}
	}
	for _, o := range s.owners {
		if o.Node >= 0 && slices.ContainsFunc(s.m.Nodes[o.Node].Lives, func(l [2]int64) bool { return l[1] == ms(s.To) }) {
			return o.Name + " stops trusting only because its process ends"
		}
	}
	if s.To >= s.m.End*perMs {
		return "The run ends while both trust"
	}
	return "A trust window closes"
}
