package page

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leasestorm/leasestorm/internal/plain"
	"github.com/leasestorm/leasestorm/sim/check"
	"github.com/leasestorm/leasestorm/sim/history"
	"github.com/leasestorm/leasestorm/sim/report"
)

// deletedBy is the largest distance of a deletion from the event that explains it.
const deletedBy = 20 * time.Millisecond

// event is a kept event, with its times in ns.
type event struct {
	at, until int64
	kind      history.Kind
	node      int
	instance  string
	reason    string
}

type story struct {
	*builder
	one
	session int
	name    string // short name of the session
	owners  []owner
	events  []event // events of the session, in order
	fault   *spell
	due     int64  // deadline that was missed; 0: none
	missed  string // its meaning
}

// evidence returns the judge's events of the guarantee as lines. They belong to its first break only.
func (s *story) evidence() (lines []string) {
	for _, v := range s.r.Guarantees {
		if v.ID != s.id || s.more {
			continue
		}
		for i := range v.Evidence[:min(len(v.Evidence), linesMax)] {
			lines = append(lines, shown(report.Line(&v.Evidence[i])))
		}
	}
	return lines
}

const linesMax = 60

// users adds the last users to the break's owners. A break without a lease has no other owners, and one of two pollers may own nothing.
func (s *story) users() {
	for i := range slices.Backward(s.events) {
		e := &s.events[i]
		known := slices.ContainsFunc(s.owners, func(o owner) bool { return o.Node == e.node })
		if e.at <= s.From+perMs && e.node >= 0 && !known && len(s.owners) < 2 && e.kind == history.Arrived {
			s.owners = append(s.owners, owner{Node: e.node, Name: s.nameOf(e.node, "")})
		}
	}
}

func (s *story) lead() {
	had, since, fence := -1, int64(-1), exact(0)
	all := &s.m.Terms
	for i, of := range all.Session {
		if int(of) == s.session && all.From[i] <= ms(s.From) && all.From[i] > since {
			had, since, fence = int(all.Node[i]), all.From[i], all.Fence[i]
		}
	}
	if had >= 0 && !slices.ContainsFunc(s.owners, func(o owner) bool { return o.Node == had }) {
		s.owners = append(s.owners, owner{had, s.nameOf(had, ""), fence})
	}
	slices.SortStableFunc(s.owners, func(x, y owner) int { return less(x.Node == had, y.Node == had) })
}

func (s *story) nameOf(node int, instance string) string {
	if node >= 0 {
		return s.m.Nodes[node].Name
	}
	return shown(instance)
}

func (s *story) cause() {
	if s.Fault == nil {
		return
	}
	for i := range s.m.Faults {
		if f := &s.m.Faults[i]; f.N == s.Fault.N {
			s.fault = f
		}
	}
}

// struck returns the fault's effect as a main clause in the past perfect; "" if there is no fault.
func (s *story) struck() string {
	f := s.fault
	if f == nil {
		return ""
	}
	whom := "Redis"
	if f.Node >= 0 {
		whom = s.m.Nodes[f.Node].Name
	}
	a := "A "
	if strings.ContainsAny(f.Kind[:min(1, len(f.Kind))], "aeiou") {
		a = "An "
	}
	switch f.Kind {
	case "blackhole", "cut", "requests-lost", "replies-lost", "flapping":
		return a + f.Kind + " had cut " + whom + " off"
	case "freeze", "check-send", "suspend", "redis-freeze":
		return a + f.Kind + " had stopped " + whom
	case "crash", "crash-all", "terminate", "leave":
		return a + f.Kind + " had ended " + cmp.Or(map[bool]string{true: "the nodes"}[f.Node < 0], whom)
	}
	return a + f.Kind + " had struck " + whom
}

// before returns the latest event, not after at, for which is returns true; nil if there is none.
func (s *story) before(at int64, is func(e *event) bool) *event {
	for i := range slices.Backward(s.events) {
		if e := &s.events[i]; e.at <= at && is(e) {
			return e
		}
	}
	return nil
}

func (s *story) lastOf(instance string, at int64, kinds ...history.Kind) *event {
	return s.before(at, func(e *event) bool { return e.instance == shown(instance) && slices.Contains(kinds, e.kind) })
}

func (s *story) granted() *event { return s.grantOf(shown(s.Owners[0].Instance)) }

func (s *story) grantOf(id string) *event {
	return s.before(s.From, func(e *event) bool {
		return (e.kind == history.RedisGranted || e.kind == history.RedisExtended) && (e.instance == id || e.instance == "") && e.until > 0 &&
			e.until <= s.From+int64(s.p.TTL*101/100) // a clock may run slow within the margin
	})
}

func (s *story) lastFault() string {
	switch {
	case s.fault == nil && len(s.p.Plan.Faults) == 0:
		return ""
	case s.fault == nil:
		return "No fault of the plan explains it."
	}
	whom := ""
	switch f := s.fault; {
	case f.Node >= 0:
		whom = " on " + s.m.Nodes[f.Node].Name
	case f.Session >= 0:
		whom = " on session " + s.m.short(s.m.Sessions[f.Session].Name)
	}
	return fmt.Sprintf("The last fault before it was %s%s, at %s.", s.fault.Kind, whom, when(s.fault.From*perMs))
}

func isGrant(e *event) bool { return e.kind == history.RedisGranted }

func (s *story) faultStep() []step {
	f := s.fault
	if f == nil {
		return nil
	}
	text := "Fault “" + f.Kind + "”"
	if f.Node >= 0 {
		text += " on " + s.m.Nodes[f.Node].Name
	}
	until := ""
	if f.To > f.From {
		until = " until " + when(f.To*perMs)
	}
	switch f.Kind {
	case "blackhole", "cut":
		text += ": nothing passes between it and Redis" + until
	case "freeze", "check-send", "suspend":
		text += ": the process stands still" + until
	case "redis-wipe", "redis-flush":
		text += ": Redis forgets all leases"
	default:
		text += until
	}
	if len(s.Owners) > 0 {
		if g := s.granted(); g != nil && g.at < f.To*perMs && g.at < s.From {
			text += ". Redis executed the last renewal of " + s.owners[0].Name + " at " + when(g.at)
		}
	}
	return []step{{f.From * 1000, text + "."}}
}

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

const saidMax = 500

// inBrackets matches an instance's ID, which the judge writes in brackets after its slot.
var inBrackets = regexp.MustCompile(` \(([^() ]+)\)`)

// said returns the judge's text of the break, with short session names, and without instance IDs whose slots are known.
func (s *story) said(text string) string {
	text = inBrackets.ReplaceAllStringFunc(plain.Text(plain.Cut(text, saidMax)), func(found string) string {
		if _, known := s.c.instances[found[2:len(found)-1]]; known {
			return ""
		}
		return found
	})
	if s.session >= 0 && s.Session != s.name {
		text = strings.ReplaceAll(text, s.Session, s.name)
	}
	return timed(text)
}

// accused makes the instance in the judge's text the owner of a break without owners and session.
func (s *story) accused() {
	if len(s.owners) > 0 || s.session >= 0 {
		return
	}
	if found := inBrackets.FindStringSubmatch(s.Text); found != nil {
		if n, known := s.c.instances[found[1]]; known && n >= 0 {
			s.owners = []owner{{Node: n, Name: s.nameOf(n, "")}}
		}
	}
}
